"""``rankwright tune``: search the parameters of a ranker."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.cli import _training as training
from rankwright.exceptions import DataError, ParameterError

GRID = "--grid C=0.1,1,10"  # the example in error messages


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
    trials: opt.Count | None = None,
    early_stopping: opt.Count | None = None,
    random_state: opt.RandomState = 0,
    output: opt.NewModel = "model.rw",
    json: opt.Json = False,
    table: opt.GradedOptions = opt.GradedOptions(),  # noqa: B008
) -> None:
    """Search the parameters of a ranker on folds of whole queries; train the best on all.

    rankwright tune train.txt --ranker RankSVM
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
    from rankwright.selection.auto import default_measure, scaled

    start = time.perf_counter()
    console.check_targets(data, valid, table.group, output=output)
    names = opt.split_measures(measures)
    if len(names) > 1:
        raise ParameterError(f"--measures {','.join(names)}: tune chooses by one measure.")
    settings = training.parse_settings(set)
    estimator = training.make_ranker(ranker, settings)
    space = _parse_grid(estimator, grid, settings)
    search = search or ("grid" if trials is None else "random")
    trials = _check_search(search, trials, space)
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=random_state)
    items, other = training.read_training_data(data, valid, table, estimator)
    if other is None and items.n_queries < folds:
        raise DataError(
            f"{data}: {items.n_queries} queries cannot be split into {folds} folds. Use --folds, "
            "or --valid with items to evaluate on."
        )
    measure = names[0] if names else default_measure(items.y)
    if early_stopping is not None:
        _stop_early(estimator, early_stopping, measure, {*settings, *space}, random_state)
    model = scaled(estimator, items.X)
    step = "" if model is estimator else "rank__"
    space = {step + name: values for name, values in space.items()}
    sampler = "optuna" if search == "optuna" else "random"
    options: dict[str, Any] = {"random_state": random_state, "verbose": 1, "sampler": sampler}
    if other is not None:
        tuned = rw.tune(model, space, items, other, measure, n_iter=trials, **options)
    else:
        options |= {"param_grid": space} if trials is None else {"param_distributions": space}
        tuned = rw.RankSearchCV(model, scoring=measure, cv=folds, n_iter=trials or 1, **options)
        tuned.fit(items.X, items.y, qid=items.qid, sample_weight=items.weight)
    training.name_features(tuned.best_estimator_, items)
    rw.save(tuned.best_estimator_, output)
    tried, name = _without_step(tuned.trials_, step), type(estimator).__name__
    if json:
        rows = [{"params": console.plain_values(t.params), "value": t.value} for t in tried.trials]
        about = {"model": output, "ranker": name, "measure": measure}
        best = {"best": rows[tried.trials.index(tried.best)], "trials": rows}
        best |= {"notes": list(tried.notes)}
        console.print_json({**about, **best, "seconds": round(time.perf_counter() - start, 3)})
        return
    print(f"{tried}\n\nmodel: {output} ({name})")
    console.suggest("evaluate", output, valid or "TEST-DATA", *table.columns())


def _check_search(search: str, trials: int | None, space: dict[str, Any]) -> int | None:
    """The number of trials, or None for a grid; options that contradict each other are refused."""
    if search != "grid":
        return trials or 20
    if trials is not None:
        raise ParameterError(f"--trials {trials}: a grid tries all. Give --search random.")
    ranges = [name for name, values in space.items() if isinstance(values, rw.selection.Range)]
    if ranges:
        raise ParameterError(
            f"--grid {ranges[0]}=LOW..HIGH: a range is not a list of values. Give --search random "
            "or --search optuna."
        )
    return None


def _stop_early(
    estimator: Any, rounds: int, measure: str, named: set[str], random_state: int
) -> None:
    name = type(estimator).__name__
    if "early_stopping" in named:
        raise ParameterError("--early-stopping and --set early_stopping: give one of them.")
    if "early_stopping" not in estimator.get_params(deep=False):
        raise ParameterError(f"--early-stopping: {name} does not learn in rounds. Leave it out.")
    stopping = rw.EarlyStopping(measure=measure, n_iter_no_change=rounds, random_state=random_state)
    estimator.set_params(early_stopping=stopping)


def _without_step(trials: Any, step: str) -> Any:
    """Trials with parameters as the ranker calls them, not as a pipeline does."""
    renamed = []
    for trial in trials.trials:
        params = {name.removeprefix(step): value for name, value in trial.params.items()}
        renamed.append(replace(trial, params=params))
    return replace(trials, trials=tuple(renamed))


def _range(key: str, low: str, high: str) -> Any:
    ends = training.parse_value(low.strip()), training.parse_value(high.strip())
    if not all(isinstance(end, int | float) for end in ends) or not ends[0] < ends[1]:
        raise ParameterError(f"--grid {key}={low}..{high}: write LOW..HIGH with two numbers.")
    return rw.selection.Range(*ends)


def _parse_grid(ranker: Any, grid: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    """The values to try for each parameter; the usual ones if ``--grid`` is not given."""
    usual: dict[type, dict[str, str]] = {
        rw.RankBoost: {"n_estimators": "30,100,300", "estimator": "threshold,tree:8"},
        rw.RankSVM: {"C": "0.001,0.01,0.1,1.0,10.0"},
        rw.Regression: {"alpha": "0.01,0.1,1.0,10.0,100.0"},
        rw.MPRank: {"C": "0.01,0.1,1.0,10.0"},
        rw.RankNet: {"learning_rate": "0.01,0.03,0.1"},
    }
    name, known = type(ranker).__name__, list(ranker.get_params(deep=False))
    texts = training.parse_settings(grid, GRID) or usual.get(type(ranker), {})
    if not texts:
        raise ParameterError(
            f"tune: say what to try for {name}: --grid name=value,value. It has the parameters "
            f"{', '.join(known)}."
        )
    training.check_parameters(name, texts, known)
    space: dict[str, Any] = {}
    for key, text in texts.items():
        low, dots, high = text.partition("..")
        if dots:
            space[key] = _range(key, low, high)
            continue
        values = [value.strip() for value in text.split(",") if value.strip()]
        space[key] = [training.parse_value(value) for value in values]
        if not values:
            raise ParameterError(f"--grid {key}={text}: write name=value,value, such as {GRID}.")
        if key in settings:
            raise ParameterError(f"--set {key}: it is searched. Leave it out, or give --grid.")
    return space
