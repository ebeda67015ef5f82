"""Reports on top-n lists: measures by user, segments, and paired comparisons of two reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import BoolArray, FloatArray, IntArray
from rankwright.data.behavior.interactions import Interactions
from rankwright.data.display import html_table
from rankwright.exceptions import DataError
from rankwright.recommend.lists import frame_of, pair_cosines

N_RESAMPLES = 1000
HEAD = 0.5  # the share of all training events that the head of the catalog has


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over users with its 95 % bootstrap interval, and the value of random order."""

    value: float
    low: float
    high: float
    random: float | None = None


@dataclass(frozen=True)
class TopNReport:
    """Measures of lists over the whole catalog; prints as a table.

    Attributes
    ----------
    n : length of the lists
    n_users : evaluated users: those who took a new item in the test part
    measures : name -> MeanEstimate
    parts : the same of segments, with the number of users: "warm users" and "cold users" (no
        training events), "light users" and "heavy users" (warm ones with at most, or more than,
        the median number of items), "warm items" and "cold items", "head items" (the most taken
        ones that have half of the training events) and "tail items" (the other warm ones). Of a
        segment of items, only such items count as relevant.
    per_user : name -> (n_users,) values
    users : (n_users,) ids, in the order of ``per_user``
    left_out : reason -> number of users with events who are not evaluated
    notes : what else was counted in a way that the reader should know
    """

    n: int
    n_users: int
    measures: dict[str, MeanEstimate]
    parts: dict[str, tuple[int, dict[str, MeanEstimate]]]
    per_user: dict[str, FloatArray]
    users: NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))
    left_out: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        return self.measures[name].value

    def _rows(self) -> Iterator[tuple[str, int, str, MeanEstimate]]:
        for name, estimate in self.measures.items():
            yield "all users", self.n_users, name, estimate
        for part, (n_users, measures) in self.parts.items():
            for name, estimate in measures.items():
                yield part, n_users, name, estimate

    def to_frame(self, backend: str = "pandas") -> Any:
        """One row for each segment and measure: part, users, measure, value, low, high, random."""
        rows = [
            (part, n_users, name, e.value, e.low, e.high, np.nan if e.random is None else e.random)
            for part, n_users, name, e in self._rows()
        ]
        names = ("part", "users", "measure", "value", "low", "high", "random")
        return frame_of(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), backend)

    def __str__(self) -> str:
        head = f"{self.n_users:,} users, each list from the whole catalog"
        lines = [f"{head:<46}{'value':>9}{'95 % interval':>20}{'random':>9}"]
        lines += [_line(name, estimate) for name, estimate in self.measures.items()]
        for part, (n_users, measures) in self.parts.items():
            lines.append(f"{part} ({n_users:,} users)")
            lines += [_line("  " + name, estimate) for name, estimate in measures.items()]
        if self.left_out:
            reasons = "; ".join(f"{count:,} {why}" for why, count in self.left_out.items())
            lines.append(f"left out: {sum(self.left_out.values()):,} users ({reasons})")
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        rows = [(part, n, name, e.value, e.low, e.high) for part, n, name, e in self._rows()]
        return html_table(("part", "users", "measure", "value", "low", "high"), rows)


def _line(name: str, estimate: MeanEstimate) -> str:
    interval = "" if np.isnan(estimate.low) else f"{estimate.low:.4f} .. {estimate.high:.4f}"
    chance = "" if estimate.random is None else f"{estimate.random:.4f}"
    return f"{name:<46}{estimate.value:>9.4f}{interval:>20}{chance:>9}"


@dataclass(frozen=True)
class ReportComparison:
    """Differences of two reports over the users that both evaluated; prints as a table.

    Attributes
    ----------
    n_users : users in both reports
    differences : name -> MeanEstimate of the second report's mean less the first's, paired by user
    n_left_out : users of only one of the reports
    """

    n_users: int
    differences: dict[str, MeanEstimate]
    n_left_out: int = 0

    def __getitem__(self, name: str) -> float:
        return self.differences[name].value

    def __str__(self) -> str:
        head = f"second less first, {self.n_users:,} users in both"
        lines = [f"{head:<46}{'value':>9}{'95 % interval':>22}"]
        for name, e in self.differences.items():
            verdict = "" if e.low <= 0 <= e.high else "  better" if e.low > 0 else "  worse"
            if name.startswith(("Novelty", "Diversity", "PopularityBias")):
                verdict = ""  # more is not better
            interval = f"{e.low:+.4f} .. {e.high:+.4f}"
            lines.append(f"{name:<46}{e.value:>+9.4f}{interval:>22}{verdict}")
        if self.n_left_out:
            lines.append(f"left out: {self.n_left_out:,} users that only one report has")
        return "\n".join(lines)


