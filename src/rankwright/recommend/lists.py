"""Which items a list may hold: exclusions, filters, caps and diversity; lists as files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, Id, IntArray
from rankwright.data.display import html_table
from rankwright.data.io.files import atomic_write
from rankwright.data.vocabulary import UsersAndItems, Vocabulary
from rankwright.exceptions import DataError, ParameterError
from rankwright.recommend.explanations import Recommendation, as_list
from rankwright.runtime import progress

if TYPE_CHECKING:
    from rankwright.data.behavior.interactions import Interactions
    from rankwright.data.behavior.ratings import Ratings
    from rankwright.recommend.events.histories import Histories

Exclude: TypeAlias = Iterable[Id] | None  # "taken", None, or ids to leave out as well
Allow: TypeAlias = "Filter | Collection[Id] | Callable[[Any], bool] | None"

HORIZONS = ("next", "period")  # what a list is for: the next item, or the coming time
POOL = 10  # candidates for each place of a list that is capped or made diverse
CELLS = 2**22  # cosines at once
CACHED = 2**25  # cosines that are kept for the next lists


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
            raise ParameterError(
                f"Filter(diversity={self.diversity!r}): give a number in 0 .. 1.",
                parameter="diversity",
            )
        cap = self.max_per_category
        if cap is not None and (not isinstance(cap, int) or cap < 1):
            raise ParameterError(
                f"Filter(max_per_category={cap!r}): give an integer >= 1.",
                parameter="max_per_category",
            )
        if isinstance(self.only, str | bytes):
            raise ParameterError(
                f"Filter(only={self.only!r}): give a list of categories, [{self.only!r}].",
                parameter="only",
            )
        if self.categories is None and (self.only is not None or cap is not None):
            raise ParameterError(
                "Filter(only=, max_per_category=): give categories= as well.", parameter="only"
            )


class Selection:
    """A filter and exclusions over the items of one recommender.

    Parameters
    ----------
    data : Histories or Ratings
    exclude : "taken", None (a taken item may come again) or item ids to leave out as well
    filter : Filter, a collection of ids, a function of an id, or None
    horizon : "next", "period" or None, what the lists are for
    """

    def __init__(
        self,
        data: Histories | Ratings,
        exclude: Exclude = "taken",
        filter: Allow = None,
        horizon: str | None = None,
    ) -> None:
        items = data.item_vocabulary
        self.exclude_taken = exclude is not None
        self.filter = filter if isinstance(filter, Filter) else Filter(allow=filter)
        self.allowed = _allowed(items, self.filter)
        if isinstance(exclude, str) and exclude != "taken":
            raise ParameterError(
                f'exclude={exclude!r}: give "taken", None or a list of item ids.',
                parameter="exclude",
            )
        if exclude is not None and not isinstance(exclude, str):
            self.allowed[_known(items, exclude, "exclude")] = False
        self._category = _categories(items, self.filter.categories)
        if horizon not in (None, *HORIZONS):
            raise ParameterError(
                f'horizon={horizon!r}: give "next", "period" or None.', parameter="horizon"
            )
        self.horizon = horizon
        self._data = data
        self._cosines: dict[int, NDArray[np.float32]] = {}

    @cached_property
    def _pairs(self) -> Any:
        from rankwright.recommend.events.histories import Histories
        from rankwright.recommend.events.neighbors import neighbor_pairs

        data = self._data
        return neighbor_pairs(data if isinstance(data, Histories) else Histories.of_ratings(data))

    def _cosine(self, item: int) -> NDArray[np.float32]:
        """Cosines of the users of an item with those of all items; lists share most of them."""
        from rankwright.recommend.events._kernels import count_with

        row = self._cosines.get(item)
        if row is None:
            row = np.zeros(self._data.n_items, np.float32)
            count_with(self._pairs, item, row)
            size = np.sqrt(np.maximum(self._data.item_counts, 1)).astype(np.float32)
            row /= size * size[item]
            if len(self._cosines) * len(row) > CACHED:
                self._cosines.clear()
            self._cosines[item] = row
        return row

    @property
    def is_plain(self) -> bool:
        """Whether the best of the allowed items are the list."""
        return self.filter.max_per_category is None and self.filter.diversity == 0.0

    def pick(
        self, ranked: NDArray[np.int64], scores: NDArray[Any], n: int
    ) -> list[NDArray[np.int64]]:
        """At most n items of each row of ranked ones, (n_rows, n_ranked), -1 behind their end."""
        if self.filter.diversity > 0.0:
            return self._diverse(ranked[:, : POOL * n], scores[:, : POOL * n], n)
        rows = [row[row >= 0] for row in ranked]
        return [row[:n] if self.is_plain else self._capped(row, n) for row in rows]

    def _capped(self, ranked: IntArray, n: int) -> IntArray:
        used: Counter[int] = Counter()
        within_cap = (item for item in ranked.tolist() if self._count(item, used))
        return np.array(list(islice(within_cap, n)), np.int64)

    def _count(self, item: int, used: Counter[int]) -> bool:
        """Whether an item is within the cap of its category, which it then uses."""
        category, cap = int(self._category[item]), self.filter.max_per_category
        if cap is None or category < 0:
            return True
        used[category] += 1
        return used[category] <= cap

    def _diverse(
        self, ranked: NDArray[np.int64], scores: NDArray[Any], n: int
    ) -> list[NDArray[np.int64]]:
        """Maximal marginal relevance (Carbonell and Goldstein 1998), all lists place by place."""
        left, every = ranked >= 0, np.arange(len(ranked))
        values = np.where(left, scores, np.inf).astype(np.float64)
        low = values.min(axis=1, initial=np.inf, keepdims=True)
        values = np.where(left, scores, low) - low
        relevance = values / np.maximum(values.max(axis=1, initial=0.0, keepdims=True), 1e-300)
        nearest, share = np.zeros(ranked.shape), self.filter.diversity
        category = np.where(left, self._category[np.maximum(ranked, 0)], -1)
        used = np.zeros((len(ranked), int(category.max(initial=-1)) + 2), np.int64)
        chosen: list[list[int]] = [[] for _ in ranked]
        for _ in range(min(n, ranked.shape[1])):
            if self.filter.max_per_category is not None:
                full = used[every[:, None], category] >= self.filter.max_per_category
                left &= ~(full & (category >= 0))
            value = np.where(left, (1.0 - share) * relevance - share * nearest, -np.inf)
            best = value.argmax(axis=1)
            for row in np.flatnonzero(left[every, best]).tolist():
                item = int(ranked[row, best[row]])
                chosen[row].append(item)
                np.maximum(nearest[row], self._cosine(item)[ranked[row]], out=nearest[row])
            used[every, category[every, best]] += 1
            left[every, best] = False
        return [np.array(items, np.int64) for items in chosen]


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


def _known(items: Vocabulary, ids: object, name: str) -> IntArray:
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
    of_items = [categories.get(item) for item in items.ids.tolist()]
    return np.array([-1 if c is None else numbers.setdefault(c, len(numbers)) for c in of_items])


def item_table(data: Histories | Ratings | Interactions, n_items: int | None = None) -> Any:
    """The users of each item as rows of length 1: a CSR array, items by users, float32."""
    from scipy.sparse import csr_array, diags_array

    shape = (n_items or data.n_items, data.n_users)
    ones = np.ones(len(data.item), np.float32)
    table = csr_array((ones, (data.item, data.user)), shape=shape)
    table.data[:] = 1.0  # a repeated event counts once
    size = np.maximum(np.diff(table.indptr), 1)
    return (diags_array((1.0 / np.sqrt(size)).astype(np.float32)) @ table).tocsr()


def user_cosines(
    data: Histories | Ratings | Interactions, items: IntArray, n_items: int | None = None
) -> FloatArray:
    """Cosines of the users of some items (distinct numbers), (n, n)."""
    rows = item_table(data, n_items)[items]
    return np.asarray((rows @ rows.T).toarray(), np.float64)


def pair_cosines(
    data: Histories | Ratings | Interactions, first: IntArray, second: IntArray, n_items: int
) -> FloatArray:
    """Cosines of the users of pairs of items; ``first`` ascends. Memory is bounded."""
    shown, index = np.unique(np.concatenate([first, second]), return_inverse=True)
    table = item_table(data, n_items)[shown]
    left, right = np.split(index.reshape(-1), [len(first)])
    cosine = np.zeros(len(first))
    step = max(1, CELLS // max(len(shown), 1))
    for start in range(0, len(shown), step):
        pairs = slice(*np.searchsorted(left, [start, start + step]))
        if pairs.start < pairs.stop:
            rows = (table[start : start + step] @ table.T).toarray()
            cosine[pairs] = rows[left[pairs] - start, right[pairs]]
    return cosine


def frame_of(columns: Mapping[str, Any], backend: str) -> Any:
    """A data frame of any library that narwhals knows."""
    import narwhals as nw

    return nw.to_native(nw.from_dict(dict(columns), backend=cast("Any", backend)))


def user_cosine(data: Histories | Ratings, item: int) -> FloatArray:
    """Cosines of the users of an item with those of all items, (n_items,)."""
    users = data.user[data.item == item]
    common = np.bincount(data.item[np.isin(data.user, users)], minlength=data.n_items)
    size = np.maximum(data.item_counts, 1) * max(len(users), 1)
    return np.asarray(common / np.sqrt(size))


def nearest_users(
    data: Histories | Ratings, value: FloatArray, own: FloatArray, without: int, n: int
) -> list[tuple[int, float]]:
    """The n users whose vectors of items have the largest cosines > 0 with ``own``, (n_items,).

    ``value`` are the entries of the users' vectors, one for each row of the data; ``without`` is
    the number of a user to leave out.
    """
    dot = np.bincount(data.user, value * own[data.item], data.n_users)
    length = np.sqrt(np.bincount(data.user, value**2, data.n_users) * (own @ own))
    cosine = np.divide(dot, length, out=np.zeros(data.n_users), where=length > 0)
    if without >= 0:
        cosine[without] = 0.0
    best = np.argsort(-cosine, kind="stable")[:n]
    return [(int(user), float(cosine[user])) for user in best if cosine[user] > 0]


class ListBlock(NamedTuple):
    """Lists of some users, in numbers of items."""

    number: NDArray[np.int64]  # (n_users, n), best first, -1 behind the end of a shorter list
    score: NDArray[Any]  # (n_users, n)

    @classmethod
    def of(cls, numbers: list[IntArray], scores: list[FloatArray], n: int) -> ListBlock:
        """Lists of different lengths, of at most n items each."""
        number = np.full((len(numbers), n), -1, np.int64)
        score = np.zeros((len(numbers), n))
        for row, (items, values) in enumerate(zip(numbers, scores, strict=True)):
            number[row, : len(items)], score[row, : len(items)] = items, values
        return cls(number, score)

    def lists(self, items: NDArray[Any]) -> Iterator[list[Recommendation]]:
        """The lists, with the ids of the items."""
        ids, scores = items[np.maximum(self.number, 0)].tolist(), self.score.tolist()
        for row, values, size in zip(ids, scores, (self.number >= 0).sum(axis=1), strict=True):
            yield as_list(row[:size], values[:size])


class TopLists(Mapping[Any, list[Recommendation]]):
    """Lists of many users: a mapping of user ids to lists of Recommendation.

    It holds arrays, and makes a list when it is asked for.

    Attributes
    ----------
    users : list of ids
    catalog : (n_items,) ids of all items
    number : (n_users, n) which items, best first, -1 behind the end of a shorter list
    score : (n_users, n) their scores

    Examples
    --------
    >>> block = ListBlock(np.array([[1, 0], [1, -1]]), np.array([[0.5, 0.25], [0.5, 0.0]]))
    >>> lists = TopLists(["ann", "bob"], np.array([7, 8]), [block])
    >>> lists["bob"], len(lists)
    ([Recommendation(item=8, score=0.5)], 2)
    """

    def __init__(self, users: list[Any], catalog: NDArray[Any], blocks: list[ListBlock]) -> None:
        self.users, self.catalog = users, catalog
        self.number = np.concatenate([block.number for block in blocks])
        self.score = np.concatenate([block.score for block in blocks])
        self._row = {user: row for row, user in enumerate(users)}

    def __getitem__(self, user: Id) -> list[Recommendation]:
        rows = slice(self._row[user], self._row[user] + 1)
        return next(ListBlock(self.number[rows], self.score[rows]).lists(self.catalog))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    def _repr_html_(self) -> str:
        """The lists of the first five users, in notebooks."""
        rows = [
            (str(user), ", ".join(str(one.item) for one in self[user])) for user in self.users[:5]
        ]
        return html_table(("user", "items, best first"), rows, f"lists of {len(self):,} users")

    def to_columns(self) -> dict[str, list[Any]]:
        """Columns user, rank (from 1), item and score, one row for each place."""
        row, rank = np.nonzero(self.number >= 0)
        number = self.number[row, rank]
        return {
            "user": [self.users[at] for at in row.tolist()],
            "rank": (rank + 1).tolist(),
            "item": self.catalog[number].tolist(),
            "score": self.score[row, rank].astype(np.float64).tolist(),
        }

    def to_frame(self, backend: str = "pandas") -> Any:
        """A data frame with the columns user, rank, item and score; ``backend`` is "pandas",
        "polars", "pyarrow", "modin" or "cudf"."""
        return frame_of(self.to_columns(), backend)

    def __repr__(self) -> str:
        return f"TopLists({len(self):,} users, {self.number.shape[1]} items each at most)"


Blocks = Iterator[tuple[list[Any], ListBlock]]  # ids of users, and their lists


def write_lists(
    blocks: Blocks,
    data: UsersAndItems,
    path: str | os.PathLike[str],
    titles: NDArray[Any] | None = None,
) -> int:
    """Write lists as they come; the number of users.

    JSON Lines (``.jsonl``): ``{"user": 7, "items": [...], "scores": [...]}``. Parquet
    (``.parquet``): columns user, rank, item, score. Where titles are known, they are written too.
    """
    name = os.fspath(path)
    if name.endswith(".jsonl"):
        return _write_jsonl(blocks, data, path, titles)
    if name.endswith((".parquet", ".pq")):
        return _write_parquet(blocks, data, path, titles)
    raise ParameterError(
        f"recommend_all(output={name!r}): use the extension .jsonl or .parquet.", parameter="output"
    )


def _write_jsonl(
    blocks: Blocks, data: UsersAndItems, path: str | os.PathLike[str], titles: NDArray[Any] | None
) -> int:
    n_users = 0
    with atomic_write(path, mode=0o666) as file:
        for users, block in blocks:
            columns = zip(users, block.lists(data.items), block.number, strict=True)
            for user, best, number in columns:
                ids, scores = [r.item for r in best], [r.score for r in best]
                row = {"user": user, "items": ids, "scores": scores}
                if titles is not None:
                    row["titles"] = titles[number[number >= 0]].tolist()
                file.write(json.dumps(row, ensure_ascii=False, default=str).encode() + b"\n")
            n_users += len(users)
    return n_users


def _write_parquet(
    blocks: Blocks, data: UsersAndItems, path: str | os.PathLike[str], titles: NDArray[Any] | None
) -> int:
    if find_spec("pyarrow") is None:
        raise DataError(f"{path}: pyarrow writes Parquet files: pip install pyarrow.")
    import pyarrow
    from pyarrow import parquet

    try:  # types of the whole data: a block may be empty
        kinds = [("user", pyarrow.array(data.users.tolist()).type), ("rank", pyarrow.int64())]
        kinds += [("item", pyarrow.array(data.items.tolist()).type), ("score", pyarrow.float64())]
    except pyarrow.ArrowException:
        raise DataError(
            f"{path}: a column of Parquet has one type, and these ids are numbers and texts. Write "
            ".jsonl, or fit with ids of one type."
        ) from None
    kinds += [] if titles is None else [("title", pyarrow.string())]
    n_users = 0
    with (
        atomic_write(path, mode=0o666) as file,
        parquet.ParquetWriter(file, pyarrow.schema(kinds)) as writer,
    ):
        for users, block in blocks:
            row, rank = np.nonzero(block.number >= 0)
            number = block.number[row, rank]
            columns = {
                "user": [users[at] for at in row.tolist()],
                "rank": rank + 1,
                "item": data.items[number].tolist(),
                "score": block.score[row, rank].astype(np.float64),
            }
            columns |= {} if titles is None else {"title": titles[number].tolist()}
            writer.write_table(pyarrow.table(columns, schema=writer.schema))
            n_users += len(users)
    return n_users


def with_progress(blocks: Blocks, total: int, show: Callable[[int, int], object] | bool) -> Blocks:
    """The same lists; ``show`` is a function of (done, total), or True for a bar on stderr."""
    done = 0
    with progress.task("making lists", total, unit="users", active=show is True) as work:
        for users, block in blocks:
            yield users, block
            done += len(users)
            work.update(done)
            if callable(show):
                show(done, total)
