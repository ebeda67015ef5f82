"""Estimates of another ranker's clicks, from an impression log."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.vocabulary import check_probabilities
from rankwright.exceptions import (
    DataError,
    DegenerateDataWarning,
    Message,
    ParameterError,
    Setting,
)
from rankwright.feedback.clicks.propensity import estimate_propensities
from rankwright.online_eval.counterfactual import Estimate, normalized_terms

MEASURES = ("CTR", "DCG")
_MOST_SLOTS = 600  # items times positions of a query, for the pseudo-inverse


def estimate_from_log(
    log: ImpressionLog,
    scores: ArrayLike,
    *,
    method: str = "pbm",
    measure: str = "CTR",
    propensity: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    alpha: float = 0.05,
) -> Estimate:
    """Estimate the clicks of a ranker that orders the items of each session by the given scores.

    ``"pbm"``
        Each click is weighted by the examination probability of its new position divided by that of
        the old one (position-based model). It needs propensities, but no randomness in the log.
    ``"doubly_robust"``
        The same, around a relevance estimated on the other half of the sessions: less variance.
    ``"item_position"``
        A click counts if the ranker would show the item at the same position, divided by how often
        it was there (Li et al. 2018). It needs randomized lists, but no user model.
    ``"ips"``, ``"snips"``
        Sessions whose whole list equals the ranker's, weighted by how rare it was in the log. They
        make no assumptions, but need many lists.
    ``"pseudo_inverse"``
        For randomized lists whose expected clicks are a sum over items and positions (slate
        estimator, Swaminathan et al. 2017).

    The frequencies of lists, and of items at positions, are counted in the log. A warning is
    emitted if the log lacks what the ranker would show.

    Parameters
    ----------
    log : ImpressionLog
    scores : (n_rows,) the ranker's score of each row of the log; higher is shown first
    measure : "CTR", clicks per session, or "DCG", relevance discounted by log2(1 + position)
    propensity, offset : as in ``click_relevance``; without them, ``"pbm"``, ``"doubly_robust"``
        and DCG estimate propensities from the log (``estimate_propensities``). Intervals treat them
        as exact.
    alpha : 1 - the level of the interval

    Examples
    --------
    >>> from rankwright.data import ClickSimulator, Items, make_queries
    >>> sample = make_queries(30, docs_per_query=5, random_state=0)
    >>> items = Items(sample.X, sample.y, sample.qid)
    >>> users = ClickSimulator(items, examination=[1.0, 0.6, 0.4, 0.3, 0.2])
    >>> log = users.sessions(items.X[:, 0], 20_000)
    >>> estimate = estimate_from_log(log, items.y[log.item], propensity=users.examination)
    >>> low, high = estimate.interval
    >>> low < users.expected_clicks(items.y) < high
    True
    """
    estimated = _values(_Reranked.of(log, scores, measure, propensity, offset), method)
    return Estimate.of_mean(estimated.values, method, estimated.weights, alpha)


@dataclass(frozen=True)
class LogComparison:
    """Estimates of several rankers, and their paired differences from the first.

    Attributes
    ----------
    estimates : {name: Estimate}
    differences : {name: Estimate} of the others minus the first
    measure, logged : str, and the mean of the lists that were shown
    """

    estimates: dict[str, Estimate]
    differences: dict[str, Estimate]
    measure: str
    logged: Estimate

    def better(self) -> str | None:
        """Return the best ranker whose interval is above 0, or None."""
        sure = {n: d.value for n, d in self.differences.items() if d.interval[0] > 0}
        return max(sure, key=sure.__getitem__) if sure else None

    def to_dict(self) -> dict[str, Any]:
        """Convert to numbers and strings, for JSON."""
        return {
            "measure": self.measure,
            "logged": vars(self.logged),
            "estimates": {name: vars(e) for name, e in self.estimates.items()},
            "differences": {name: vars(e) for name, e in self.differences.items()},
        }

    def __str__(self) -> str:
        estimates = {"as shown": self.logged} | self.estimates
        width = max(map(len, estimates))
        rows = [f"{'':{width}}  {self.measure:>8}  interval"]
        for name, e in estimates.items():
            low, high = e.interval
            rows.append(f"{name:{width}}  {e.value:8.4f}  {low:.4f} to {high:.4f}")
        first = next(iter(self.estimates))
        for name, d in self.differences.items():
            low, high = d.interval
            rows.append(f"{name} - {first}: {d.value:+.4f}, {low:+.4f} to {high:+.4f}")
        return "\n".join(rows)


def compare_on_log(
    log: ImpressionLog, rankers: Mapping[str, ArrayLike], *, method: str = "pbm", **options: Any
) -> LogComparison:
    """Estimate several rankers on the same sessions, and their differences from the first.

    Parameters
    ----------
    log : ImpressionLog
    rankers : {name: (n_rows,) scores of the rows of the log}
    method, options : as in :func:`estimate_from_log`

    Examples
    --------
    >>> from rankwright.data import ClickSimulator, Items, make_queries
    >>> sample = make_queries(30, docs_per_query=5, random_state=0)
    >>> items = Items(sample.X, sample.y, sample.qid)
    >>> users = ClickSimulator(items, examination=[1.0, 0.6, 0.4, 0.3, 0.2])
    >>> log = users.sessions(items.X[:, 0], 20_000)
    >>> rankers = {"old": items.X[log.item, 0], "new": items.y[log.item]}
    >>> compare_on_log(log, rankers, propensity=users.examination).better()
    'new'
    """
    if not rankers:
        raise ParameterError("rankers is empty: give {name: scores}.")
    measure, alpha = options.get("measure", "CTR"), options.pop("alpha", 0.05)
    modeled = method in ("pbm", "doubly_robust") or measure == "DCG"
    if modeled and options.get("propensity") is None:
        options["propensity"] = estimate_propensities(log)
    given = measure, options.get("propensity"), options.get("offset")
    terms = {name: _values(_Reranked.of(log, s, *given), method) for name, s in rankers.items()}
    estimates = {
        name: Estimate.of_mean(v.values, method, v.weights, alpha) for name, v in terms.items()
    }
    first, ones = next(iter(terms)), np.ones(log.n_sessions)
    differences = {
        name: Estimate.of_mean(v.values - terms[first].values, method, ones, alpha)
        for name, v in terms.items()
        if name != first
    }
    shown = _Reranked.of(log, -log.position.astype(np.float64), *given)
    logged = Estimate.of_mean(shown.sums(shown.rewards()), "as shown", ones, alpha)
    return LogComparison(estimates, differences, measure, logged)


@dataclass(frozen=True, eq=False)
class _Reranked:
    """A log, the positions that a ranker gives its rows, and what a position is worth."""

    log: ImpressionLog
    position: IntArray  # (n_rows,) new positions
    propensity: FloatArray | None  # (n_positions,) None: estimated when a method needs it
    offset: FloatArray
    measure: str

    @classmethod
    def of(
        cls,
        log: ImpressionLog,
        scores: ArrayLike,
        measure: str,
        propensity: ArrayLike | None,
        offset: ArrayLike | None,
    ) -> _Reranked:
        if measure not in MEASURES:
            raise ParameterError(
                f"measure is {measure!r}; use one of {', '.join(MEASURES)}.", parameter="measure"
            )
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != (len(log),) or np.isnan(values).any():
            raise DataError(
                f"scores has shape {values.shape}: give one number for each of {len(log)} rows."
            )
        n = log.n_positions
        slope = None if propensity is None else _per_position(propensity, n, "propensity")
        base = np.zeros(n) if offset is None else _per_position(offset, n, "offset")
        return cls(log, new_positions(log, values), slope, base, measure)

    @cached_property
    def slope(self) -> FloatArray:
        """(n_positions,) propensities, as given or estimated."""
        return estimate_propensities(self.log) if self.propensity is None else self.propensity

    def worth(self, position: IntArray) -> tuple[FloatArray, FloatArray]:
        """Slope and offset of the measure at a position, as a function of relevance."""
        if self.measure == "DCG":
            return 1.0 / np.log2(position + 1.0), np.zeros(len(position))
        return self.slope[position - 1], self.offset[position - 1]

    def rewards(self) -> FloatArray:
        """What each row earned where it was shown: its click, or its discounted relevance."""
        clicked = self.log.clicked.astype(np.float64)
        if self.measure == "CTR":
            return clicked
        old = self.log.position - 1
        return np.asarray((clicked - self.offset[old]) / self.slope[old] / np.log2(old + 2.0))

    def sums(self, rows: FloatArray) -> FloatArray:
        """Sums over the rows of each session."""
        return np.bincount(self.log.session, rows, self.log.n_sessions).astype(np.float64)


def _per_position(values: ArrayLike, n: int, name: str) -> FloatArray:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or len(column) < n:
        raise DataError(
            f"{name} has shape {column.shape}: give a probability for each of {n} positions."
        )
    check_probabilities(column, name, zero=name != "propensity")
    return column


def new_positions(log: ImpressionLog, scores: FloatArray) -> IntArray:
    """The position of each row when the items of a session are ordered by their scores.

    The positions of a session stay the same set; equal scores keep the order shown.
    """
    order = np.lexsort((np.arange(len(log)), -scores, log.session))
    position = np.empty(len(log), dtype=np.int64)
    position[order] = log.position
    return position


class _Values(NamedTuple):
    """One value per session, whose mean is the estimate, and the weights behind them."""

    values: FloatArray
    weights: FloatArray


def _values(lists: _Reranked, method: str) -> _Values:
    if method not in METHODS:
        raise ParameterError(
            f"method is {method!r}; use one of {', '.join(METHODS)}.", parameter="method"
        )
    return METHODS[method](lists)


def _pbm(lists: _Reranked) -> _Values:
    old = lists.log.position - 1
    relevance = (lists.log.clicked - lists.offset[old]) / lists.slope[old]
    slope, offset = lists.worth(lists.position)
    weights = (slope / lists.slope[old])[lists.log.clicked]
    return _Values(lists.sums(slope * relevance + offset), weights)


def _doubly_robust(lists: _Reranked) -> _Values:
    """The mean of a model of relevance, corrected by the clicks it did not expect.

    A click is divided by the mean propensity of all positions at which the item was shown
    (Oosterhuis 2023), not by that of its own position.
    """
    log, chance = lists.log, lists.slope[lists.log.position - 1]
    document, first = log.documents
    mean = np.bincount(document, chance, len(first)) / np.bincount(document)
    earned = log.clicked - lists.offset[log.position - 1]
    half = (np.random.default_rng(0).permutation(log.n_sessions) % 2)[log.session]
    model = np.zeros(len(log))
    for part in (0, 1):  # the model that a session is corrected by comes from the other half
        other = half != part
        looks = np.bincount(document[other], chance[other], len(first))
        clicks = np.bincount(document[other], earned[other], len(first))
        rate = clicks.sum() / max(looks.sum(), 1e-9)
        model[~other] = np.clip((clicks + rate) / (looks + 1.0), 0.0, 1.0)[document[~other]]
    slope, offset = lists.worth(lists.position)
    correction = (earned - chance * model) / mean[document]
    weights = (slope / mean[document])[log.clicked]
    return _Values(lists.sums(slope * (model + correction) + offset), weights)


def _item_position(lists: _Reranked) -> _Values:
    log, n = lists.log, lists.log.n_positions + 1
    document, first = log.documents
    key = document * n + log.position
    shown = np.bincount(key, minlength=len(first) * n)
    never = float(np.mean(shown[document * n + lists.position] == 0))
    _warn_of_support(never, "items at the positions", "item_position")
    weight = np.bincount(document)[document] / shown[key] * (lists.position == log.position)
    return _Values(lists.sums(_centered(lists.rewards(), weight, document)), weight)


def _centered(reward: FloatArray, weight: FloatArray, group: IntArray) -> FloatArray:
    """Terms with the mean of weight * reward, and the spread that counted weights leave.

    Probabilities counted in the log make the weights of a group average 1 exactly, so the mean
    reward of the group does not add to the variance: mean + weight * (reward - mean).
    """
    size = np.bincount(group)
    mean = (np.bincount(group, weight * reward) / np.maximum(size, 1))[group]
    used = np.bincount(group, weight > 0)[group]
    exact = np.sqrt(used / np.maximum(used - 1.0, 1.0))  # residuals of few rewards are too small
    return np.where(used > 0, mean + exact * weight * (reward - mean), 0.0)


def _list_keys(log: ImpressionLog, position: IntArray) -> Any:
    """A number for each session's list: equal lists of a query have equal numbers."""
    with np.errstate(over="ignore"):
        key = (log.item.astype(np.uint64) << np.uint64(20)) + position.astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            key = (key ^ (key >> np.uint64(shift))) * np.uint64(factor)  # splitmix64
        total = np.zeros(log.n_sessions, dtype=np.uint64)
        np.add.at(total, log.session, key ^ (key >> np.uint64(31)))
        return total + log.query[log.starts[:-1]].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _list_weights(lists: _Reranked, method: str) -> FloatArray:
    """One over the share of the query's sessions with this list, where it is the ranker's."""
    log = lists.log
    query = log.query[log.starts[:-1]]
    old, new = _list_keys(log, log.position), _list_keys(log, lists.position)
    _, number, count = np.unique(old, return_inverse=True, return_counts=True)
    sessions = np.bincount(query, minlength=len(log.queries))
    _warn_of_support(float(np.mean(~np.isin(new, old))), "lists", method)
    return np.where(old == new, sessions[query] / count[number], 0.0)


