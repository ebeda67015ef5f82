"""``rankwright tune``: search the parameters of a ranker."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.exceptions import DataError, ParameterError


def tune(
    data: opt.Data,
    /,
    *,
    ranker: str = "RankBoost",
    grid: list[str] = [],  # noqa: B006
    set: list[str] = [],  # noqa: B006
    valid: str | None = None,
    folds: Annotated[int, Parameter(validator=validators.Number(gte=2))] = 5,
    measures: opt.Measures = [],  # noqa: B006
    search: Literal["grid", "random", "optuna"] | None = None,
    trials: opt.MaybeCount = None,
    early_stopping: opt.MaybeCount = None,
    random_state: opt.RandomState = 0,
    output: opt.NewModel = "model.rw",
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
) -> None:
    """Search the parameters of a ranker on folds of whole queries; train the best on all.

    rankwright tune train.txt --grid n_estimators=50,200 --grid criterion=r,z
    rankwright tune train.txt --valid valid.txt --trials 3
    rankwright tune train.txt --ranker RankSVM --search optuna --grid C=0.001..100 --trials 30
    rankwright tune train.txt --ranker LambdaMART --early-stopping 20 --grid max_leaf_nodes=8,16,32

    Parameters
    ----------
    ranker
        The name of a ranker, such as RankBoost, RankSVM, RankNet.
    grid
        Values to try: --grid C=0.1,1,10; may be repeated. Some rankers have usual values. A range
        for random and optuna: --grid C=0.01..100.
    set
        A parameter that is not searched: --set loss=hinge; may be repeated.
    valid
        Graded items to evaluate on, instead of folds of the queries.
    folds
        The number of folds of queries.
    measures
        The measure to choose by (one); by default NDCG@10.
    search
        Try all combinations (grid), draw different ones at random, or let Optuna propose them; by
        default grid, and random with --trials.
    trials
        How many combinations random and optuna try; by default 20.
    early_stopping
        Stop a ranker that learns in rounds when so many were no better on a fifth of the queries.
    """
    start = time.perf_counter()
    console.check_targets(data, valid, table.group, output=output)
    names = opt.split_measures(measures)
    if len(names) > 1:
        raise ParameterError(f"--measures {','.join(names)}: tune chooses by one measure.")
    estimator, space = _parse(ranker, grid, set)
    search = search or ("grid" if trials is None else "random")
    trials = _check_search(search, trials, space)
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=random_state)
    items, other = opt.read_training_data(data, valid, table, estimator)
    if other is None and items.n_queries < folds:
        raise DataError(
            f"{data}: {items.n_queries} queries cannot be split into {folds} folds. Use --folds, "
            "or --valid with items to evaluate on."
        )
    measure = names[0] if names else rw.selection.default_measure(items.y)
    if early_stopping is not None:
        named = {*opt.parse_settings(set), *space}
        _stop_early(estimator, early_stopping, measure, named, random_state)
    sampler = "optuna" if search == "optuna" else "random"
    options: dict[str, Any] = {"cv": folds, "n_iter": trials, "sampler": sampler}
    options |= {"random_state": random_state, "scale": True, "verbose": 1}
    result = rw.tune(estimator, space, items, other, measure, **options)
    rw.save(result.best_estimator_, output)
    trials_, name = result.trials_, type(estimator).__name__
    if json:
        about = {"model": output, "ranker": name, "measure": measure, **_trials_to_dict(trials_)}
        console.print_json({**about, "seconds": round(time.perf_counter() - start, 3)})
        return
    print(f"{trials_}\n\nmodel: {output} ({name})")
    console.suggest("evaluate", output, valid or "TEST-DATA", *table.columns())


def _trials_to_dict(trials: Any) -> dict[str, Any]:
    rows = [{"params": console.plain_values(t.params), "value": t.value} for t in trials.trials]
    best = rows[trials.trials.index(trials.best)]
    return {"best": best, "trials": rows, "notes": list(trials.notes)}


def _parse(ranker: str, grid: list[str], set: list[str]) -> tuple[Any, dict[str, Any]]:
    """The ranker with its settings, and the values to try for its other parameters."""
    from rankwright.selection.by_name import parse_grid

    settings = opt.parse_settings(set)
    estimator = rw.make_ranker(ranker, settings)
    values = opt.parse_settings(grid, "--grid C=0.1,1,10")
    try:
        space = parse_grid(estimator, values)
    except ParameterError as error:
        raise ParameterError(f"--grid: {error}") from None
    for key in space:
        if key in settings:
            raise ParameterError(f"--set {key}: it is searched. Leave it out, or give --grid.")
    return estimator, space


def _check_search(search: str, trials: int | None, space: dict[str, Any]) -> int | None:
    """The number of trials, or None for a grid; options that contradict each other are refused."""
    if search != "grid":
        return trials or 20
    if trials is not None:
        raise ParameterError(f"--trials {trials}: a grid tries all. Give --search random.")
    for name, values in space.items():
        if isinstance(values, rw.selection.Range):
            raise ParameterError(
                f"--grid {name}=LOW..HIGH: a range is not a list of values. Give --search random "
                "or --search optuna."
            )
    return None


def _stop_early(
    estimator: Any, rounds: int, measure: str, named: set[str], random_state: int
) -> None:
    if "early_stopping" in named:
        raise ParameterError("--early-stopping and --set early_stopping: give one of them.")
    if "early_stopping" not in estimator.get_params(deep=False):
        name = type(estimator).__name__
        raise ParameterError(f"--early-stopping: {name} does not learn in rounds. Leave it out.")
    stopping = rw.EarlyStopping(measure=measure, n_iter_no_change=rounds, random_state=random_state)
    estimator.set_params(early_stopping=stopping)
