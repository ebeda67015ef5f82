"""Learning to rank: data -> feedback -> ranker -> metrics -> report.

Public names are listed in ``__init__.pyi`` and load on first use, so ``import rankwright`` is fast:

>>> import rankwright as rw
>>> rw.__version__
'0.2.0'
"""

import os
import sys

# If this is the command line, an interrupt ends it without a traceback until cli.main takes over.
_signal = __import__("_signal")  # without the imports of the module signal, which take longer
_program = os.path.basename("".join(sys.orig_argv[-len(sys.argv) :][:1])).split(".")[0]
if _program == "rankwright" and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from typing import Any  # noqa: E402

import lazy_loader  # noqa: E402

from rankwright import _kernel_cache  # noqa: E402

__version__ = "0.2.0"

_kernel_cache.install()
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("rankwright"):
            raise
        raise ModuleNotFoundError(
            f"rankwright.{name} needs {error.name}, which is not installed. The base install only "
            "scores with model files (load_scorer); for everything else run: "
            "pip install 'rankwright[train]'",
            name=error.name,
        ) from error
