"""Save and load fitted models, in files that contain nothing executable."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from rankwright import __version__
from rankwright.data.io.files import atomic_write
from rankwright.exceptions import DataError, ModelFileError, ParameterError
from rankwright.features.fitted import FittedFeatures
from rankwright.persist import classes
from rankwright.persist import format as fmt
from rankwright.persist.codec import Packer, Unpacker, build_state, pack_state
from rankwright.persist.foreign import load_foreign
from rankwright.persist.format import Manifest, NotModelFile, Refused, ScorerNode
from rankwright.persist.provenance import Provenance, provenance_of
from rankwright.persist.scorer import encoding_of, scorer_of
from rankwright.rankers import preprocessing

_IDLE = classes.FLEETING | {"n_jobs", "verbose"}  # parameters that change no model


def save(
    model: object, path: str | os.PathLike[str], *, provenance: Provenance | None = None
) -> None:
    """Save a fitted ranker, transformer, pipeline, recommender or learned fusion to a file.

    The new file replaces ``path`` atomically once it is complete and on disk. It gets the
    permissions of the umask; a replaced file keeps its own. Models that keep training rows
    (kernels, neighbors) store them in the file, and a recommender stores all its ratings: for
    confidential data, set ``umask 077`` first.

    Parameters
    ----------
    model : a fitted ranker of rankwright, a ``Recommender``, a ``LearnedFusion``, a
        ``QueryNormalizer``, or a scikit-learn ``Pipeline`` of rankers with ``StandardScaler``,
        ``MinMaxScaler`` or ``MaxAbsScaler``. A custom ranker whose scorer is a class of
        ``rankwright.scoring`` is saved as that scorer, without your class
    path : where to write, usually with the extension ``.rw``
    provenance : how the model was made, from :func:`rankwright.persist.provenance_of`; None records
        its parameters and the versions of libraries, without a date: equal models give equal files

    Raises
    ------
    ParameterError
        The model is not fitted, or contains a function or a custom class without such a scorer.

    Examples
    --------
    >>> import tempfile, pathlib, rankwright as rw
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.rw"
    >>> model = rw.RidgeRanker(alpha=0.1).fit([[0.0], [1.0]], [0, 1])
    >>> rw.save(model, path)
    >>> rw.load(path)
    RidgeRanker(alpha=0.1)
    """
    if hasattr(model, "_saved_as"):  # an AutoRanker is saved as the ranker that it chose
        model = model._saved_as()
    (manifest, arrays), kind = _pack(model), type(model).__name__
    made = provenance_of(model, dated=False) if provenance is None else provenance
    manifest = msgspec.structs.replace(manifest, provenance=made)
    try:
        _unpack(manifest, arrays, own=False)  # a file that could not be loaded is not written
        fmt.write_file(path, manifest, arrays)
    except Refused as refused:
        raise ParameterError(f"save: {kind}: {refused.reason}.") from refused
    except DataError as error:
        fault = f"save: {kind} is not in a state that fit could have left ({error})"
        raise ParameterError(fault) from error


def load(
    path: str | os.PathLike[str], *, max_bytes: int = fmt.MAX_BYTES, mmap: bool = False
) -> Any:
    """Load a model from a file written by :func:`save` or by another library.

    Safe for untrusted files: nothing in a file is executed, sizes are checked before memory
    is allocated, and every value is checked against what training could have produced.

    Models of LightGBM (text), XGBoost (JSON, UBJSON), RankLib (text), CatBoost (``.cbm``) and ONNX
    files are read as well, so that they can be evaluated next to others. The last two need the
    extra ``peers``; their readers see a file in a child process first.

    Parameters
    ----------
    path : path of a model file
    max_bytes : refuse a larger file before reading it; default 2 GiB
    mmap : memory-map large arrays, so that all processes that load the file share them; do not
        change the file in place while it is in use (``save`` replaces it, which is safe)

    Returns
    -------
    model : the estimator, with equal parameters, learned attributes and scores; for a model of
        another library, or a custom ranker, an object with ``decision_function``,
        ``predict`` and ``rank``

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
    with fmt.refusing(path):
        try:
            content = fmt.read_file(path, max_bytes, mmap=mmap)
        except NotModelFile as fault:
            return load_foreign(path, fault, max_bytes)
        return _unpack(*content)


def model_digest(model: object, *, max_bytes: int = fmt.MAX_BYTES) -> str:
    """Compute the SHA-256 of a model: of its parameters and of all that it has learned.

    Two models with an equal digest give equal scores, bit for bit. Left out are the version that
    wrote the file, parameters that change no model (``n_jobs``, ``verbose``, ``callbacks``,
    ``memory``), and what files leave out, such as a ``RandomState``.

    Parameters
    ----------
    model : a fitted model that :func:`save` takes, or the path of a file that it wrote
    max_bytes : refuse a larger file before reading it; default 2 GiB

    Examples
    --------
    >>> import rankwright as rw
    >>> X, y = [[0.0], [1.0]], [0, 1]
    >>> models = [rw.LambdaMART(min_samples_leaf=1, n_jobs=n).fit(X, y) for n in (1, 2)]
    >>> len({rw.model_digest(model) for model in models})
    1
    """
    if isinstance(model, str | os.PathLike):
        with fmt.refusing(model):
            manifest = fmt.read_file(model, max_bytes)[0]
    else:
        manifest = _pack(model._saved_as() if hasattr(model, "_saved_as") else model)[0]
    return fmt.digest(manifest, _IDLE)


