"""Learning to rank: data -> feedback -> ranker -> metrics -> report.

Public names are listed in ``__init__.pyi`` and load on first use, so ``import rankwright`` is fast:

>>> import rankwright as rw
>>> rw.__version__
'0.2.0'
"""

from typing import Any

import lazy_loader

__version__ = "0.2.0"

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
