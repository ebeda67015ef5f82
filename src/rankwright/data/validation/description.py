"""What is in data, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.items import Items
from rankwright.data.ratings import Ratings
from rankwright.data.runs import Qrels, Run


def describe(data: Items | Ratings | Run | Qrels) -> dict[str, Any]:
    """Counts, grades and sizes of queries, as ``rankwright info`` prints them.

    Examples
    --------
    >>> describe(Run.from_arrays(["q", "q"], ["a", "b"], [2.0, 1.0], name="bm25"))
    {'n_rows': 2, 'n_queries': 1, 'name': 'bm25', 'rows_per_query': '2 to 2, mean 2.0'}
    """
    if isinstance(data, Items):
        return _describe_items(data)
    if isinstance(data, Ratings):
        return _describe_ratings(data)
    more = {"name": data.name} if isinstance(data, Run) else {"grades": _counts(data.grade)}
    sizes = _spread(data.by_query.sizes)
    return {"n_rows": len(data), "n_queries": data.n_queries, **more, "rows_per_query": sizes}


def _describe_items(items: Items) -> dict[str, Any]:
    values = items.X.data if items.is_sparse else items.X
    return {
        "n_items": items.n_items,
        "n_features": items.n_features,
        "n_queries": None if items.qid is None else items.n_queries,
        "items_per_query": _spread(items.queries.sizes),
        "grades": _counts(items.y),
        "features": None if items.feature_names is None else list(items.feature_names[:20]),
        "ids": items.docid is not None,
        "missing": int((values != values).sum()),
        "sparse": items.is_sparse,
    }


def _describe_ratings(ratings: Ratings) -> dict[str, Any]:
    density = len(ratings) / (ratings.n_users * ratings.n_items)
    return {
        "n_ratings": len(ratings),
        "n_users": ratings.n_users,
        "n_items": ratings.n_items,
        "values": _counts(ratings.value),
        "density": float(f"{density:.4g}"),
        "ratings_per_user": _spread(ratings.user_counts),
        "ratings_per_item": _spread(ratings.item_counts),
    }


def _spread(sizes: NDArray[Any]) -> str:
    return f"{sizes.min()} to {sizes.max()}, mean {sizes.mean():.1f}"


def _counts(grades: NDArray[Any]) -> dict[str, int] | str:
    values, counts = np.unique(grades, return_counts=True)
    if len(values) > 12:
        return f"{values.min():g} to {values.max():g}, {len(values)} values"
    return {f"{value:g}": int(count) for value, count in zip(values, counts, strict=True)}