def _pack(model: object) -> tuple[Manifest, dict[str, fmt.Array]]:
    packer = Packer(classes.pack_node)
    name = classes.own_ranker(model)
    node = None if name else classes.pack_model(packer, model, "model")
    first = preprocessing.first_estimator(model)
    if not _is_fitted(first):
        raise ParameterError(f"save: {type(model).__name__} is not fitted. Call fit first.")
    if node is None:
        classes.check_served(model)
        node = fmt.ModelNode(fmt.SCORER, {"name": name}, {})
    served = _pack_served(packer, model)
    names = getattr(first, "feature_names_in_", None)
    named = None if names is None else [str(name) for name in names]
    encoding = preprocessing.encoding_of(model)
    features = None
    if isinstance(encoding, FittedFeatures):
        packer.start_section()
        features, encoding = packer.pack(encoding.state(), "features"), None
    content = (node, served, named, packer.stored, encoding, features)
    return Manifest(fmt.FORMAT, __version__, *content), packer.arrays


def _pack_served(packer: Packer, model: object) -> ScorerNode | None:
    if (scoring := classes.serve(model)) is None:
        return None
    packer.start_section()
    transforms, scorer, allow_nan = scoring
    steps = [pack_state(packer, step, f"served.{i}") for i, step in enumerate(transforms)]
    return ScorerNode(steps, pack_state(packer, scorer, "served"), allow_nan)


def _unpack(manifest: Manifest, arrays: dict[str, fmt.Array], *, own: bool = True) -> Any:
    if manifest.model.kind == fmt.SCORER:
        return scorer_of(manifest, arrays)
    nodes = {"model": classes.build_model, "part": classes.build_part, "state": build_state}
    model = classes.build_model(Unpacker(arrays, nodes, own=own), manifest.model)
    classes.use_encoding(model, encoding_of(manifest, arrays))
    if not _is_fitted(preprocessing.first_estimator(model)):
        raise Refused(f"it holds a {manifest.model.kind[:40]} that was never fitted")
    if manifest.served is not None:
        classes.use_scorer(model, scorer_of(manifest, arrays))
        if manifest.served.transforms or not classes.is_plain_scorer(model):
            packer = Packer(classes.pack_node)
            expected = fmt.by_content(_pack_served(packer, model), packer.stored)
            if fmt.by_content(manifest.served, manifest.arrays) != expected:
                raise Refused("its scorer is not that of its model")
    return model


def _is_fitted(model: object) -> bool:
    names = ("n_features_in_", "ratings_", "histories_", "candidates_")
    return any(hasattr(model, name) for name in names)


MARK = "checkpoint.txt"


class Checkpoint:
    """A folder of fitted models for ``AutoRanker(checkpoint=...)``.

    :func:`rankwright.save` writes each model to a file, atomically. If training is interrupted, the
    same call with the same folder resumes; the result is the same bit for bit as without the
    interruption. Other data, parameters or versions are refused.

    Parameters
    ----------
    folder : path
        A new folder, an empty one, or one of an earlier run.

    Examples
    --------
    >>> import tempfile, pathlib, rankwright as rw
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "checkpoint"
    >>> ranker = rw.AutoRanker([("svm", rw.RankSVM())], checkpoint=Checkpoint(folder))
    >>> ranker = ranker.fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    >>> len(list(folder.glob("*.rw")))
    1
    >>> ranker.checkpoint.remove()
    >>> folder.exists()
    False
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def open(self, fingerprint: str) -> None:
        """Begin or go on with the training that the fingerprint stands for."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ParameterError(f"checkpoint {self.folder} is a file. Give the path of a folder.")
        self.folder.mkdir(exist_ok=True)
        mark, content = self.folder / MARK, f"rankwright {__version__}\n{fingerprint}\n".encode()
        if mark.exists():
            if mark.read_bytes() != content:
                raise ParameterError(
                    f"checkpoint {self.folder} belongs to a training with different data, "
                    "parameters or version of rankwright. Repeat that training, or remove the "
                    "folder."
                )
        elif any(self.folder.iterdir()):
            raise ParameterError(
                f"checkpoint {self.folder} contains other files. Give a new or empty folder."
            )
        else:
            with atomic_write(mark) as file:
                file.write(content)

    def load(self, key: str) -> Any:
        """The model that was saved under this key, or None; a damaged file counts as none."""
        try:
            return load(self._path(key))
        except (FileNotFoundError, ModelFileError):
            return None

    def save(self, key: str, model: object) -> None:
        """Keep a fitted model; one that a file cannot hold is trained again after a stop."""
        with suppress(ParameterError):
            save(model, self._path(key))

    def remove(self) -> None:
        """Remove the files of the checkpoint, and the folder if it is empty then."""
        for path in [*self.folder.glob("*.rw"), self.folder / MARK]:
            path.unlink(missing_ok=True)
        with suppress(OSError):
            os.rmdir(self.folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.rw"