def compare_reports(
    first: TopNReport, second: TopNReport, *, random_state: int = 0
) -> ReportComparison:
    """The differences of two reports, paired by user, with 95 % bootstrap intervals."""
    if first.n != second.n:
        raise DataError(
            f"compare: the reports are of lists of {first.n} and of {second.n} items. Evaluate "
            "both with the same n."
        )
    place = {user: row for row, user in enumerate(second.users.tolist())}
    pairs = [(a, place[u]) for a, u in enumerate(first.users.tolist()) if u in place]
    if not pairs:
        raise DataError("compare: the reports have no user in common. Evaluate the same split.")
    a, b = np.array(pairs).T
    common = [name for name in first.per_user if name in second.per_user]
    values = {name: second.per_user[name][b] - first.per_user[name][a] for name in common}
    differences = estimates(values, first.n, np.random.default_rng(random_state))
    n_left_out = len(first.users) + len(second.users) - 2 * len(pairs)
    return ReportComparison(len(pairs), differences, n_left_out)


def report_of(
    lists: NDArray[np.int64],
    users: IntArray,
    train: Interactions,
    relevant: tuple[IntArray, IntArray],
    *,
    random_state: int = 0,
    left_out: dict[str, int] | None = None,
    notes: tuple[str, ...] = (),
) -> TopNReport:
    """The report on lists (numbers of items, best first, -1 for none) of some users (numbers)."""
    n, rng = lists.shape[1], np.random.default_rng(random_state)
    hits, n_relevant = _hits(lists, users, relevant)
    pairs = np.unique(train.user * np.int64(train.n_items) + train.item)
    n_items = max(train.n_items, int(lists.max(initial=0)) + 1)
    counts = np.bincount(pairs % train.n_items, minlength=n_items)
    taken = np.bincount(pairs // train.n_items, minlength=train.n_users)
    n_taken = taken[users]
    relevance = _relevance(hits, n_relevant)
    measures = estimates(relevance, n, rng)
    for name, value in _chance(n_relevant, train.n_items - n_taken, n).items():
        measures[f"{name}@{n}"] = replace(measures[f"{name}@{n}"], random=value)
    beyond = _beyond_relevance(lists, users, relevant, train, counts, int((taken > 0).sum()))
    measures |= estimates(beyond, n, rng)
    coverage = len(np.unique(lists[lists >= 0])) / max(int((counts > 0).sum()), 1)
    measures[f"ItemCoverage@{n}"] = MeanEstimate(coverage, np.nan, np.nan)
    parts = {}
    for name, rows in _user_segments(n_taken).items():
        if rows.any() and not rows.all():
            values = {key: column[rows] for key, column in relevance.items()}
            parts[name] = int(rows.sum()), estimates(values, n, rng)
    for name, of_items in _item_segments(counts).items():
        kept = of_items[relevant[1]]
        if kept.any() and not kept.all():
            part = relevant[0][kept], relevant[1][kept]
            rows = np.isin(users, part[0])
            values = _relevance(*_hits(lists[rows], users[rows], part))
            parts[name] = int(rows.sum()), estimates(values, n, rng)
    return TopNReport(
        n, len(users), measures, parts, relevance | beyond, train.users[users], left_out or {},
        notes,
    )  # fmt: skip


def _user_segments(n_taken: IntArray) -> dict[str, BoolArray]:
    warm = n_taken > 0
    middle = np.median(n_taken[warm]) if warm.any() else 0.0
    return {
        "warm users": warm,
        "cold users": ~warm,
        "light users": warm & (n_taken <= middle),
        "heavy users": n_taken > middle,
    }


def _item_segments(counts: IntArray) -> dict[str, BoolArray]:
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    head = np.zeros(len(counts), bool)
    head[order] = before < HEAD * counts.sum()
    warm = counts > 0
    return {
        "warm items": warm,
        "cold items": ~warm,
        "head items": head,
        "tail items": warm & ~head,
    }


def _hits(
    lists: IntArray, users: IntArray, relevant: tuple[IntArray, IntArray]
) -> tuple[NDArray[np.bool_], IntArray]:
    """Which places of the lists hold a relevant item, and how many there are for each user."""
    width = np.int64(max(int(lists.max(initial=0)), int(relevant[1].max(initial=0))) + 2)
    keys = relevant[0] * width + relevant[1]
    hits = np.isin(users[:, None] * width + lists, keys) & (lists >= 0)
    n_relevant = np.bincount(relevant[0], minlength=int(users.max(initial=0)) + 1)[users]
    return hits, n_relevant


def _relevance(hits: BoolArray, n_relevant: IntArray) -> dict[str, FloatArray]:
    n = hits.shape[1]
    discount = 1.0 / np.log2(np.arange(2, n + 2))
    ideal = np.cumsum(discount)[np.minimum(n_relevant, n) - 1]
    first = np.where(hits.any(axis=1), hits.argmax(axis=1), n)
    return {
        "HitRate": hits.any(axis=1).astype(np.float64),
        "Recall": hits.sum(axis=1) / n_relevant,
        "NDCG": hits @ discount / ideal,
        "MRR": np.where(first < n, 1.0 / (first + 1.0), 0.0),
    }


def _chance(n_relevant: IntArray, n_candidates: IntArray, n: int) -> dict[str, float]:
    """Expected measures of a random order of the items that a user has not taken."""
    candidates = np.maximum(n_candidates, n_relevant)
    length = np.minimum(n, candidates)
    discount = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, n + 2)))])
    ideal = discount[np.minimum(n_relevant, n)]
    share = n_relevant / candidates
    # The chance that no relevant item is among the first k of a random order.
    rank = np.arange(n)[None, :]
    left = np.maximum(candidates[:, None] - n_relevant[:, None] - rank, 0.0)
    none = np.cumprod(left / np.maximum(candidates[:, None] - rank, 1.0), axis=1)
    first = np.diff(none, axis=1, prepend=1.0)
    return {
        "HitRate": float((1.0 - none[:, -1]).mean()),
        "MRR": float((-first / (rank + 1)).sum(axis=1).mean()),
        "Recall": float((length / candidates).mean()),
        "NDCG": float((share * discount[length] / ideal).mean()),
    }


