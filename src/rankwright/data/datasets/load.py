"""Named data sets as the containers that rankers and metrics take."""

from __future__ import annotations

from typing import Any

from rankwright.data.datasets.catalog import DATASETS, Dataset
from rankwright.data.datasets.folder import find_shelf
from rankwright.exceptions import ParameterError


def list_datasets() -> dict[str, str]:
    """Every name that :func:`load_dataset` knows, and what it stands for.

    >>> list_datasets()["movielens-1m"]
    '1,000,209 ratings of 3,706 films by 6,040 users, 1 to 5 stars'
    """
    return {name: entry.about for name, entry in DATASETS.items()}


def load_dataset(name: str, **options: Any) -> Any:
    """Load a public data set by name.

    The files are looked for in the folder that the environment variable ``RANKWRIGHT_DATA`` names,
    then in the cache of the operating system, then downloaded from their publisher where a
    checksum is stated (the MovieLens sets). Otherwise the error tells the address, the terms of
    use and the layout that is expected. Files may be gzipped or not.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    **options
        ``fold=1`` .. ``5`` for the LETOR sets: training, validation and test part; without it, all
        queries together. ``version="null"`` or ``"min"`` for ``letor3-ohsumed``: raw features, gaps
        as NaN or filled. ``implicit=True`` for ``book-crossing``: keep ratings of 0.

    Returns
    -------
    data : Ratings, Judgments, Items, Partition or Track
        A :class:`Partition` has ``train``, ``vali`` (perhaps None) and ``test``; a :class:`Track`
        has ``runs`` (by name) and ``qrels``.

    Raises
    ------
    DatasetError
        The data are neither here nor to be had, and why.

    Examples
    --------
    >>> load_dataset("movielens-2m")
    Traceback (most recent call last):
    ...
    rankwright.exceptions.ParameterError: no data set 'movielens-2m'. Known: movielens-1m, ...
    """
    if name not in DATASETS:
        raise ParameterError(f"no data set {name!r}. Known: {', '.join(DATASETS)}.")
    entry = DATASETS[name]
    _check_options(name, entry, options)
    shelf = find_shelf(entry.folder or name, entry.files, entry.archive, _how_to_get(name, entry))
    return entry.load(shelf, **options)


def _check_options(name: str, entry: Dataset, options: dict[str, Any]) -> None:
    strange = [option for option in options if option not in entry.options]
    if strange:
        known = f"has the options {', '.join(entry.options)}" if entry.options else "has no options"
        raise ParameterError(f"load_dataset({name!r}, {strange[0]}=...): {name} {known}.")


def _how_to_get(name: str, entry: Dataset) -> str:
    folder = entry.folder or name
    return (
        f"Get it from: {entry.address}\n"
        f"Terms: {entry.terms}\n"
        f"Layout: a folder {folder} with {', '.join(entry.files)} (each plain or .gz), inside the "
        "folder that RANKWRIGHT_DATA names."
    )
