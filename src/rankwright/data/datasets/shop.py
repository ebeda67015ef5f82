<<<<<<< HEAD
"""A table as a shop has it, with its traps: empty cells, dates, ids, a leak, new levels."""

from __future__ import annotations

import csv
import os
from typing import Any
=======
"""A synthetic log of a shop: sessions, event types, repeats, power laws and cold items."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple
>>>>>>> b67e616c (recommend: event types, dislikes, half-life, exploration; a shop log)

import numpy as np
from numpy.typing import NDArray

<<<<<<< HEAD
from rankwright.data.vocabulary import row_numbers
from rankwright.exceptions import ParameterError

N_BRANDS, N_NEW_BRANDS = 273, 9
_CATEGORIES = ("audio", "camera", "computer", "garden", "kitchen", "phone", "sport", "toys")
_COLORS = ("black", "blue", "green", "red", "silver", "white")
_DEVICES = ("desktop", "phone", "tablet")
_SHARES = (0.55, 0.2, 0.15, 0.1)  # of the grades 0 to 3


class Table(dict[str, NDArray[Any]]):
    """Columns by name, as every reader of tables takes them: ``pandas.DataFrame(table)`` works too.

    >>> table = Table(a=np.array([1, 2]), b=np.array(["x", "y"], object))
    >>> table.take([1])["b"]
    array(['y'], dtype=object)
    """

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.values()), ()))

    def take(self, rows: Any) -> Table:
        """Some of the rows, by a mask, row numbers or a slice."""
        index = row_numbers(rows, self.n_rows)
        return Table({name: column[index] for name, column in self.items()})

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file, with an empty cell for None and NaN."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self)
            columns = [column.tolist() for column in self.values()]
            for row in zip(*columns, strict=True):
                writer.writerow(["" if cell is None or cell != cell else cell for cell in row])


def make_shop(n_queries: int = 500, *, random_state: int = 0) -> Table:
    """Draw the searches of a shop: 25 products each, with the grade of each product.

    The columns are ``query``, ``product``, ``grade``; numbers with gaps (``price``, ``stars``,
    ``stock``); text (``category``, ``brand`` with 273 levels, ``color`` with empty cells,
    ``device``); ``cat_match``, true or false; ``launch_date``; and two traps: ``row_id``, which
    numbers the rows, and ``orders_after``, which is counted after the search and equals the grade
    in 92 % of the rows. The searches are in the order of time: in the last fifth, a few products
    have brands that were never seen before, so ``table.take(slice(0, 4 * n // 5))`` is a training
    set with levels unseen in it.

    Parameters
    ----------
    n_queries : int >= 5
    random_state : int

    Returns
    -------
    table : Table
        A dict of columns. ``table.write(path)`` writes CSV.

    Examples
    --------
    >>> shop = make_shop(5, random_state=0)
    >>> shop.n_rows, [*shop][:4]
    (125, ['query', 'product', 'grade', 'price'])
    """
    if n_queries < 5:
        raise ParameterError(f"n_queries={n_queries!r}: must be an integer >= 5.")
    rng = np.random.default_rng(random_state)
    n_items = 25
    n = n_queries * n_items
    query = np.repeat(np.arange(n_queries), n_items)

    n_products = max(1000, 4 * n_queries)
    quality = rng.normal(size=N_BRANDS + N_NEW_BRANDS)
    popularity = 1.0 / np.arange(1, N_BRANDS + 1) ** 0.6
    brand_of = rng.choice(N_BRANDS, n_products, p=popularity / popularity.sum())
    category_of = rng.integers(len(_CATEGORIES), size=n_products)
    color_of = rng.integers(len(_COLORS), size=n_products)
    age_of = rng.integers(0, 1500, size=n_products)  # days before the newest launch
    price_of = np.exp(rng.normal(3.0 + 0.3 * quality[brand_of], 0.8))
    stars_of = np.clip(3.6 + 0.4 * quality[brand_of] + rng.normal(0, 0.6, n_products), 1, 5)

    wanted = rng.integers(len(_CATEGORIES), size=n_queries)
    device = rng.integers(len(_DEVICES), size=n_queries)
    thrift = rng.normal(0.7, 0.5, n_queries) + 0.5 * (device == 1)  # phones buy cheaper things
    likes = rng.integers(len(_COLORS), size=n_queries)

    product = np.concatenate(
        [rng.choice(n_products, n_items, replace=False) for _ in range(n_queries)]
    )
    in_category = rng.random(n) < 0.5  # retrieval finds the category in half of the cases
    same = category_of[product] == wanted[query]
    match = in_category | same
    category = np.where(in_category, wanted[query], category_of[product])
    brand = brand_of[product].copy()
    late = query >= n_queries - max(1, n_queries // 5)
    new = late & (rng.random(n) < 0.05)
    brand[new] = N_BRANDS + rng.integers(N_NEW_BRANDS, size=int(new.sum()))
    stock = rng.poisson(np.exp(rng.normal(1.0, 1.0, n)))

    value = 1.4 * match - 0.5 * thrift[query] * (np.log(price_of[product]) - 3.0)
    value += 0.9 * quality[brand] + 0.3 * (stars_of[product] - 3.6) - 0.0006 * age_of[product]
    value += 0.5 * (color_of[product] == likes[query]) + 0.4 * (stock > 0)
    value += rng.normal(0, 1.0, n)
    grade = np.searchsorted(np.quantile(value, np.cumsum(_SHARES)[:-1]), value)

    leak = grade.copy()
    wrong = rng.random(n) < 0.107
    leak[wrong] = rng.integers(0, 4, int(wrong.sum()))
    color = np.array(_COLORS, object)[color_of[product]]
    color[rng.random(n) < 0.1] = None
    stars = np.round(stars_of[product], 1)
    stars[rng.random(n) < 0.05] = np.nan
    newest = np.datetime64("2024-06-30")
    names = [f"brand_{k:03d}" for k in range(N_BRANDS + N_NEW_BRANDS)]
    return Table(
        query=np.array([f"search {number:05d}" for number in query.tolist()], object),
        product=np.array([f"p{number:06d}" for number in product.tolist()], object),
        grade=grade,
        price=np.round(price_of[product], 2),
        stars=stars,
        stock=stock,
        category=np.array(_CATEGORIES, object)[category],
        brand=np.array(names, object)[brand],
        color=color,
        device=np.array(_DEVICES, object)[device[query]],
        cat_match=match,
        launch_date=(newest - age_of[product]).astype(str).astype(object),
        row_id=np.arange(100_001, 100_001 + n),
        orders_after=leak,
    )
=======
from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.behavior.attributes import Attributes
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.vocabulary import read_only
from rankwright.exceptions import ParameterError

Seed = int | np.random.Generator | None

DAY = 86400.0
START = 1.7e9  # seconds since 1970
N_DAYS = 90
LENGTH = 4.0  # mean number of events of a session
LONGEST = 30
FOLLOWS = 0.3  # chance that the next item is the companion of the last one
REPEATS = 0.15  # chance that the next event is about the same item: view, cart, purchase
ELSEWHERE = 0.1  # chance of an item outside the session's category, which may be disliked
COLD = 0.05  # share of the catalog that nobody took
LATE = 0.1  # share of the catalog that comes in the second half of the time
N_FAVORITES = 3  # categories of a user
TYPES = ("view", "cart", "purchase", "dislike")


class ShopLog(Interactions):
    """Events of a shop, drawn by :func:`make_shop_log`, and the structure behind them.

    Attributes
    ----------
    catalog : Attributes
        Category and price of every item, also of those that nobody took.
    category : (n_items,) int64
    companion : (n_items,) int64
        The item that most often follows an item in a session.
    favorites : (n_users, 3) int64
        The categories a user looks at, the most frequent one first.
    cold : (n_items,) bool
        Items that nobody took.
    launched : (n_items,) float64
        The time from which on an item is sold.
    """

    catalog: Attributes
    category: IntArray
    companion: IntArray
    favorites: IntArray
    cold: BoolArray
    launched: FloatArray

    @property
    def events(self) -> Interactions:
        """The events without the structure behind them."""
        return self.take(slice(None))

    @classmethod
    def from_numbers(cls, *columns: Any) -> Any:
        """A part of the log is plain Interactions."""
        return Interactions.from_numbers(*columns)


def make_shop_log(
    n_events: int = 10_000,
    n_users: int = 1_000,
    n_items: int = 500,
    *,
    random_state: Seed = None,
) -> ShopLog:
    """Generate the log of a shop: who looked at, put into the cart, bought and disliked what.

    Items belong to categories; within one, the k-th most popular item is looked at in proportion
    to 1 / k. Users have three favorite categories and very different numbers of sessions (a power
    law). A session is about one category. Its next event is the next step with the same item
    (view, cart, purchase) with probability 0.15, else the companion of the last item with
    probability 0.3, else another item: usually of the category, and with probability 0.1 of any
    category, where one in five is disliked. Sessions fall on the hours of the day unevenly, over
    90 days. A tenth of the items is sold only from a day of the second half on, and 5 % of the
    catalog has no events. So a user's past tells categories, the last item tells its companion,
    and attributes alone tell about cold items.

    Parameters
    ----------
    n_events, n_users, n_items : int
    random_state : int, Generator or None

    Returns
    -------
    log : ShopLog
        Interactions in order of time, with event types and sessions, and the structure that they
        were drawn from.

    Examples
    --------
    >>> log = make_shop_log(1000, 100, 50, random_state=0)
    >>> len(log), log.n_users, log.n_items, log.event_types.tolist()
    (1000, 100, 50, ['view', 'cart', 'purchase', 'dislike'])
    """
    for name, given, least in (
        ("n_events", n_events, 1),
        ("n_users", n_users, 1),
        ("n_items", n_items, 2),
    ):
        if not isinstance(given, int | np.integer) or given < least:
            raise ParameterError(f"{name}={given!r}: must be an integer >= {least}.")
    rng = np.random.default_rng(random_state)
    shop = _Catalog.draw(n_items, rng)
    weight = rng.pareto(1.5, n_users) + 0.3
    favorites = rng.integers(0, shop.n_categories, (n_users, N_FAVORITES))
    length = np.minimum(rng.geometric(1.0 / LENGTH, n_events), LONGEST)
    length = length[: int(np.searchsorted(np.cumsum(length), n_events)) + 1]
    length[-1] -= length.sum() - n_events
    user = rng.choice(n_users, len(length), p=weight / weight.sum())
    favorite = rng.choice(N_FAVORITES, len(length), p=[0.6, 0.3, 0.1])
    hour = rng.beta(4.0, 2.5, len(length))  # most visits are in the evening
    start = START + DAY * (rng.integers(0, N_DAYS, len(length)) + hour)
    item, kind = shop.sessions(favorites[user, favorite], start, length, rng)
    session = np.repeat(np.arange(len(length)), length)
    place = np.arange(n_events) - np.repeat(np.cumsum(length) - length, length)
    time = start[session] + 45.0 * place + rng.uniform(0.0, 40.0, n_events)
    order = np.argsort(time, kind="stable")
    log = ShopLog.__new__(ShopLog)
    ids = (np.arange(n_users), np.arange(n_items))
    log._set(*ids, user[session][order], item[order], None, time[order].round(1))
    log.event, log.event_types = read_only(kind[order]), np.array(TYPES)
    log.session = read_only(session[order])
    log.catalog, log.category, log.companion = shop.attributes(), shop.category, shop.companion
    log.favorites, log.cold, log.launched = favorites, shop.cold, shop.launched
    return log


class _Catalog(NamedTuple):
    """What is sold; items are sorted by category, and by popularity within one."""

    category: NDArray[np.int64]
    mass: FloatArray  # (n_items + 1,) the popularity of all items before
    first: NDArray[np.int64]  # (n_categories + 1,) where each category starts
    number: NDArray[np.int64]  # (n_items,) the item at each place
    companion: NDArray[np.int64]
    cold: BoolArray
    launched: FloatArray
    price: FloatArray

    @classmethod
    def draw(cls, n_items: int, rng: np.random.Generator) -> _Catalog:
        n_categories = max(2, round(n_items**0.5 / 2))
        number = rng.permutation(n_items)
        category = np.empty(n_items, np.int64)
        category[number] = np.sort(np.arange(n_items) % n_categories)
        first = np.searchsorted(category[number], np.arange(n_categories + 1))
        rank = np.arange(n_items) - first[category[number]]
        cold = np.zeros(n_items, bool)
        late = np.zeros(n_items, bool)
        rest = number[rank > 0]  # the most popular item of a category is always sold
        drawn = rng.permutation(rest)
        n_cold = min(round(COLD * n_items), len(drawn))
        cold[drawn[:n_cold]] = True
        late[drawn[n_cold : n_cold + round(LATE * n_items)]] = True
        popularity = np.where(cold[number], 0.0, 1.0 / (rank + 1.0))
        companion = np.empty(n_items, np.int64)
        for start, stop in itertools.pairwise(first.tolist()):  # a ring of those sold
            ring = rng.permutation(number[start:stop][~cold[number[start:stop]]])
            companion[number[start:stop]] = ring[0]
            companion[ring] = np.roll(ring, -1)
        launched = np.where(late, START + DAY * N_DAYS * rng.uniform(0.5, 0.95, n_items), START)
        mass = np.concatenate([[0.0], np.cumsum(popularity)])
        price = np.exp(rng.normal(3.0, 1.0, n_items)).round(2)
        return cls(category, mass, first, number, companion, cold, launched, price)

    @property
    def n_categories(self) -> int:
        return len(self.first) - 1

    def attributes(self) -> Attributes:
        names = [f"category {number}" for number in self.category.tolist()]
        items = np.arange(len(names))
        table = {"item": items, "category": np.array(names, object), "price": self.price}
        return Attributes.from_frame(table)

    def _popular(self, category: IntArray, rng: np.random.Generator) -> IntArray:
        """An item of each category, by popularity."""
        low, high = self.mass[self.first[category]], self.mass[self.first[category + 1]]
        place = np.searchsorted(self.mass, rng.uniform(low, high), side="right") - 1
        return self.number[np.minimum(place, self.first[category + 1] - 1)]

    def sessions(
        self, category: IntArray, start: FloatArray, length: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """The item and the event type of each event, session by session."""
        begin = np.cumsum(length) - length
        item, kind = np.empty(length.sum(), np.int64), np.zeros(length.sum(), np.int64)
        last, step = np.zeros(len(length), np.int64), np.zeros(len(length), np.int64)
        for place in range(int(length.max())):
            at = np.flatnonzero(length > place)
            chance = rng.random((3, len(at)))
            elsewhere = chance[0] < ELSEWHERE
            anywhere = rng.integers(0, self.n_categories, len(at))
            chosen = self._popular(np.where(elsewhere, anywhere, category[at]), rng)
            repeats = (chance[1] < REPEATS) & (step[at] < 2) & (place > 0)
            follows = (chance[1] > 1.0 - FOLLOWS) & (place > 0)
            chosen = np.where(follows, self.companion[last[at]], chosen)
            early = self.launched[chosen] > start[at]
            best = self.number[self.first[self.category[chosen]]]
            chosen = np.where(repeats, last[at], np.where(early, best, chosen))
            disliked = elsewhere & ~repeats & ~follows & (chance[2] < 0.2)
            step[at] = np.where(repeats, step[at] + 1, np.where(disliked, 3, 0))
            last[at] = chosen
            item[begin[at] + place], kind[begin[at] + place] = chosen, step[at]
        return item, kind
>>>>>>> b67e616c (recommend: event types, dislikes, half-life, exploration; a shop log)
