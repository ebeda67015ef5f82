"""Where the files of a data set are: RANKWRIGHT_DATA, the cache, the publisher, or nowhere."""

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
class Shelf:
    """A folder that holds every file of one data set, each gzipped or not."""

    folder: Path

    def __call__(self, name: str) -> Path:
        """The path of one file, ``name`` or ``name.gz``."""
        plain = self.folder / name
        return plain if plain.exists() else plain.with_name(plain.name + ".gz")

    def has(self, names: Sequence[str]) -> bool:
        return all(self(name).exists() for name in names)

    def glob(self, pattern: str) -> list[Path]:
        """The files that match, in order of their names; at least one."""
        found = sorted(self.folder.glob(pattern))
        if not found:
            raise DatasetError(f"{self.folder} holds no file {pattern}.")
        return found


def find_shelf(
    folder: str, files: Sequence[str], archive: Archive | None, how_to_get: str
) -> Shelf:
    """The first place that holds all the files; downloads an archive that is known."""
    local = os.environ.get(_VARIABLE)
    if local and Shelf(Path(local) / folder).has(files):
        return Shelf(Path(local) / folder)
    cache = Shelf(cache_folder() / folder)
    if cache.has(files):
        return cache
    if archive is not None:
        _download(archive, files, cache.folder)
        return cache
    looked = f"{_VARIABLE} ({local})" if local else f"{_VARIABLE} (not set)"
    raise DatasetError(
        f"{folder} is not on this machine: neither in the folder {looked} nor in {cache.folder}.\n"
        f"{how_to_get}"
    )


def cache_folder() -> Path:
    """The folder of the operating system for caches, with a folder of ours in it."""
    import pooch

    return Path(pooch.os_cache("rankwright"))


def _download(archive: Archive, files: Sequence[str], folder: Path) -> None:
    """Fetch the archive, check its sum and unpack the files that are needed."""
    import pooch

    name = archive.url.rsplit("/", 1)[-1]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = pooch.retrieve(
            archive.url, f"md5:{archive.md5}", name, folder, downloader=_quiet_downloader()
        )
    except ValueError as error:  # pooch removes the file again
        raise DatasetError(
            f"{archive.url}: the download is not the file its publisher describes ({error}). "
            "Try again later, or fetch it by hand."
        ) from None
    except Exception as error:  # requests and urllib3 raise a dozen kinds of errors when offline
        raise DatasetError(
            f"{archive.url} could not be fetched ({type(error).__name__}: {error}). Without a "
            f"network, unpack {name} so that {folder} holds {', '.join(files)}, or set "
            f"{_VARIABLE} to a folder that has it."
        ) from None
    _unpack(Path(path), files, folder)


def _quiet_downloader() -> object:
    import pooch

    return pooch.HTTPDownloader(progressbar=False, timeout=30)


def _unpack(path: Path, files: Sequence[str], folder: Path) -> None:
    """Only the named files, whatever folder they stand in; nothing else in the archive matters."""
    with zipfile.ZipFile(path) as archive:
        members = {Path(name).name: name for name in archive.namelist()}
        for name in files:
            if name not in members:
                raise DatasetError(
                    f"{path} has no {name}: it is not the archive that was expected."
                )
            with atomic_write(folder / name, mode=0o644) as file:
                file.write(archive.read(members[name]))
    path.unlink()
