"""Parameters of a ranker from words: ``--set name=value`` and ``--grid name=value,value``."""

from __future__ import annotations

import ast
import inspect
from difflib import get_close_matches
from typing import Any

from rankwright.exceptions import ParameterError

# What tune tries if --grid is not given.
USUAL_VALUES = {
    "RankBoost": {"n_estimators": "30,100,300", "estimator": "threshold,tree:8"},
    "RankSVM": {"C": "0.001,0.01,0.1,1.0,10.0"},
    "Regression": {"alpha": "0.01,0.1,1.0,10.0,100.0"},
    "MPRank": {"C": "0.01,0.1,1.0,10.0"},
    "RankNet": {"learning_rate": "0.01,0.03,0.1"},
}
GRID = "--grid C=0.1,1,10"  # the example in error messages


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
    kind, _, leaves = text.partition(":")
    if kind == "tree" and (text == kind or leaves.isdigit()):
        from rankwright.rankers.boosting.grower import TreeRanking

        return TreeRanking(max_leaf_nodes=int(leaves)) if leaves else TreeRanking()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def parse_settings(settings: list[str], example: str = "--set n_estimators=200") -> dict[str, str]:
    """``name=value`` words as a mapping of texts; ``example`` shows the option that holds them."""
    option = example.partition(" ")[0]
    pairs: dict[str, str] = {}
    for word in settings:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"{option} {word}: write name=value, such as {example}.")
        name = name.strip().replace("-", "_")
        if name in pairs:
            raise ParameterError(f"{option} {word}: {name} is given twice. Give it once.")
        pairs[name] = value.strip()
    return pairs


def parse_grid(ranker: Any, grid: list[str], fixed: dict[str, str]) -> dict[str, list[Any]]:
    """The values to try for each parameter, none of them fixed; the usual ones without --grid."""
    kind = type(ranker).__name__
    texts = parse_settings(grid, GRID) if grid else USUAL_VALUES.get(kind, {})
    known = list(ranker.get_params(deep=False))
    if not texts:
        raise ParameterError(
            f"tune: say what to try for {kind}: --grid name=value,value. It has the parameters "
            f"{', '.join(known)}."
        )
    space: dict[str, list[Any]] = {}
    for name, text in texts.items():
        _refuse_unknown(name, kind, known)
        if name in fixed:
            raise ParameterError(f"--set {name}: it is searched. Leave it out, or give --grid.")
        space[name] = [parse_value(value.strip()) for value in text.split(",") if value.strip()]
        if not space[name]:
            raise ParameterError(f"--grid {name}={text}: write name=value,value, such as {GRID}.")
    return space


def make_ranker(name: str, settings: dict[str, Any]) -> Any:
    """A ranker by its name (in any case) with these parameters, as text or as values; checked.

    >>> make_ranker("rankboost", {"n_estimators": "5"})
    RankBoost(n_estimators=5)
    """
    from rankwright.rankers.registry import RANKERS, ranker

    names = {known.lower(): known for known in RANKERS}
    plain = name.lower().replace("-", "").replace("_", "")
    near = get_close_matches(plain, names, 1)
    if plain not in names and near:
        raise ParameterError(f"ranker {name!r} is unknown. Did you mean {names[near[0]]}?")
    cls = ranker(names.get(plain, name))
    known = list(inspect.signature(cls).parameters)
    values = {}
    for key, value in settings.items():
        _refuse_unknown(key, cls.__name__, known)
        values[key] = parse_value(value) if isinstance(value, str) else value
    made = cls(**values)
    made._check_parameters()
    return made


def _refuse_unknown(name: str, kind: str, known: list[str]) -> None:
    if name not in known:
        raise ParameterError(f"{kind} has no parameter {name!r}. It has {', '.join(known)}.")
