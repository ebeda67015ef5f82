"""The files of a data set: found in RANKWRIGHT_DATA or the cache, or downloaded; then read."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rankwright.data.io.files import atomic_write
from rankwright.data.io.letor.reader import read_letor
from rankwright.data.io.trec import read_qrels, read_run
from rankwright.data.items import Items
from rankwright.data.runs import Qrels, Run
from rankwright.exceptions import DatasetError, ParameterError, Setting

_VARIABLE = "RANKWRIGHT_DATA"


@dataclass(frozen=True)
class Archive:
    """A zip file of the publisher, with its published checksum."""

    url: str
    md5: str


@dataclass(frozen=True)
class DatasetFolder:
    """The folder with the files of one data set, each gzipped or not."""

    path: Path

    def file(self, name: str) -> Path:
        """The path of one file, ``name`` or ``name.gz``."""
        plain = self.path / name
        return plain if plain.exists() else plain.with_name(plain.name + ".gz")

    def has(self, names: Sequence[str]) -> bool:
        return all(self.file(name).exists() for name in names)

    def glob(self, pattern: str) -> list[Path]:
        """The files that match, sorted by name; at least one."""
        paths = sorted(self.path.glob(pattern))
        if not paths:
            raise DatasetError(f"{self.path} has no file {pattern}. Copy the data set again.")
        return paths


def find_folder(
    name: str, files: Sequence[str], archive: Archive | None, how_to_get: str
) -> DatasetFolder:
    """The first folder that has all the files; downloads the archive if there is one."""
    root = os.environ.get(_VARIABLE)
    if root and DatasetFolder(Path(root) / name).has(files):
        return DatasetFolder(Path(root) / name)
    cache = DatasetFolder(cache_folder() / name)
    if cache.has(files):
        return cache
    if archive is not None:
        _download(archive, files, cache.path)
        return cache
    searched = f"{_VARIABLE} ({root})" if root else f"{_VARIABLE} (not set)"
    raise DatasetError(
        f"{name} was not found: neither in the folder {searched} nor in {cache.path}.\n{how_to_get}"
    )


def cache_folder() -> Path:
    """The folder for our files in the cache of the operating system."""
    import pooch

    return Path(pooch.os_cache("rankwright"))


def _download(archive: Archive, files: Sequence[str], folder: Path) -> None:
    """Download the archive, verify its checksum and unpack the files that are needed."""
    import pooch

    name = archive.url.rsplit("/", 1)[-1]
    get = pooch.HTTPDownloader(progressbar=False, timeout=30)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = pooch.retrieve(archive.url, f"md5:{archive.md5}", name, folder, downloader=get)
    except ValueError as error:  # pooch removes the file again
        raise DatasetError(
            f"{archive.url}: the download has the wrong checksum ({error}). Try again later, or "
            "download it by hand."
        ) from None
    except Exception as error:  # requests and urllib3 raise many kinds of errors when offline
        raise DatasetError(
            f"{archive.url} could not be downloaded ({type(error).__name__}: {error}). Without a "
            f"network, unpack {name} so that {folder} has {', '.join(files)}, or set {_VARIABLE} "
            "to a folder with this data set."
        ) from None
    _unpack(Path(path), files, folder)


def _unpack(path: Path, files: Sequence[str], folder: Path) -> None:
    """Unpack only the named files, whatever their folder inside the archive."""
    with zipfile.ZipFile(path) as archive:
        members = {Path(name).name: name for name in archive.namelist()}
        for name in files:
            if name not in members:
                raise DatasetError(
                    f"{path} has no {name}: the publisher may have changed the archive. Please "
                    "report this."
                )
            with atomic_write(folder / name, mode=0o644) as file:
                file.write(archive.read(members[name]))
    path.unlink()


@dataclass(frozen=True)
class Partition:
    """The published parts of a data set, ``Items`` or ``Ratings``; ``vali`` may be None."""

    train: Any
    vali: Any
    test: Any


@dataclass(frozen=True, eq=False)
class Track:
    """Runs of several engines over the same queries, by name, and the judgments."""

    runs: Mapping[str, Run]
    qrels: Qrels


def load_file(folder: DatasetFolder, read: Callable[..., Any], file: str, **options: Any) -> Any:
    return read(folder.file(file), **options)


def load_track(folder: DatasetFolder, qrels: str, runs: str) -> Track:
    by_name = {run.name: run for run in map(read_run, folder.glob(runs))}
    return Track(MappingProxyType(by_name), read_qrels(folder.file(qrels)))


def load_letor_folds(
    folder: DatasetFolder, n_features: int, prefix: str = "", *, fold: int | None = None
) -> Items | Partition:
    """Files Fold1 .. Fold5/{train,vali,test}.txt; the five test parts have all queries."""

    def read(number: int, part: str) -> Items:
        return read_letor(folder.file(f"{prefix}Fold{number}/{part}.txt"), n_features=n_features)

    if fold is not None:
        return Partition(*(read(_check_fold(fold), part) for part in ("train", "vali", "test")))
    return Items.concat([read(number, "test") for number in (2, 3, 4, 5, 1)])  # S1 .. S5


def load_ohsumed(
    folder: DatasetFolder, *, fold: int | None = None, version: str = "QueryLevelNorm"
) -> Items | Partition:
    """The normalized folds, or one of the two files of raw features."""
    if version == "QueryLevelNorm":
        return load_letor_folds(folder, 45, "QueryLevelNorm/", fold=fold)
    if version not in ("min", "null"):
        raise ParameterError(
            f'version={version!r}: use "QueryLevelNorm", "min" or "null".', parameter="version"
        )
    if fold is not None:
        raise ParameterError(
            Setting("fold", fold), f": version {version!r} was not published in folds."
        )
    return read_letor(folder.file(f"Feature-{version}/ALL/OHSUMED.txt"), n_features=45)


def load_letor_parts(
    folder: DatasetFolder, n_features: int, pattern: str, *, fold: int | None = None
) -> Items | Partition:
    """Five parts; fold k trains on parts k, k + 1, k + 2, validates on k + 3, tests on k + 4."""

    def read(number: int) -> Items:
        name = pattern.format(1 + (number - 1) % 5)
        return read_letor(folder.file(name), n_features=n_features)

    if fold is None:
        return Items.concat([read(number) for number in range(1, 6)])
    first = _check_fold(fold)
    train = Items.concat([read(number) for number in range(first, first + 3)])
    return Partition(train, read(first + 3), read(first + 4))


def _check_fold(fold: int) -> int:
    if fold not in (1, 2, 3, 4, 5):
        raise ParameterError(Setting("fold", fold), ": must be one of 1 .. 5.")
    return fold


def load_pair(
    folder: DatasetFolder, read: Callable[..., Any], train: str, test: str, **options: Any
) -> Partition:
    """A training and a test file, without validation."""
    return Partition(read(folder.file(train), **options), None, read(folder.file(test), **options))


def load_grouped(folder: DatasetFolder, n_features: int) -> Partition:
    """LightGBM's example: no qid in the lines, the sizes of the queries in side files."""

    def read(part: str) -> Items:
        group = folder.file(f"rank.{part}.query")
        return read_letor(folder.file(f"rank.{part}"), n_features=n_features, group=group)

    return Partition(read("train"), None, read("test"))