def _beyond_relevance(
    lists: IntArray,
    users: IntArray,
    relevant: tuple[IntArray, IntArray],
    train: Interactions,
    counts: IntArray,
    n_train_users: int,
) -> dict[str, FloatArray]:
    """Novelty, diversity and popularity bias of each list."""
    shown = lists >= 0
    n_shown = np.maximum(shown.sum(axis=1), 1)
    taken_by = np.maximum(counts, 1)[np.maximum(lists, 0)] * shown
    share = np.where(shown, taken_by / max(n_train_users, 1), 1.0)
    mean_shown = taken_by.sum(axis=1) / n_shown
    n_users = int(users.max(initial=0)) + 1
    total = np.bincount(relevant[0], counts[relevant[1]], n_users)[users]
    size = np.bincount(relevant[0], minlength=n_users)[users]
    return {
        "Novelty": -np.log2(share).sum(axis=1) / n_shown,
        "Diversity": _diversity(lists, train, len(counts)),
        "PopularityBias": mean_shown / np.maximum(total / size, 1.0),
    }


def _diversity(lists: IntArray, train: Interactions, n_items: int) -> FloatArray:
    """1 - the mean cosine (of their users) of two items of a list."""
    total = np.zeros(len(lists))
    n_pairs = np.zeros(len(lists))
    left, right = np.triu_indices(lists.shape[1], 1)
    row, at = np.nonzero((lists[:, left] >= 0) & (lists[:, right] >= 0))
    first, second = lists[row, left[at]], lists[row, right[at]]
    keys = np.minimum(first, second) * np.int64(n_items) + np.maximum(first, second)
    distinct, index = np.unique(keys, return_inverse=True)
    cosine = pair_cosines(train, distinct // n_items, distinct % n_items, n_items)
    np.add.at(total, row, cosine[index.reshape(-1)])
    np.add.at(n_pairs, row, 1.0)
    return np.asarray(1.0 - total / np.maximum(n_pairs, 1.0))


def estimates(
    values: dict[str, FloatArray], n: int, rng: np.random.Generator
) -> dict[str, MeanEstimate]:
    size = len(next(iter(values.values())))
    columns = np.stack(list(values.values()), axis=1)
    means = [  # in parts: there may be many users
        rng.multinomial(size, np.full(size, 1.0 / size), 50) @ columns / size
        for _ in range(N_RESAMPLES // 50)
    ]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975], axis=0)
    return {
        f"{name}@{n}": MeanEstimate(float(column.mean()), float(low[at]), float(high[at]))
        for at, (name, column) in enumerate(values.items())
    }
