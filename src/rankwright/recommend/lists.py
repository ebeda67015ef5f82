"""Which items a list may hold: exclusions, filters, caps and diversity; lists as files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.io.files import atomic_write
from rankwright.data.vocabulary import Vocabulary
from rankwright.exceptions import DataError, ParameterError
from rankwright.recommend.explanations import Recommendation

POOL = 10  # candidates for each place of a list that is capped or made diverse


@dataclass(frozen=True)
class Filter:
    """What a list may hold.

    Parameters
    ----------
    allow : collection of item ids, a function of an id, or None
        Only these items, such as those in stock.
    categories : mapping of item ids to a category, or None
    only : collection of categories or None
        Only items of these categories.
    max_per_category : int or None
        At most so many items of a category in a list; items without a category do not count.
    diversity : float from 0 to 1
        Maximal marginal relevance: each next item is the best by (1 - diversity) * score -
        diversity * similarity to what the list holds (0 leaves the order as it is).

    Examples
    --------
    >>> Filter(allow=[1, 2, 3], categories={1: "film", 2: "book"}, max_per_category=1).diversity
    0.0
    """

    allow: Collection[Any] | Callable[[Any], bool] | None = None
    categories: Mapping[Any, Any] | None = None
    only: Collection[Any] | None = None
    max_per_category: int | None = None
    diversity: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.diversity <= 1.0:
            raise ParameterError(f"Filter(diversity={self.diversity!r}): give a number in 0 .. 1.")
        cap = self.max_per_category
        if cap is not None and (not isinstance(cap, int) or cap < 1):
            raise ParameterError(f"Filter(max_per_category={cap!r}): give an integer >= 1.")
        if self.categories is None and (self.only is not None or cap is not None):
            raise ParameterError("Filter(only=, max_per_category=): give categories= as well.")


class Selection:
    """A filter and exclusions over the items of one recommender.

    Parameters
    ----------
    items : vocabulary of the items
    exclude : "taken", None (a taken item may come again) or item ids to leave out as well
    filter : Filter, a collection of ids, a function of an id, or None
    similarity : gives the similarities of some items (numbers), for diversity
    """

    def __init__(
        self,
        items: Vocabulary,
        exclude: Any = "taken",
        filter: Any = None,
        similarity: Callable[[IntArray], FloatArray] | None = None,
    ) -> None:
        self.exclude_taken = exclude is not None
        self.filter = filter if isinstance(filter, Filter) else Filter(allow=filter)
        self.allowed = _allowed(items, self.filter)
        if isinstance(exclude, str) and exclude != "taken":
            raise ParameterError(f'exclude={exclude!r}: give "taken", None or a list of item ids.')
        if exclude is not None and not isinstance(exclude, str):
            self.allowed[_known(items, exclude, "exclude")] = False
        self._category = _categories(items, self.filter.categories)
        self._similarity = similarity

    @property
    def is_plain(self) -> bool:
        """Whether the best of the allowed items are the list."""
        return self.filter.max_per_category is None and self.filter.diversity == 0.0

    def pick(self, ranked: IntArray, scores: FloatArray, n: int) -> IntArray:
        """At most n of some items, which are ranked by score."""
        if self.is_plain:
            return ranked[:n]
        if self.filter.diversity == 0.0:
            return self._capped(ranked, n)
        return self._diverse(ranked, scores, n)

    def _capped(self, ranked: IntArray, n: int) -> IntArray:
        room: dict[int, int] = {}
        chosen = []
        for item in ranked.tolist():
            if self._has_room(item, room):
                chosen.append(item)
                if len(chosen) == n:
                    break
        return np.array(chosen, np.int64)

    def _has_room(self, item: int, used: dict[int, int]) -> bool:
        category, cap = int(self._category[item]), self.filter.max_per_category
        if cap is None or category < 0:
            return True
        if used.get(category, 0) >= cap:
            return False
        used[category] = used.get(category, 0) + 1
        return True

    def _diverse(self, ranked: IntArray, scores: FloatArray, n: int) -> IntArray:
        """Maximal marginal relevance (Carbonell and Goldstein 1998) over the best candidates."""
        ranked, scores = ranked[: POOL * n], scores[: POOL * n].astype(np.float64)
        assert self._similarity is not None
        similarity = self._similarity(ranked)
        spread = np.ptp(scores) if len(scores) else 0.0
        relevance = (scores - scores.min(initial=0.0)) / (spread or 1.0)
        nearest, left = np.zeros(len(ranked)), np.ones(len(ranked), bool)
        used: dict[int, int] = {}
        chosen: list[int] = []
        while left.any() and len(chosen) < n:
            share = self.filter.diversity
            value = np.where(left, (1.0 - share) * relevance - share * nearest, -np.inf)
            at = int(np.argmax(value))
            left[at] = False
            if self._has_room(int(ranked[at]), used):
                chosen.append(at)
                nearest = np.maximum(nearest, similarity[at])
        return np.asarray(ranked[chosen])


def _allowed(items: Vocabulary, filter: Filter) -> BoolArray:
    allowed = np.ones(len(items), bool)
    if callable(filter.allow):
        allowed &= np.array([bool(filter.allow(item)) for item in items.ids.tolist()])
    elif filter.allow is not None:
        allowed[:] = False
        allowed[_known(items, filter.allow, "filter")] = True
    if filter.only is not None and filter.categories is not None:
        only, kind = set(filter.only), filter.categories
        allowed &= np.array([kind.get(item) in only for item in items.ids.tolist()])
    return allowed


def _known(items: Vocabulary, ids: Any, name: str) -> IntArray:
    """Numbers of item ids; ids that are not in the catalog do not matter."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ParameterError(f"{name}={ids!r}: give a list of item ids.")
    known = [item for item in ids if item in items]
    return items.numbers(known) if known else np.zeros(0, np.int64)


