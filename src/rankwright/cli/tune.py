"""``rankwright tune``: search the parameters of a ranker."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, validators

import rankwright as rw
from rankwright.cli import _console as console
from rankwright.cli import _options as opt
from rankwright.cli._training import (
    check_parameters,
    make_ranker,
    name_features,
    parameter,
    parse_settings,
    read_training_data,
)
from rankwright.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from rankwright.selection.search import Trials

GRID = "--grid C=0.1,1,10"  # shown where the option is written wrongly


def tune(
    data: opt.Data,
    /,
    *,
    ranker: str = "RankBoost",
    grid: list[str] = [],  # noqa: B006
    set: opt.Settings = [],  # noqa: B006
    valid: str | None = None,
    folds: Annotated[int, Parameter(validator=validators.Number(gte=2))] = 5,
    measures: opt.Measures = [],  # noqa: B006
    search: Literal["grid", "random"] = "grid",
    trials: opt.Count = 20,
    random_state: opt.RandomState = 0,
    output: opt.NewModel = "model.rw",
    json: opt.Json = False,
    table: opt.TableOptions = opt.TableOptions(),  # noqa: B008
) -> None:
    """Search the parameters of a ranker on folds of whole queries; train the best on all.

    For example:

        rankwright tune train.txt --ranker RankSVM
        rankwright tune train.txt --grid n_estimators=50,200 --grid estimator=threshold,tree:8
        rankwright tune train.txt --valid valid.txt --search random --trials 30

    Parameters
    ----------
    ranker
        The name of a ranker, such as RankBoost, RankSVM, RankNet.
    grid
        Values to try: --grid C=0.1,1,10; may be repeated. Some rankers have usual values.
    set
        A parameter that is not searched: --set loss=hinge; may be repeated.
    valid
        Choose on these items instead of by cross-validation.
    folds
        How many folds of queries.
    measures
        The measure to choose by; by default NDCG@10.
    search
        Every combination (grid), or some drawn at random (random).
    trials
        How many combinations are drawn at random.
    """
    from rankwright.selection.auto import default_measure, scaled

    start = time.perf_counter()
    console.check_targets(output=output)
    names = opt.split_measures(measures)
    if len(names) > 1:
        raise ParameterError(f"--measures {','.join(names)}: tune chooses by one measure.")
    settings = parse_settings(set)
    chosen = make_ranker(ranker, settings)
    if "random_state" in chosen.get_params(deep=False) and chosen.random_state is None:
        chosen.set_params(random_state=random_state)
    space = _make_space(chosen, grid)
    both = [name for name in space if name in settings]
    if both:
        raise ParameterError(f"--set {both[0]}: it is searched. Leave it out, or give --grid.")
    items, other = read_training_data(data, valid, table, chosen)
    if other is None and (items.qid is None or items.n_queries < folds):
        raise DataError(
            f"{data}: {items.n_queries} queries cannot be split into {folds} folds. Use --folds, "
            "or --valid with items to choose by."
        )
    console.note_compilation()
    measure = names[0] if names else default_measure(items.y)
    model = scaled(chosen, items.X)
    step = "" if model is chosen else "rank__"
    space = {step + name: values for name, values in space.items()}
    n_iter = trials if search == "random" else None
    options: dict[str, Any] = {"random_state": random_state, "verbose": 1}
    if other is not None:
        found = rw.tune(model, space, items, other, measure, n_iter=n_iter, **options)
    else:
        key = "param_grid" if n_iter is None else "param_distributions"
        options |= {key: space, "n_iter": trials, "scoring": measure, "cv": folds}
        found = rw.RankSearchCV(model, **options).fit(items.X, items.y, qid=items.qid)
    name_features(found.best_estimator_, items)
    rw.save(found.best_estimator_, output)
    tried = _without_step(found.trials_, step)
    if json:
        rows = [{"params": console.plain_values(t.params), "value": t.value} for t in tried.trials]
        best = {"params": console.plain_values(tried.best.params), "value": tried.best.value}
        about = {"model": output, "ranker": type(chosen).__name__, "measure": measure}
        seconds = round(time.perf_counter() - start, 3)
        console.print_json({**about, "best": best, "trials": rows, "seconds": seconds})
        return
    print(tried)
    print(f"\nmodel: {output} ({type(chosen).__name__})")
    console.suggest("evaluate", output, valid or "TEST-DATA", *table.columns())


def _without_step(trials: Trials, step: str) -> Trials:
    """The same with parameters as the ranker calls them, not as a pipeline does."""
    renamed = (
        replace(trial, params={name.removeprefix(step): v for name, v in trial.params.items()})
        for trial in trials.trials
    )
    return replace(trials, trials=tuple(renamed))


def _make_space(ranker: Any, grid: list[str]) -> dict[str, list[Any]]:
    name, known = type(ranker).__name__, list(ranker.get_params(deep=False))
    texts = {key: _split(text) for key, text in parse_settings(grid, GRID).items()}
    texts = texts or _usual_values().get(type(ranker), {})
    if not texts:
        raise ParameterError(
            f"tune: say what to try for {name}: --grid name=value,value. It has the parameters "
            f"{', '.join(known)}."
        )
    check_parameters(name, texts, known)
    return {key: [parameter(key, text) for text in values] for key, values in texts.items()}


def _usual_values() -> dict[type, dict[str, list[Any]]]:
    """What to try for a ranker by default."""
    return {
        rw.RankBoost: {"n_estimators": [30, 100, 300], "estimator": ["threshold", "tree:8"]},
        rw.RankSVM: {"C": [0.001, 0.01, 0.1, 1.0, 10.0]},
        rw.Regression: {"alpha": [0.01, 0.1, 1.0, 10.0, 100.0]},
        rw.MPRank: {"C": [0.01, 0.1, 1.0, 10.0]},
        rw.RankNet: {"learning_rate": [0.01, 0.03, 0.1]},
    }


def _split(text: str) -> list[str]:
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not values:
        raise ParameterError(f"--grid: write name=value,value, such as {GRID}.")
    return values
