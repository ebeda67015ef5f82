"""Rankers from words, and what the verbs that train do before and after training."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import rankwright as rw
from rankwright.cli._console import note, working
from rankwright.cli._options import TableOptions, note_items
from rankwright.exceptions import DataError, ParameterError


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
        return rw.TreeRanking(max_leaf_nodes=int(leaves)) if leaves else rw.TreeRanking()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def parse_settings(settings: list[str], example: str = "--set n_estimators=200") -> dict[str, Any]:
    """``name=value`` words as a mapping of texts; ``example`` shows the option that has them."""
    option = example.partition(" ")[0]
    pairs: dict[str, Any] = {}
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
    """A ranker by its name (in any case), with parameters.

    >>> make_ranker("rankboost", {"n_estimators": "5"})
    RankBoost(n_estimators=5)
    >>> make_ranker("rankboost", {"estimator": "tree", "learning_rate": ".05"}).estimator
    TreeRanking(learning_rate=0.05)
    """
    import rankwright.rankers as package
    from rankwright.rankers.base import find_ranker, rankers

    plain = name.lower().replace("-", "").replace("_", "")
    public = {known.lower(): known for known in dir(package)}
    cls: Any = find_ranker(public.get(plain, name))
    if cls is None:
        names = {known.lower(): known for known in rankers()}
        near = get_close_matches(plain, names, 1)
        hint = f"Did you mean {names[near[0]]}?" if near else f"Known: {', '.join(rankers())}."
        raise ParameterError(f"ranker {name!r} is unknown. {hint}")
    values = {key: parse_value(v) if isinstance(v, str) else v for key, v in settings.items()}
    inside: dict[str, Any] = getattr(
        values.get("estimator"), "get_params", dict
    )()  # of a tree, for instance
    own = inspect.signature(cls).parameters.keys() - inside.keys()
    ranker = cls(**{key: value for key, value in values.items() if key in own})
    nested = {key: value for key, value in values.items() if key not in own}
    return _set_nested(ranker, nested) if nested else ranker


def _set_nested(ranker: Any, values: dict[str, Any]) -> Any:
    """Set parameters of the estimators inside, by ``part__name`` or by their name alone.

    >>> _set_nested(rw.RankBoost(estimator=rw.TreeRanking()), {"max_leaf_nodes": 4}).estimator
    TreeRanking(max_leaf_nodes=4)
    """
    from rankwright.rankers.schema import check_parameters as check_constraints

    known = list(ranker.get_params())
    for name, value in values.items():
        fits = [path for path in known if path == name or path.endswith(f"__{name}")]
        check_parameters(type(ranker).__name__, [] if fits else [name], known)
        ranker.set_params(**{max(fits, key=len): value})
    for part in ranker.get_params().values():
        if hasattr(part, "_constraints"):
            check_constraints(part)
    return ranker


def check_parameters(ranker: str, names: Iterable[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise ParameterError(f"{ranker} has no parameter {name!r}. It has {', '.join(known)}.")


def one_source(data: str | None, log: str | None) -> str:
    """The file to train on: data, or the log of a service."""
    if (data is None) == (log is None):
        raise ParameterError("give DATA to train on, or --log with the log of rankwright serve.")
    return str(data or log)


def read_log_items(path: str) -> rw.Items:
    """Graded items of the log of a service, which may be running."""
    from rankwright.service.learning.labels import items_from_log
    from rankwright.service.log.reader import LogReader

    log = LogReader(path)
    try:
        return items_from_log(log)
    finally:
        log.close()


def read_training_data(
    data: str, valid: str | None, table: TableOptions, ranker: Any, *, is_log: bool = False
) -> tuple[rw.Items, rw.Items | None]:
    """Training and validation items; missing values are refused if the ranker needs all."""
    from rankwright.data.io.items import first_missing
    from rankwright.data.validation.rules import click_findings

    with working(f"reading {data}"):
        items = read_log_items(data) if is_log else table.read(data)
        other = None if valid is None else table.of_another_file().read(valid, like=items)
    note_items(items, data)
    for finding in click_findings(items, table.y):
        note(f"warning: {data}: {finding.reason}. Learn from the log itself with --clicks.")
    if ranker is not None:
        from sklearn.utils import get_tags

        takes_missing = get_tags(ranker).input_tags.allow_nan
        for path, some in ((data, items), (valid, other)):
            missing = None if takes_missing or some is None else first_missing(some)
            if missing is not None:
                raise DataError(
                    f"{path}: {type(ranker).__name__} needs every value, and {missing}. Fill them, "
                    "or use a ranker that learns from missing values, such as RankBoost."
                )
    return items, other


def name_features(model: Any, items: rw.Items) -> None:
    """Put the names of the features into the model, so that columns are found by name."""
    import numpy as np

    if items.feature_names is not None:
        first = model[0] if hasattr(model, "steps") else model
        first.feature_names_in_ = np.array(items.feature_names, dtype=object)
