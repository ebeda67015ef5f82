"""How the files of a shelf become containers: one function per kind of data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rankwright.data.datasets.folder import Shelf
from rankwright.data.io.judges import read_judges
from rankwright.data.io.letor import read_letor
from rankwright.data.io.ratings import read_ratings
from rankwright.data.io.tables import read_table
from rankwright.data.io.trec import read_qrels, read_run
from rankwright.data.items import Items
from rankwright.data.ratings import Ratings
from rankwright.data.runs import Judgments, Qrels, Run
from rankwright.exceptions import ParameterError


@dataclass(frozen=True)
class Partition:
    """The parts of a data set that its publisher cut: all ``Items``, or all ``Ratings``."""

    train: Any
    vali: Any
    test: Any


@dataclass(frozen=True, eq=False)
class Track:
    """Runs of several engines over the same queries, by name, and the judgments."""

    runs: Mapping[str, Run]
    qrels: Qrels


def load_ratings(shelf: Shelf, file: str, format: str) -> Ratings:
    return read_ratings(shelf(file), format)


def load_book_crossing(shelf: Shelf, *, implicit: bool = False) -> Ratings:
    return read_ratings(shelf("BX-Book-Ratings.csv"), "book-crossing", implicit=implicit)


def load_netflix(shelf: Shelf) -> Partition:
    train, test = (
        read_ratings(shelf(f"{part}.txt"), "netflix") for part in ("training", "testing")
    )
    return Partition(train, None, test)


def load_judges(shelf: Shelf) -> Judgments:
    return read_judges(shelf("cfquery"))


def load_track(shelf: Shelf, qrels: str, runs: str) -> Track:
    found = [read_run(path) for path in shelf.glob(runs)]
    return Track(MappingProxyType({run.name: run for run in found}), read_qrels(shelf(qrels)))


def load_letor_folds(
    shelf: Shelf, n_features: int, folder: str = "", *, fold: int | None = None
) -> Items | Partition:
    """Files Fold1 .. Fold5/{train,vali,test}.txt; all queries are the five test parts."""

    def read(number: int, part: str) -> Items:
        return read_letor(shelf(f"{folder}Fold{number}/{part}.txt"), n_features=n_features)

    if fold is not None:
        return Partition(*(read(_checked(fold), part) for part in ("train", "vali", "test")))
    return Items.concat([read(number, "test") for number in (2, 3, 4, 5, 1)])  # S1 .. S5


def load_ohsumed(
    shelf: Shelf, *, fold: int | None = None, version: str = "QueryLevelNorm"
) -> Items | Partition:
    """The normalized folds, or one of the two files of raw features."""
    if version == "QueryLevelNorm":
        return load_letor_folds(shelf, 45, "QueryLevelNorm/", fold=fold)
    if version not in ("min", "null"):
        raise ParameterError(f'version={version!r}: use "QueryLevelNorm", "min" or "null".')
    if fold is not None:
        raise ParameterError(f"fold={fold}: version {version!r} was not published in folds.")
    return read_letor(shelf(f"Feature-{version}/ALL/OHSUMED.txt"), n_features=45)


def load_letor_parts(
    shelf: Shelf, n_features: int, pattern: str, *, fold: int | None = None
) -> Items | Partition:
    """Five parts; fold 1 trains on parts 1, 2, 3, validates on 4, tests on 5, and so round."""

    def read(number: int) -> Items:
        name = pattern.format(1 + (number - 1) % 5)
        return read_letor(shelf(name), n_features=n_features)

    if fold is None:
        return Items.concat([read(number) for number in range(1, 6)])
    first = _checked(fold)
    train = Items.concat([read(number) for number in range(first, first + 3)])
    return Partition(train, read(first + 3), read(first + 4))


def _checked(fold: int) -> int:
    if fold not in (1, 2, 3, 4, 5):
        raise ParameterError(f"fold={fold!r}: fold must be one of 1 .. 5.")
    return fold


def load_pair(shelf: Shelf, train: str, test: str, n_features: int) -> Partition:
    """A training and a test file, no validation."""
    items = (read_letor(shelf(name), n_features=n_features) for name in (train, test))
    return Partition(next(items), None, next(items))


def load_grouped(shelf: Shelf, n_features: int) -> Partition:
    """LightGBM's example: no qid in the lines, the sizes of the queries in a file beside them."""

    def read(part: str) -> Items:
        group = shelf(f"rank.{part}.query")
        return read_letor(shelf(f"rank.{part}"), n_features=n_features, group=group)

    return Partition(read("train"), None, read("test"))


def load_table(shelf: Shelf, file: str, **columns: Any) -> Items:
    return read_table(shelf(file), **columns)
