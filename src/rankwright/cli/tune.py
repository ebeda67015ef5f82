"""``rankwright tune``: search the parameters of a ranker."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import note, plain_values, print_json, suggest, working
from rankwright.cli.evaluate import named
from rankwright.cli.files.items import TableOptions, describe, read_items
from rankwright.cli.files.pipes import check_targets
from rankwright.cli.files.systems import read_like
from rankwright.cli.options import at_least, check_seed
from rankwright.cli.settings import SPECIAL, make_ranker, parse_settings, parse_value
from rankwright.cli.training import name_features, prepare, refuse_gaps, warn_of_compiling
from rankwright.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from rankwright.selection.search import Trial


# What is tried for a ranker when nobody says what to try.
USUAL: dict[str, dict[str, list[Any]]] = {
    "RankBoost": {"n_estimators": [30, 100, 300], "estimator": ["threshold", "tree:8"]},
    "RankSVM": {"C": [0.001, 0.01, 0.1, 1.0, 10.0]},
    "Regression": {"alpha": [0.01, 0.1, 1.0, 10.0, 100.0]},
    "MPRank": {"C": [0.01, 0.1, 1.0, 10.0]},
    "RankNet": {"learning_rate": [0.01, 0.03, 0.1]},
}

GRID = "--grid C=0.1,1,10"  # shown where the option is written wrongly


def tune(
    data: str,
    /,
    *,
    ranker: str = "RankBoost",
    grid: list[str] = [],  # noqa: B006
    set: list[str] = [],  # noqa: B006
    valid: str | None = None,
    folds: int = 5,
    measures: Annotated[list[str], Parameter(alias="-m")] = [],  # noqa: B006
    search: Literal["grid", "random"] = "grid",
    trials: int = 20,
    seed: int = 0,
    output: Annotated[str, Parameter(alias="-o")] = "model.rw",
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Search the parameters of a ranker on folds of whole queries; train the best on all.

    ```text
    rankwright tune train.txt --ranker RankSVM
    rankwright tune train.txt --grid n_estimators=50,200 --grid estimator=threshold,tree:8
    rankwright tune train.txt --valid valid.txt --search random --trials 30
    ```

    Parameters
    ----------
    data
        Graded items (LETOR, CSV, TSV, JSONL, Parquet; - is standard input).
    ranker
        The name of a ranker, such as RankBoost, RankSVM, RankNet.
    grid
        Values to try: --grid C=0.1,1,10; repeat it for further parameters. Usual values are tried
        when none are given.
    set
        A parameter that stays as it is: --set loss=hinge; may be repeated.
    valid
        Choose on these items instead of by cross-validation.
    folds
        How many folds of queries.
    measures
        What to choose by: NDCG@10 by default.
    search
        Every combination (grid), or some drawn at random (random).
    trials
        How many combinations are drawn at random.
    seed
        Seeds folds, search and ranker.
    output
        Where to write the best model.
    json
        JSON instead of a table.
    """
    from rankwright.cli.choosing import default_measure

    began = time.perf_counter()
    check_seed(seed)
    at_least(1, trials=trials)
    at_least(2, folds=folds)
    check_targets(output=output)
    settings = parse_settings(set)
    made = make_ranker(ranker, dict(settings))
    if "random_state" in made.get_params(deep=False) and made.random_state is None:
        made.set_params(random_state=seed)
    space = _space(made, grid)
    both = [name for name in space if name in settings]
    if both:
        raise ParameterError(f"--set {both[0]}: it is searched. Leave it out, or give --grid.")
    with working(f"reading {data}"):
        items = read_items(data, table)
        other = None if valid is None else read_like(items, valid, table)
    describe(items, data)
    for path, each in ((data, items), (valid, other)):
        if each is not None:
            refuse_gaps(made, each, str(path))
    chosen = _measure(measures) or default_measure(items.y)
    warn_of_compiling()
    model = prepare(made, items)
    step = "" if model is made else "rank__"
    space = {step + name: values for name, values in space.items()}
    options: dict[str, Any] = {
        "search": search, "n_trials": trials, "random_state": seed, "progress": _show,
    }  # fmt: skip
    if other is not None:
        found = rw.tune(model, space, items, other, chosen, **options)
        model, tried = found.model, found.trials
    else:
        if items.qid is None or items.n_queries < folds:
            raise DataError(
                f"{data}: {items.n_queries} queries cannot be cut into {folds} folds. Give "
                "--folds, or --valid with items to choose by."
            )
        cv = rw.RankSearchCV(model, space, measure=chosen, n_folds=folds, **options)
        cv.fit(items.X, items.y, qid=items.qid)
        model, tried = cv.best_estimator_, cv.trials_
    tried = replace(tried, trials=tuple(map(_own_names, tried.trials)))
    name_features(model, items)
    rw.save(model, output)
    if json:
        rows = [{"params": plain_values(t.params), "value": t.value} for t in tried.trials]
        best = {"params": plain_values(tried.best.params), "value": tried.best.value}
        print_json(
            {
                "model": output,
                "ranker": type(made).__name__,
                "measure": chosen,
                "best": best,
                "trials": rows,
                "seconds": round(time.perf_counter() - began, 3),
            }
        )
        return
    print(tried)
    print(f"\nmodel: {output} ({type(made).__name__})")
    suggest("evaluate", output, valid or "TEST-DATA", *table.columns())


def _measure(measures: list[str]) -> str | None:
    names = named(measures)
    if len(names) > 1:
        raise ParameterError(f"--measures {','.join(names)}: tune chooses by one measure.")
    return names[0] if names else None


def _own_names(trial: Trial) -> Trial:
    """Parameters as the ranker calls them, not as a pipeline does."""
    return replace(
        trial, params={name.removeprefix("rank__"): v for name, v in trial.params.items()}
    )


def _space(ranker: Any, grid: list[str]) -> dict[str, list[Any]]:
    kind, known = type(ranker).__name__, ranker.get_params(deep=False)
    if not grid:
        if kind not in USUAL:
            raise ParameterError(
                f"tune: say what to try for {kind}: --grid name=value,value. It has the "
                f"parameters {', '.join(known)}."
            )
        words = {name: [str(value) for value in values] for name, values in USUAL[kind].items()}
    else:
        words = {name: _values(text) for name, text in parse_settings(grid, GRID).items()}
    space = {}
    for name, texts in words.items():
        if name not in known:
            raise ParameterError(f"{kind} has no parameter {name!r}. It has {', '.join(known)}.")
        values = [parse_value(text) for text in texts]
        space[name] = [SPECIAL[name](value) for value in values] if name in SPECIAL else values
    return space


def _values(text: str) -> list[str]:
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not values:
        raise ParameterError(f"--grid: write name=value,value, such as {GRID}.")
    return values


def _show(done: int, total: int, trial: Any) -> None:
    """A line per trial; on a terminal the line is written over."""
    words = ", ".join(f"{key}={value}" for key, value in _own_names(trial).params.items())
    value = "failed" if trial.value != trial.value else f"{trial.value:.4f}"
    line = f"{done} of {total}: {value}  {words}"
    if sys.stderr.isatty() and done < total:
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    else:
        note(f"\r\033[K{line}" if sys.stderr.isatty() else line)
