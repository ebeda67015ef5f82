"""One module for each target of an export; each class is a target by being there."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from rankwright.exports.target import Target
from rankwright.scoring.kinds import HOLDS

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

TARGETS = {name: Target.kinds[name]() for name in HOLDS}
