"""``rankwright tune``: search the parameters of a ranker."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

import rankwright as rw
from rankwright.cli.console import plain_values, print_json, suggest
from rankwright.cli.evaluate import named
from rankwright.cli.files.items import TableOptions
from rankwright.cli.files.pipes import check_targets
from rankwright.cli.options import at_least, check_seed
from rankwright.cli.settings import make_ranker, parse_grid, parse_settings
from rankwright.cli.training import name_features, read_training_data
from rankwright.exceptions import DataError, ParameterError


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
    trials: int | None = None,
    random_state: int = 0,
    output: Annotated[str, Parameter(alias="-o")] = "model.rw",
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
) -> None:
    """Search the parameters of a ranker on folds of whole queries; train the best on all.

    ```text
    rankwright tune train.txt --ranker RankSVM
    rankwright tune train.txt --grid n_estimators=50,200 --grid criterion=r,z
    rankwright tune train.txt --valid valid.txt --trials 3
    ```

    Parameters
    ----------
    data
        Graded items (LETOR, CSV, TSV, JSONL, Parquet; - is standard input).
    ranker
        The name of a ranker, such as RankBoost, RankSVM, RankNet.
    grid
        Values to try: --grid C=0.1,1,10; repeat it for further parameters. By default, the usual
        values of RankBoost, RankSVM, Regression, MPRank and RankNet are tried.
    set
        A parameter that stays fixed: --set loss=hinge; may be repeated.
    valid
        Graded items to evaluate on, instead of folds of the queries.
    folds
        The number of folds.
    measures
        The measure to choose by (one); by default NDCG@10.
    trials
        Draw this many combinations at random, instead of trying all.
    random_state
        Seeds folds, search and ranker.
    output
        Where to write the best model.
    json
        JSON instead of a table.
    """
    from rankwright.selection.auto import default_measure

    began = time.perf_counter()
    check_seed(random_state, "--random-state")
    at_least(1, trials=trials)
    at_least(2, folds=folds)
    check_targets(output=output)
    names = named(measures)
    if len(names) > 1:
        raise ParameterError(f"--measures {','.join(names)}: tune chooses by one measure.")
    settings = parse_settings(set)
    estimator = make_ranker(ranker, settings)
    space = parse_grid(estimator, grid, settings)
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=random_state)
    items, other = read_training_data(data, valid, table, estimator)
    measure = names[0] if names else default_measure(items.y)
    tuned = _search(estimator, space, items, other, measure, folds, trials, random_state)
    name_features(tuned.best_estimator_, items)
    rw.save(tuned.best_estimator_, output)
    if json:
        about = {"model": output, "ranker": type(estimator).__name__, "measure": measure}
        trials_ = [_plain(trial) for trial in tuned.trials_.trials]
        seconds = round(time.perf_counter() - began, 3)
        best = _plain(tuned.trials_.best)
        print_json({**about, "best": best, "trials": trials_, "seconds": seconds})
        return
    print(tuned.trials_)
    print(f"\nmodel: {output} ({type(estimator).__name__})")
    suggest("evaluate", output, valid or "TEST-DATA", *table.columns())


def _plain(trial: Any) -> dict[str, Any]:
    return {"params": plain_values(trial.params), "value": trial.value}


def _search(
    ranker: Any,
    space: dict[str, list[Any]],
    items: rw.Items,
    valid: rw.Items | None,
    measure: str,
    folds: int,
    trials: int | None,
    random_state: int,
) -> rw.RankSearchCV:
    """Search on validation items or on folds; scale the features where the ranker needs it."""
    from rankwright.selection.auto import scaled

    if valid is None and items.n_queries < folds:
        raise DataError(
            f"{items.n_queries} queries cannot be split into {folds} folds. Give --folds, or "
            "--valid with items to evaluate on."
        )
    model = scaled(ranker, items.X)
    step = "" if model is ranker else "rank__"
    space = {step + name: values for name, values in space.items()}
    options: dict[str, Any] = {"random_state": random_state, "verbose": 1}
    if valid is not None:
        tuned = rw.tune(model, space, items, valid, measure, n_iter=trials, **options)
    else:
        options |= {"param_grid": space} if trials is None else {"param_distributions": space}
        tuned = rw.RankSearchCV(model, scoring=measure, cv=folds, n_iter=trials or 1, **options)
        tuned.fit(items.X, items.y, qid=items.qid)
    for trial in tuned.trials_.trials:  # the names of the ranker's parameters, not the pipeline's
        for name in list(trial.params):
            trial.params[name.removeprefix("rank__")] = trial.params.pop(name)
    return tuned
