"""Standard input and named pipes as files, which readers can open more than once."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from stat import S_ISFIFO

from rankwright.data.io.files import naming
from rankwright.exceptions import ParameterError

STDIN = "<stdin>"  # how standard input is called, also in errors
_PREFIX = "rankwright-pipe-"


class PipeCopies(ExitStack):
    """Copies of standard input and of named pipes, removed at the end of the ``with`` block.

    Readers open a file twice: to detect its format, and to read it. A copy has the name of the
    pipe, in a folder of its own that :func:`name_pipes` removes from messages.

    Examples
    --------
    >>> with PipeCopies() as pipes:
    ...     pipes.copy("train.txt")  # other files are read where they are
    'train.txt'
    """

    def __init__(self) -> None:
        super().__init__()
        self._stdin_is_read = False

    def copy(self, path: str) -> str:
        """The path of a copy, if the path is ``"<stdin>"`` or a pipe; otherwise the path itself."""
        if path == STDIN:
            if self._stdin_is_read:
                raise ParameterError("- is standard input: only one of the files can come from it.")
            self._stdin_is_read, name = True, path
            pipe = sys.stdin.buffer
        elif os.path.exists(path) and S_ISFIFO(os.stat(path).st_mode):
            name = os.path.abspath(path)
            pipe = self.enter_context(open(path, "rb"))  # noqa: SIM115
        else:
            return path
        folder = self.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX))
        target = os.path.join(folder, name.lstrip("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with naming(tempfile.gettempdir()), open(target, "wb") as file:
            shutil.copyfileobj(pipe, file)
        return target


def name_pipes(text: str) -> str:
    """A message about the copy of a pipe as one about the pipe."""
    if _PREFIX not in text:
        return text
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/{_PREFIX}\w+(/(?={STDIN}))?", "", text)
