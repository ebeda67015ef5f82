"""The folder of a data set: in RANKWRIGHT_DATA, in the cache, or downloaded."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankwright.data.io.files import atomic_write
from rankwright.exceptions import DatasetError

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
                raise DatasetError(f"{path} has no {name}: the publisher changed the archive.")
            with atomic_write(folder / name, mode=0o644) as file:
                file.write(archive.read(members[name]))
    path.unlink()
