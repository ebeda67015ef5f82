"""``rankwright info``: what is in a file."""

from __future__ import annotations

from typing import Any

import rankwright as rw
from rankwright.cli.console import print_json
from rankwright.cli.files.items import TableOptions, read_items
from rankwright.cli.files.pipes import at_hand
from rankwright.cli.files.ratings import RatingsOptions, read_ratings, tell_kind


def info(
    file: str,
    /,
    *,
    json: bool = False,
    table: TableOptions = TableOptions(),  # noqa: B008
    reading: RatingsOptions = RatingsOptions(),  # noqa: B008
) -> None:
    """Say what is in a model or data file.

    ```text
    rankwright info model.rw
    rankwright info train.csv --json
    rankwright info ratings.csv --read-as ratings
    ```

    Parameters
    ----------
    file
        A model file, items, a TREC run or qrels, or ratings (told by columns of user, item,
        rating and time alone, else by --read-as ratings); - is standard input.
    json
        JSON instead of lines.
    """
    with at_hand(file) as local:
        kind = tell_kind(local, table, reading)
        if kind == "model":
            found = _model(local)
        elif kind in ("run", "qrels"):
            found = _judged(local, kind)
        elif kind == "ratings":
            found = _ratings(read_ratings(local, reading))
        else:
            found = _items(read_items(local, table, graded=False))
    found = {"file": file, "format": kind, **found}
    if json:
        print_json(found)
        return
    width = max(map(len, found))
    for key, value in found.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        if isinstance(value, dict):
            shown = ", ".join(f"{name}: {each}" for name, each in value.items())
        print(f"{key.replace('_', ' '):{width}}  {shown}")


def _model(path: str) -> dict[str, Any]:
    from rankwright.persist.format import MAX_BYTES, read_file, refusing

    with refusing(path):
        manifest, arrays = read_file(path, MAX_BYTES)
    about: dict[str, Any] = {"kind": manifest.model.kind}
    if manifest.served is None:  # not a scorer of rows: a recommender, a learned fusion
        rw.load(path)  # says what is wrong with it
    else:
        scorer = rw.load_scorer(path)
        names = scorer.feature_names
        about |= {
            "scored_by": scorer.scorer.kind,
            "n_features": scorer.n_features,
            "features": None if names is None else list(names[:20]),
            "takes_gaps": scorer.allow_nan,
        }
    return about | {
        "written_by": f"rankwright {manifest.library}, format {manifest.format}",
        "arrays": len(arrays),
        "numbers": int(sum(array.size for array in arrays.values())),
    }


def _judged(path: str, kind: str) -> dict[str, Any]:
    found: Any = rw.read_run(path) if kind == "run" else rw.read_qrels(path)
    sizes = found.by_query.sizes
    about: dict[str, Any] = {"n_rows": len(found), "n_queries": found.n_queries}
    if kind == "run":
        about["name"] = found.name
    else:
        about["grades"] = _counts(found.grade)
    return about | {"rows_per_query": _spread(sizes)}


def _ratings(ratings: rw.Ratings) -> dict[str, Any]:
    return {
        "n_ratings": len(ratings),
        "n_users": ratings.n_users,
        "n_items": ratings.n_items,
        "values": _counts(ratings.value),
        "density": float(f"{len(ratings) / (ratings.n_users * ratings.n_items):.4g}"),
        "ratings_per_user": _spread(ratings.user_counts),
        "ratings_per_item": _spread(ratings.item_counts),
    }


def _items(items: rw.Items) -> dict[str, Any]:
    sizes = items.queries.sizes
    values = items.X.data if items.is_sparse else items.X
    n_gaps = int((values != values).sum())
    return {
        "n_items": items.n_items,
        "n_features": items.n_features,
        "n_queries": None if items.qid is None else items.n_queries,
        "items_per_query": _spread(sizes),
        "grades": _counts(items.y),
        "features": None if items.feature_names is None else list(items.feature_names[:20]),
        "ids": items.docid is not None,
        "gaps": n_gaps,
        "sparse": items.is_sparse,
    }


def _spread(sizes: Any) -> str:
    return f"{sizes.min()} to {sizes.max()}, mean {sizes.mean():.1f}"


def _counts(grades: Any) -> Any:
    import numpy as np

    values, counts = np.unique(grades, return_counts=True)
    if len(values) > 12:
        return f"{values.min():g} to {values.max():g}, {len(values)} values"
    return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}
