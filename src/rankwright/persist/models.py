"""Save a fitted model and load it again, in a file that holds nothing executable."""

from __future__ import annotations

from typing import Any

from rankwright import __version__
from rankwright.exceptions import DataError, ParameterError
from rankwright.persist.classes import (
    build_model,
    build_part,
    first_estimator,
    pack_model,
    pack_node,
    serve,
)
from rankwright.persist.codec import Packer, Unpacker, build_state, pack_served
from rankwright.persist.format import (
    FORMAT,
    MAX_BYTES,
    Array,
    Manifest,
    Refused,
    read_file,
    refusing,
    write_file,
)
from rankwright.persist.scorer import scorer_of


def save(model: Any, path: Any) -> None:
    """Write a fitted ranker, transformer, pipeline, recommender or learned fusion to a file.

    The new file replaces ``path`` atomically once it is complete and on disk; after a crash or a
    power cut the old file is still there. A new file gets the permissions that the umask gives to
    any file; a replaced file keeps its own. Models that keep training rows (kernels, neighbors)
    store those rows in the file, and a recommender stores all its ratings: for confidential data
    set ``umask 077`` first.

    Parameters
    ----------
    model : a fitted ranker of rankwright, a ``Recommender``, a ``LearnedFusion``, a
        ``QueryNormalizer``, or a scikit-learn ``Pipeline`` of rankers with ``StandardScaler``,
        ``MinMaxScaler`` or ``MaxAbsScaler``
    path : where to write, usually with the extension ``.rw``

    Raises
    ------
    ParameterError
        The model is not fitted, or it holds a function or a class of your own.

    Examples
    --------
    >>> import tempfile, pathlib, rankwright as rw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.rw"
    >>> model = rw.Regression(alpha=0.1).fit([[0.0], [1.0]], [0, 1])
    >>> rw.save(model, path)
    >>> rw.load(path)
    Regression(alpha=0.1)
    """
    if hasattr(model, "_saved_as"):  # an AutoRanker is saved as the ranker that it chose
        model = model._saved_as()
    manifest, arrays = _pack(model)
    try:
        _unpack(manifest, arrays, own=False)  # a file that could not be loaded is not written
        write_file(path, manifest, arrays)
    except Refused as refused:
        raise ParameterError(f"save: {type(model).__name__}: {refused.reason}.") from refused
    except DataError as error:
        raise ParameterError(
            f"save: {type(model).__name__} is not in a state that fit could have left ({error})"
        ) from error


def load(path: Any, *, max_bytes: int = MAX_BYTES) -> Any:
    """Read a model that :func:`save` wrote.

    Safe for files from untrusted sources: nothing in a file runs, sizes are checked before memory
    is allocated, and every value is checked against what training could have produced.

    Parameters
    ----------
    path : path of a model file
    max_bytes : refuse a larger file before reading it; default 2 GiB

    Returns
    -------
    model : the estimator, with equal parameters, learned attributes and scores

    Raises
    ------
    ModelFileError
        The file is damaged, in another format, unsafe or too new. The message says what to do.
    OSError
        The file does not exist or cannot be read.

    Examples
    --------
    >>> import tempfile, pathlib, pickle, rankwright as rw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.pkl"
    >>> _ = path.write_bytes(pickle.dumps([1, 2]))
    >>> rw.load(path)
    Traceback (most recent call last):
    ...
    rankwright.exceptions.ModelFileError: ...model.pkl: it is a pickle (it could run any code ...
    """
    with refusing(path):
        return _unpack(*read_file(path, max_bytes))


def _pack(model: Any) -> tuple[Manifest, dict[str, Array]]:
    packer = Packer(pack_node)
    node = pack_model(packer, model, "model")
    first = first_estimator(model)
    if not _is_fitted(first):
        raise ParameterError(f"save: {type(model).__name__} is not fitted. Call fit first.")
    served = serve(model)
    names = getattr(first, "feature_names_in_", None)
    manifest = Manifest(
        format=FORMAT,
        library=__version__,
        model=node,
        served=None if served is None else pack_served(packer, *served),
        feature_names=None if names is None else [str(name) for name in names],
        arrays=packer.stored,
    )
    return manifest, packer.arrays


def _unpack(manifest: Manifest, arrays: dict[str, Array], *, own: bool = True) -> Any:
    nodes = {"model": build_model, "part": build_part, "state": build_state}
    unpacker = Unpacker(arrays, nodes, own=own)
    model = build_model(unpacker, manifest.model)
    first = first_estimator(model)
    if not _is_fitted(first):
        raise Refused(f"it holds a {manifest.model.kind[:40]} that was never fitted")
    served = serve(model)
    sizes = {first.n_features_in_} if hasattr(first, "n_features_in_") else set()
    if served is not None:
        sizes.add(served[0][0].n_features if served[0] else served[1].n_features)
    if manifest.served is not None:
        sizes.add(scorer_of(manifest, arrays).n_features)
    if len(sizes) > 1:
        raise Refused(f"its model and its scorer disagree on the number of features: {sizes}")
    return model


def _is_fitted(model: Any) -> bool:
    return hasattr(model, "n_features_in_") or hasattr(model, "ratings_")
