"""Rankers and their parameters from texts, as a command line or a configuration file has them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from sklearn.base import BaseEstimator

import rankwright.rankers as package
from rankwright.exceptions import ParameterError, Setting
from rankwright.rankers.base import find_ranker, rankers
from rankwright.rankers.boosting.weak_learners.estimators import TreeRanking
from rankwright.rankers.schema import check_parameters as check_constraints
from rankwright.selection.space import Range


def make_ranker(
    name: str,
    params: Mapping[str, Any] | Iterable[str] | None = None,
    *,
    random_state: int | None = None,
) -> Any:
    """Create a ranker by name (case-insensitive); parameter values may be strings.

    A parameter of a part, such as that of the trees inside, goes by ``part__name`` or by its name.
    ``params`` may also be texts ``"name=value"``. ``random_state`` seeds what they leave unseeded.

    >>> make_ranker("rankboost", {"n_estimators": "5"}), make_ranker("RankSVM", ["C=0.1"])
    (RankBoost(n_estimators=5), RankSVM(C=0.1))
    >>> make_ranker("rankboost", {"estimator": "tree", "learning_rate": ".05"}).estimator
    TreeRanking(learning_rate=0.05)
    """
    plain = name.lower().replace("-", "").replace("_", "")
    public = {known.lower(): known for known in dir(package)}
    cls: Any = find_ranker(public.get(plain, name))
    if cls is None:
        names = {known.lower(): known for known in rankers()}
        near = get_close_matches(plain, names, 1)
        hint = f"Did you mean {names[near[0]]}?" if near else f"Known: {', '.join(rankers())}."
        raise ParameterError(f"ranker {name!r} is unknown. {hint}")
    given = params if isinstance(params, Mapping) else parse_settings(params or ())
    values = {k: parse_value(v) if isinstance(v, str) else v for k, v in given.items()}
    # A tree inside has parameters of the same names: those given are meant for it.
    inside: dict[str, Any] = getattr(values.get("estimator"), "get_params", dict)()
    own = inspect.signature(cls).parameters.keys() - inside.keys()
    ranker = cls(**{key: value for key, value in values.items() if key in own})
    nested = {key: value for key, value in values.items() if key not in own}
    ranker = _set_nested(ranker, nested) if nested else ranker
    ranker._check_parameters()
    return seeded(ranker, random_state)


def seeded(estimator: BaseEstimator, random_state: int | None) -> Any:
    """The estimator with this seed for itself and its parts, where they have none."""
    params = estimator.get_params()
    names = [name for name in params if name.rpartition("__")[2] == "random_state"]
    return estimator.set_params(**{name: random_state for name in names if params[name] is None})


def parse_settings(words: Iterable[str], option: str = "--set") -> dict[str, str]:
    """``name=value`` words as a mapping of texts; errors name the option that has them.

    >>> parse_settings(["C=0.1", "max-iter=20"])
    {'C': '0.1', 'max_iter': '20'}
    """
    settings: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"{option} {word}: write name=value, such as {option} C=0.1.")
        name = name.strip().replace("-", "_")
        if name in settings:
            raise ParameterError(f"{option} {word}: {name} is given twice. Give it once.")
        settings[name] = value.strip()
    return settings


def parse_grades(text: str) -> tuple[float, ...]:
    """Grades from ``0-4`` or ``0,1,2``.

    >>> parse_grades("0-4"), parse_grades("1,2.5,5")
    ((0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 2.5, 5.0))
    """
    low, dash, high = text.partition("-")
    try:
        if dash and "," not in text:
            values = [float(grade) for grade in range(int(low), int(high) + 1)]
        else:
            values = sorted({float(part) for part in text.split(",")})
    except ValueError:
        values = []
    if not 2 <= len(values) <= 1000:
        raise ParameterError(
            Setting("grades", text), ": give two or more grades, such as 0-4 or 0,1,2."
        )
    return tuple(values)


def parse_value(text: str) -> Any:
    """A number, true/false, none, a list, a tree with so many leaves, or else the text itself.

    >>> [parse_value(word) for word in ("3", "1e-2", "true", "none", "[4, 4]", "poly")]
    [3, 0.01, True, None, [4, 4], 'poly']
    >>> parse_value("tree:16")
    TreeRanking(max_leaf_nodes=16)
    """
    constants = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in constants:
        return constants[text.lower()]
    kind, colon, leaves = text.partition(":")
    if kind == "tree":
        if colon and not (leaves.isdigit() and int(leaves) >= 2):
            raise ParameterError(
                f"{text}: write tree, or tree:LEAVES with a number of leaves >= 2, as in tree:16."
            )
        return TreeRanking(max_leaf_nodes=int(leaves)) if leaves else TreeRanking()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def parse_grid(ranker: BaseEstimator, grid: Iterable[str]) -> dict[str, Any]:
    """The values to try for each parameter: lists, or a range; the usual ones without a grid.

    >>> parse_grid(make_ranker("RankSVM"), ["C=0.1,1"])
    {'C': [0.1, 1]}
    >>> parse_grid(make_ranker("RankSVM"), ["C=0.01..100"])
    {'C': Range(low=0.01, high=100)}
    """
    name, known = type(ranker).__name__, list(ranker.get_params(deep=False))
    texts = parse_settings(grid, "--grid") or ranker._usual_grid
    if not texts:
        raise ParameterError(
            f"there is no default grid for {name}: give the values to try with --grid NAME=VALUE,"
            f"VALUE. It has the parameters {', '.join(known)}."
        )
    _refuse_unknown(name, texts, known)
    return {key: _values(key, text) for key, text in texts.items()}


def _values(key: str, text: str) -> Any:
    low, dots, high = text.partition("..")
    if dots:
        ends = parse_value(low.strip()), parse_value(high.strip())
        if not all(isinstance(end, int | float) for end in ends) or not ends[0] < ends[1]:
            raise ParameterError(f"{key}={text}: write LOW..HIGH with two numbers.")
        return Range(*ends)
    values = [parse_value(word.strip()) for word in text.split(",") if word.strip()]
    if not values:
        raise ParameterError(f"{key}={text}: write values with commas, such as C=0.1,1,10.")
    return values


def _set_nested(ranker: BaseEstimator, values: Mapping[str, Any]) -> Any:
    """Set parameters of the parts of a ranker, by ``part__name`` or by their name alone."""
    known = list(ranker.get_params())
    for name, value in values.items():
        fits = [path for path in known if path == name or path.endswith(f"__{name}")]
        _refuse_unknown(type(ranker).__name__, [] if fits else [name], known)
        ranker.set_params(**{max(fits, key=len): value})
    for part in ranker.get_params().values():
        if hasattr(part, "_constraints"):
            check_constraints(part)
    return ranker


def _refuse_unknown(ranker: str, names: Iterable[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise ParameterError(f"{ranker} has no parameter {name!r}. It has {', '.join(known)}.")
