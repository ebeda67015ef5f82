"""Print the oldest versions that pyproject.toml allows, as constraints for `make test-oldest`."""

import tomllib
from pathlib import Path

TOOLS = {"check", "docs", "bench", "bench-recsys"}  # neither users nor the test suite need them

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
lists = [project["dependencies"], *(extras[name] for name in extras if name not in TOOLS)]
for requirement in sorted({requirement for names in lists for requirement in names}):
    name, at_least, version = requirement.partition(">=")
    if at_least:  # else it is an extra of this package
        print(f"{name.split('[')[0]}=={version}.*")