def _categories(items: Vocabulary, categories: Mapping[Any, Any] | None) -> NDArray[np.int64]:
    """A number for the category of each item, -1 for none."""
    if categories is None:
        return np.full(len(items), -1, np.int64)
    numbers: dict[Any, int] = {}
    found = [categories.get(item) for item in items.ids.tolist()]
    return np.array([-1 if c is None else numbers.setdefault(c, len(numbers)) for c in found])


Lists = Iterator[tuple[Any, list[Recommendation]]]


def write_lists(lists: Lists, path: str | os.PathLike[str]) -> int:
    """Write lists as they come; the number of users.

    JSON Lines (``.jsonl``): ``{"user": 7, "items": [...], "scores": [...]}``. Parquet
    (``.parquet``): columns user, rank, item, score.
    """
    name = os.fspath(path)
    if name.endswith(".jsonl"):
        return _write_jsonl(lists, path)
    if name.endswith((".parquet", ".pq")):
        return _write_parquet(lists, path)
    raise ParameterError(f"recommend_all(output={name!r}): use the extension .jsonl or .parquet.")


def _write_jsonl(lists: Lists, path: Any) -> int:
    n_users = 0
    with atomic_write(path, mode=0o666) as file:
        for user, best in lists:
            row = {"user": user, "items": [r.item for r in best], "scores": [r.score for r in best]}
            file.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")
            n_users += 1
    return n_users


def _write_parquet(lists: Lists, path: Any, size: int = 10_000) -> int:
    if find_spec("pyarrow") is None:
        raise DataError(f"{path}: pyarrow writes Parquet files: pip install pyarrow.")
    n_users, writer = 0, None
    part: list[tuple[Any, int, Any, float]] = []
    with atomic_write(path, mode=0o666) as file:
        for user, best in lists:
            part += [(user, rank, r.item, r.score) for rank, r in enumerate(best, 1)]
            n_users += 1
            if len(part) >= size:
                writer, part = _append(writer, file, part), []
        if part or writer is None:
            writer = _append(writer, file, part)
        writer.close()
    return n_users


def _append(writer: Any, file: Any, rows: list[tuple[Any, int, Any, float]]) -> Any:
    from pyarrow import parquet, table

    names = ("user", "rank", "item", "score")
    part = table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    writer = writer or parquet.ParquetWriter(file, part.schema)
    writer.write_table(part)
    return writer


def with_progress(lists: Lists, total: int, show: Any) -> Lists:
    """The same lists; ``show`` is a function of (done, total), or True for a bar on stderr."""
    step = max(1, total // 100)
    report = show if callable(show) else _bar
    for done, one in enumerate(lists, 1):
        yield one
        if done % step == 0 or done == total:
            report(done, total)


def _bar(done: int, total: int) -> None:
    filled = 40 * done // max(total, 1)
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r[{'#' * filled}{' ' * (40 - filled)}] {done:,} of {total:,} users{end}")
    sys.stderr.flush()
