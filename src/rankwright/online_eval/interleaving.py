"""Interleaving: mix lists of several rankers into one, and credit its clicks to them.

Each user sees items of all rankers in one list, so every session compares them directly. That takes
far fewer sessions than an A/B test of the same rankers (Chapelle et al. 2012).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.exceptions import DataError, ParameterError

_MAX_LISTS = 128  # of the optimized method; more possible lists than this are sampled
NOBODY = -1  # the team of an item that no ranker is credited for


@dataclass(frozen=True)
class Interleaved:
    """An interleaved list with the data needed to credit its clicks. Immutable.

    Attributes
    ----------
    method : str
    items : tuple of ids, best first
    n_rankers : int
    credits : for each item, what a click on it earns each ranker; empty for ``balanced``
    ranks : for each item, its rank (from 1) in each ranker's list, 0 when it is not listed; only
        ``balanced`` needs and has it

    Examples
    --------
    >>> shown = interleave([["a", "b"], ["c", "a"]], n=2, seed=1)
    >>> Interleaved.from_dict(shown.to_dict()) == shown
    True
    """

    method: str
    items: tuple[Any, ...]
    n_rankers: int
    credits: tuple[tuple[float, ...], ...] = ()
    ranks: tuple[tuple[int, ...], ...] = ()

    @property
    def teams(self) -> tuple[int, ...]:
        """For each item, the ranker that a click credits; -1 if there is no single one."""
        return tuple(row.index(1.0) if 1.0 in row else NOBODY for row in self.credits)

    def to_dict(self) -> dict[str, Any]:
        """Convert to lists, strings and numbers, for JSON."""
        fields = asdict(self)
        return fields | {
            "items": list(self.items),
            "credits": [list(row) for row in self.credits],
            "ranks": [list(row) for row in self.ranks],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Interleaved:
        """Restore the result of :meth:`to_dict`."""
        return cls(
            str(fields["method"]),
            tuple(fields["items"]),
            int(fields["n_rankers"]),
            tuple(tuple(map(float, row)) for row in fields["credits"]),
            tuple(tuple(map(int, row)) for row in fields["ranks"]),
        )


def stable_seed(*parts: Any) -> int:
    """Compute a seed from a query, a user and a number that is the same in every process.

    The same user then sees the same list when the query is repeated.

    >>> stable_seed("red shoes", "user 7", 0)
    18263438989110866650
    >>> stable_seed("red shoes", "user 7", 0) == stable_seed("red shoes", "user 8", 0)
    False
    """
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), default=str)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def interleave(
    rankings: Sequence[Sequence[Any]],
    n: int = 10,
    *,
    method: str = "team_draft",
    seed: int = 0,
) -> Interleaved:
    """Interleave ranked lists into one list of at most n items.

    ``team_draft``
        In each round the rankers pick in random order, each its best item that is not yet shown
        (Radlinski et al. 2008; multileaving: Schuth et al. 2014). A click credits the ranker that
        picked the item. A round in which a ranker might have nothing left to pick credits no
        ranker, so lists of different lengths stay unbiased.
    ``balanced``
        Two rankers take turns by rank; the one to start is drawn once (Joachims 2003). Clicks are
        counted within the ranks that both lists had reached at the lowest click. Known to be biased
        for some pairs of lists (Radlinski et al. 2008): prefer the other methods.
    ``probabilistic``
        Each position draws a ranker, then an item with probability proportional to 1 / rank ** 3
        (Hofmann et al. 2011). A click is shared among the rankers by the probability that each
        of them contributed the item. Any item may appear anywhere, so the list can be poor.
    ``optimized``
        Draws from all lists that the rankers could produce by taking turns, with probabilities
        that make random clicks credit all rankers equally and maximize sensitivity (Radlinski
        and Craswell 2013; Schuth et al. 2014). A click credits each ranker with 1 / rank; where no
        probabilities are fair, the mean credit of each position is equalized.

    All but ``balanced`` support more than two rankers (multileaving).

    Parameters
    ----------
    rankings : list of lists of ids, best first
    n : length of the list to show
    method : str
    seed : the same seed and lists give the same result; see :func:`stable_seed`

    Examples
    --------
    >>> shown = interleave([["a", "b", "c"], ["b", "d", "a"]], n=4, seed=0)
    >>> shown.items
    ('b', 'a', 'd', 'c')
    >>> shown.teams
    (1, 0, 1, 0)
    >>> credit(shown, clicks=["d"])
    (0.0, 1.0)
    """
    if method not in METHODS:
        raise ParameterError(
            f"method is {method!r}; choose one of {', '.join(METHODS)}.", parameter="method"
        )
    lists = _checked(rankings, n)
    return METHODS[method](lists, n, Random(seed))


def credit(shown: Interleaved, clicks: Iterable[Any]) -> tuple[float, ...]:
    """Credit the clicks of one session to the rankers; each item counts once.

    >>> shown = interleave([["a", "b"], ["b", "a"]], n=2, method="balanced", seed=1)
    >>> credit(shown, clicks=["b"])
    (0.0, 1.0)
    """
    clicked = set(clicks)
    if unknown := clicked - set(shown.items):
        raise DataError(f"click on {next(iter(unknown))!r}, which the list does not show.")
    positions = [position for position, item in enumerate(shown.items) if item in clicked]
    if shown.method == "balanced":
        return _balanced_credit([shown.ranks[position] for position in positions])
    rows = [shown.credits[position] for position in positions]
    return tuple(sum(row[ranker] for row in rows) for ranker in range(shown.n_rankers))


def _checked(rankings: Sequence[Sequence[Any]], n: int) -> list[list[Any]]:
    lists = [list(ranking) for ranking in rankings]
    if len(lists) < 2:
        raise ParameterError(f"rankings has {len(lists)} list; give two or more to compare.")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ParameterError(f"n is {n!r}; it must be a whole number >= 1.", parameter="n")
    for number, ranking in enumerate(lists):
        if len(set(ranking)) < len(ranking):
            twice = next(item for item in ranking if ranking.count(item) > 1)
            raise DataError(f"ranking {number} lists {twice!r} twice. Remove duplicates.")
    return lists


def _team_draft(lists: list[list[Any]], n: int, random: Random) -> Interleaved:
    m, n = len(lists), min(n, len(set().union(*lists)))
    left = [list(ranking) for ranking in lists]
    shown: list[Any] = []
    teams: list[int] = []
    while len(shown) < n:
        fair = _all_can_pick(left, n - len(shown))
        for ranker in sorted(range(m), key=lambda _: random.random()):
            if left[ranker] and len(shown) < n:
                item = left[ranker][0]
                shown.append(item)
                teams.append(ranker if fair else NOBODY)
                left = [[other for other in rest if other != item] for rest in left]
    rows = tuple(tuple(float(team == ranker) for ranker in range(m)) for team in teams)
    return Interleaved("team_draft", tuple(shown), m, rows)


def _all_can_pick(left: list[list[Any]], n_open: int) -> bool:
    """Whether each ranker has an item to pick in this round, in whatever order they pick."""
    sets = [set(rest) for rest in left]
    for ranker, own in enumerate(sets):
        rivals = sum(not own.isdisjoint(other) for k, other in enumerate(sets) if k != ranker)
        if len(own) <= min(rivals, n_open - 1):
            return False
    return True


def _balanced(lists: list[list[Any]], n: int, random: Random) -> Interleaved:
    if len(lists) != 2:
        raise ParameterError(
            f"balanced interleaving compares 2 rankers, found {len(lists)}; use team_draft, "
            "probabilistic or optimized for more."
        )
    first = int(random.random() < 0.5)
    turns = zip(_padded(lists[first], lists), _padded(lists[1 - first], lists), strict=True)
    order = [item for turn in turns for item in turn if item is not _END]
    items = tuple(dict.fromkeys(order))[:n]
    ranks = tuple(tuple(_rank(ranking, item) for ranking in lists) for item in items)
    return Interleaved("balanced", items, 2, ranks=ranks)


_END = object()


def _padded(ranking: list[Any], lists: list[list[Any]]) -> list[Any]:
    return ranking + [_END] * (max(map(len, lists)) - len(ranking))


def _rank(ranking: list[Any], item: object) -> int:
    return ranking.index(item) + 1 if item in ranking else 0


def _balanced_credit(ranks: list[tuple[int, ...]]) -> tuple[float, ...]:
    """Clicks of each ranker within the ranks reached at the lowest click."""
    if not ranks:
        return (0.0, 0.0)
    reached = min(rank for rank in ranks[-1] if rank)
    a, b = (sum(0 < row[ranker] <= reached for row in ranks) for ranker in (0, 1))
    return float(a), float(b)


def _probabilistic(
    lists: list[list[Any]], n: int, random: Random, decay: float = 3.0
) -> Interleaved:
    m = len(lists)
    left = [{item: rank**-decay for rank, item in enumerate(r, start=1)} for r in lists]
    shown: list[Any] = []
    rows: list[tuple[float, ...]] = []
    while any(left) and len(shown) < n:
        able = [rest for rest in left if rest]
        source = able[int(random.random() * len(able))]
        item = _drawn(source, random.random() * sum(source.values()))
        chances = [rest.get(item, 0.0) / sum(rest.values()) if rest else 0.0 for rest in left]
        fair = len(able) == m  # else the ranker that ran out would be at a disadvantage
        rows.append(tuple(p / sum(chances) if fair else 1.0 / m for p in chances))
        shown.append(item)
        for rest in left:
            rest.pop(item, None)
    return Interleaved("probabilistic", tuple(shown), m, tuple(rows))


def _drawn(weights: dict[Any, float], point: float) -> Any:
    cumulative = zip(weights, accumulate(weights.values()), strict=True)
    return next((item for item, total in cumulative if point < total), next(reversed(weights)))


def _optimized(lists: list[list[Any]], n: int, random: Random) -> Interleaved:
    """A list drawn with probabilities from a linear program (Radlinski and Craswell 2013)."""
    items = list(dict.fromkeys(item for ranking in lists for item in ranking))
    number = {item: k for k, item in enumerate(items)}
    coded = tuple(tuple(number[item] for item in ranking) for ranking in lists)
    candidates, cumulative, credits = _program(coded, n)
    drawn = min(int(np.searchsorted(cumulative, random.random(), "right")), len(candidates) - 1)
    rows = tuple(tuple(row) for row in credits[:, drawn].T.tolist())
    shown = tuple(items[k] for k in candidates[drawn])
    return Interleaved("optimized", shown, len(lists), rows)


@lru_cache(maxsize=4096)
def _program(
    lists: tuple[tuple[int, ...], ...], n: int
) -> tuple[list[tuple[int, ...]], FloatArray, FloatArray]:
    """Possible lists, their cumulative probabilities, and (ranker, list, position) credits.

    Where no probabilities are fair (lists of different length, some sets of three), the mean credit
    of each position is equalized, so a random click still credits all rankers equally. Cached: the
    result depends on the lists only, and popular queries repeat theirs.
    """
    candidates = _possible(lists, n)
    n_items = len(set().union(*lists))
    gain = np.array([[1.0 / (len(r) + 1)] * n_items for r in lists])
    for ranker, ranking in enumerate(lists):
        gain[ranker, list(ranking)] = 1.0 / np.arange(1, len(ranking) + 1)
    credit = gain[:, np.array(candidates)]  # (ranker, candidate, position)
    chances = _probabilities(credit) if len(candidates) > 1 else np.ones(1)
    expected = np.einsum("c,rcp->rp", chances, credit)
    fair = credit + (expected.mean(axis=0) - expected)[:, None, :]
    return candidates, np.cumsum(chances), fair


def _possible(lists: tuple[tuple[int, ...], ...], n: int) -> list[tuple[int, ...]]:
    """All lists in which each position holds some ranker's best item not yet shown.

    When there are too many, ``_MAX_LISTS`` of them, drawn by a generator of fixed seed.
    """
    n = min(n, len(set().union(*lists)))
    prefixes: list[tuple[int, ...]] = [()]
    for _ in range(n):
        prefixes = list(
            dict.fromkeys((*prefix, item) for prefix in prefixes for item in _next(prefix, lists))
        )
        if len(prefixes) > _MAX_LISTS:
            order = Random(len(prefixes)).sample(range(len(prefixes)), _MAX_LISTS)
            prefixes = [prefixes[k] for k in sorted(order)]
    return prefixes


def _next(prefix: tuple[int, ...], lists: tuple[tuple[int, ...], ...]) -> list[int]:
    best = (next((item for item in ranking if item not in prefix), None) for ranking in lists)
    return list(dict.fromkeys(item for item in best if item is not None))


def _probabilities(credit: FloatArray) -> FloatArray:
    """Probabilities that make random clicks fair, then favor the lists that compare best.

    Fair: a user who clicks at random in the first k positions credits all rankers equally, for
    every k. What cannot be made equal is made as small as possible. Among fair solutions, the one
    with the least variance of the rankers' credit under clicks of chance 1 / position.
    """
    from scipy.optimize import linprog

    _, n_lists, n_positions = credit.shape
    totals = credit.cumsum(axis=2)
    bias = (totals[1:] - totals[:1]).transpose(0, 2, 1).reshape(-1, n_lists)
    n_rows = len(bias)
    expected = credit @ (1.0 / np.arange(1, n_positions + 1))
    cost = np.concatenate([expected.var(axis=0), np.full(2 * n_rows, 1e3)])
    equations = np.hstack([bias, np.eye(n_rows), -np.eye(n_rows)])
    one = np.concatenate([np.ones(n_lists), np.zeros(2 * n_rows)])
    solution = linprog(cost, A_eq=np.vstack([equations, one]), b_eq=np.append(np.zeros(n_rows), 1))
    chances = np.clip(solution.x[:n_lists], 0.0, None)
    return np.asarray(chances / chances.sum())


METHODS: dict[str, Callable[[list[list[Any]], int, Random], Interleaved]] = {
    "team_draft": _team_draft,
    "balanced": _balanced,
    "probabilistic": _probabilistic,
    "optimized": _optimized,
}
