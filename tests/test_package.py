"""The package as a whole: light to import, honest about its public names; scripts that use them."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from runpy import run_path

import pytest

import rankwright
from rankwright import rankers

API = Path(__file__).parents[1] / "docs" / "api.md"
DOCUMENTED = re.findall(r"^   (\w[\w.]*)$", API.read_text(encoding="utf-8"), re.MULTILINE)
ROOT = API.parents[1]
SCRIPTS = [
    *(ROOT / "experiments").rglob("*.py"),
    *(ROOT / "benchmarks").rglob("*.py"),
    *(ROOT / "docs").rglob("*.py"),
]
HEAVY = {"numba", "sklearn", "scipy", "pandas", "polars", "safetensors", "pooch", "narwhals"}


def modules_after(code: str) -> set[str]:
    """The heavy packages that a fresh process has loaded after running the code."""
    script = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return HEAVY & {line.split(".")[0] for line in done.stdout.splitlines()}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert modules_after("import rankwright") == set()


def test_asking_for_the_version_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['rankwright', '--version']\n"
        "from rankwright.cli.app import main\n"
        "try: main()\nexcept SystemExit as stop: assert not stop.code"
    )
    assert modules_after(code) == set()


def test_measuring_needs_numpy_only() -> None:
    code = "import rankwright as rw; rw.evaluate([0.1, 0.3], [0, 1], measures=['NDCG@10', 'AP'])"
    assert modules_after(code) == set()


def test_defining_a_ranker_does_not_load_numba() -> None:
    code = "import rankwright as rw\nfor name in rw.__all__: getattr(rw, name)"
    assert "numba" not in modules_after(code)


@pytest.mark.parametrize("name", rankwright.__all__)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    value = getattr(rankwright, name)
    assert name in dir(rankwright)
    assert inspect.ismodule(value) or name in DOCUMENTED, f"{name} is not listed in docs/api.md"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_name_exists(name: str) -> None:
    assert attrgetter(name)(rankwright).__doc__


@pytest.mark.parametrize("name", rankers.__all__)
def test_every_ranker_is_a_name_of_the_package(name: str) -> None:
    value = getattr(rankers, name)
    if inspect.isclass(value) and issubclass(value, rankwright.Ranker):
        assert getattr(rankwright, name) is value


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No rankwright attribute nothing"):
        _ = rankwright.nothing


@pytest.mark.parametrize("script", ["names", "options"])
def test_what_scripts_write_into_the_guide_is_up_to_date(script: str) -> None:
    """The table of public names, and the options of every verb."""
    made = run_path(str(API.with_name(f"{script}.py")))
    assert made["page"]() == made["PAGE"].read_text(), f"run: python docs/{script}.py"


def test_no_decision_depends_on_the_text_of_a_class_name() -> None:
    by_name = re.compile(r"\w\.__name__ (==|!=|in|not in) ")
    modules = Path(rankwright.__file__).parent.rglob("*.py")
    assert [path.name for path in modules if by_name.search(path.read_text())] == []


def names_of_package(script: Path) -> Iterator[tuple[str, str]]:
    """The (module, name) pairs of rankwright that a script imports or writes as ``rw.name``."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rankwright":
            yield from ((str(node.module), alias.name) for alias in node.names)
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if re.fullmatch(r"rw(\.\w+)+", text):
                module, _, name = text.replace("rw", "rankwright", 1).rpartition(".")
                yield module, name


def resolved(module: str, name: str) -> object:
    try:
        found = attrgetter(".".join([*module.split(".")[1:], name]))(rankwright)
    except AttributeError:
        found = getattr(import_module(module), name, None) or import_module(f"{module}.{name}")
    return found


def private_homes() -> dict[str, set[str]]:
    """The modules, no packages, that define each public name."""
    found: dict[str, set[str]] = {}
    source = ROOT / "src" / "rankwright"
    for stub in source.rglob("*.pyi"):
        package = ".".join(["rankwright", *stub.parent.relative_to(source).parts])
        for module, name in re.findall(r"^from (\.\w\S*) import (\w+) as", stub.read_text(), re.M):
            found.setdefault(name, set()).add(package + module)
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_use_names_that_exist_and_public_ones_by_their_public_names(script: Path) -> None:
    homes = private_homes()
    for module, name in names_of_package(script):
        assert resolved(module, name) is not None, f"{module}.{name}"
        assert module not in homes.get(name, ()) or module == "rankwright.exceptions", (
            f"{module}.{name} is public: import it from its package"
        )
