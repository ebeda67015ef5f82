"""A synthetic log of a shop: sessions, event types, repeats, power laws and cold items."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    log.session, log.sessions = read_only(session[order]), np.arange(len(length))
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
