"""``--set name=value``: parameters of a ranker from words."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from rankwright.exceptions import ParameterError


def parse_value(text: str) -> Any:
    """A number, true/false, none, a list, or else the text itself.

    >>> [parse_value(word) for word in ("3", "1e-2", "true", "none", "[4, 4]", "poly")]
    [3, 0.01, True, None, [4, 4], 'poly']
    """
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
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


def make_ranker(name: str, settings: dict[str, Any]) -> Any:
    """A ranker by its name (in any case), with parameters; an unknown one is refused by name.

    >>> make_ranker("rankboost", {"n_estimators": 5})
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
        if key not in known:
            raise ParameterError(
                f"{cls.__name__} has no parameter {key!r}. It has {', '.join(known)}."
            )
        value = parse_value(value) if isinstance(value, str) else value
        values[key] = SPECIAL[key](value) if key in SPECIAL else value
    return cls(**values)


def _weak(value: Any) -> Any:
    """``estimator=tree`` or ``estimator=tree:16`` (leaves)."""
    if not isinstance(value, str) or not value.startswith("tree"):
        return value
    from rankwright.rankers.boosting.grower import TreeRanking

    _, _, leaves = value.partition(":")
    return TreeRanking(max_leaf_nodes=int(leaves)) if leaves.isdigit() else TreeRanking()


SPECIAL: dict[str, Callable[[Any], Any]] = {"estimator": _weak}