def _ips(lists: _Reranked) -> _Values:
    weight, log = _list_weights(lists, "ips"), lists.log
    rewards = lists.sums(lists.rewards())
    return _Values(_centered(rewards, weight, log.query[log.starts[:-1]]), weight)


def _snips(lists: _Reranked) -> _Values:
    """Values whose mean is the weighted mean, and whose spread is that of the delta method."""
    weight = _list_weights(lists, "snips")
    return _Values(normalized_terms(lists.sums(lists.rewards()), weight, "snips"), weight)


def _pseudo_inverse(lists: _Reranked) -> _Values:
    log = lists.log
    rewards, values = lists.sums(lists.rewards()), np.zeros(log.n_sessions)
    query = log.query[log.starts[:-1]]
    order = np.argsort(query, kind="stable")
    missing = 0
    for sessions in np.split(order, np.flatnonzero(np.diff(query[order])) + 1):
        rows = np.concatenate([np.arange(log.starts[s], log.starts[s + 1]) for s in sessions])
        number = np.repeat(np.arange(len(sessions)), np.diff(log.starts)[sessions])
        old, new = _slots(log, lists.position, rows, number, len(sessions))
        mean = old.T @ old / len(sessions)
        inverse = np.linalg.pinv(mean, rcond=1e-8, hermitian=True)
        # The effect of each slot, by least squares.
        effect = inverse @ (old.T @ rewards[sessions]) / len(sessions)
        weight = np.einsum("ij,jk,ik->i", new, inverse, old)
        values[sessions] = new @ effect + weight * (rewards[sessions] - old @ effect)
        lost = np.abs(new @ inverse @ mean - new).max(axis=1) > 1e-6
        missing += int(lost.sum())
    _warn_of_support(missing / log.n_sessions, "lists", "pseudo_inverse")
    return _Values(values, np.abs(values[values != 0]))


