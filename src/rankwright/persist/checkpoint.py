"""Fitted models in a folder, so that an interrupted training can go on."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from rankwright import __version__
from rankwright.data.io.files import atomic_write
from rankwright.exceptions import ModelFileError, ParameterError
from rankwright.persist.models import load, save

MARK = "checkpoint.txt"


class Checkpoint:
    """A folder of fitted models for ``AutoRanker(checkpoint=...)``.

    Every model is a file as :func:`rankwright.save` writes it, complete or absent. If training is
    interrupted, the same call with the same folder loads the models that are there and goes on;
    the result has the same bits as without the interruption. Other data, parameters or versions
    are refused.

    Parameters
    ----------
    folder : path
        A folder that does not exist yet, an empty one, or one of an earlier run.

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

    def __init__(self, folder: Any) -> None:
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
                    f"checkpoint {self.folder} is of a training with other data, parameters or "
                    "version of rankwright. Repeat that training, or remove the folder."
                )
        elif any(self.folder.iterdir()):
            raise ParameterError(
                f"checkpoint {self.folder} holds other files. Give a new or an empty folder."
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

    def save(self, key: str, model: Any) -> None:
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