def _slots(
    log: ImpressionLog, position: IntArray, rows: IntArray, number: IntArray, n_sessions: int
) -> tuple[FloatArray, FloatArray]:
    """(n_sessions, n_slots) which item is at which position, as shown and as the ranker would."""
    n = log.n_positions + 1
    keys = np.concatenate([log.item[rows] * n + p[rows] for p in (log.position, position)])
    distinct, slot = np.unique(keys, return_inverse=True)
    if len(distinct) > _MOST_SLOTS:
        raise DataError(
            f"query {log.queries[log.query[rows[0]]]} has {len(distinct)} pairs of item and "
            f"position, more than {_MOST_SLOTS}.",
            fix=Message("Use ", Setting("method", "item_position"), ' or "pbm".'),
        )
    old, new = np.zeros((2, n_sessions, len(distinct)))
    old[number, slot[: len(rows)]] = 1.0
    new[number, slot[len(rows) :]] = 1.0
    return old, new


def _warn_of_support(share: float, what: str, method: str) -> None:
    if share > 0.05:
        warnings.warn(
            Message(
                f"{method}: the log never showed {share:.0%} of the {what} that this ranker would "
                "show; they count as 0. Log with more exploration, or use ",
                Setting("method", "pbm"),
                ", which needs propensities instead.",
            ),
            DegenerateDataWarning,
            stacklevel=4,
        )


METHODS: dict[str, Callable[[_Reranked], _Values]] = {
    "pbm": _pbm,
    "doubly_robust": _doubly_robust,
    "item_position": _item_position,
    "ips": _ips,
    "snips": _snips,
    "pseudo_inverse": _pseudo_inverse,
}
