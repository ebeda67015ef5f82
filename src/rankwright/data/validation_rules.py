"""Rules that items, ratings, logs of impressions and files of preferences should keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray, IntArray
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.data.behavior.ratings import Ratings, first_twice
from rankwright.data.columns import NEARLY_ALL
from rankwright.data.io.logs.preferences import Preferences
from rankwright.data.items import Items
from rankwright.data.queries import Queries
from rankwright.exceptions import Message, Setting

Status = Literal["PASS", "WARN", "FAIL"]
Lines = IntArray | None  # the line of each row; None where a line holds several ratings

MANY_PAIRS = 20_000  # pairs of rows that are compared to find a leak
FEW_PAIRS, FEW_QUERIES = 100, 10  # with fewer, a feature may order them by chance
ALONE = 0.9  # the share of pairs in order from which one feature alone is too good to be true
RELATED = 0.6  # the share from which a column with a telling name says something about the grade
MANY_ROWS = 50  # with fewer, all values may differ by chance
LATE = re.compile(
    r"(?<![a-z])((click|order|purchase|conversion|booking|sale|return|refund)(s|ed)?|after|bought|"
    r"sold|revenue|dwell|added_to_cart)(?![a-z])"
)


class Fault(NamedTuple):
    """What a rule found; ``columns`` are those to leave out."""

    status: Status
    reason: str
    row: int | None
    fix: str
    columns: tuple[str, ...] = ()


Rule = tuple[str, str, Callable[[Any, Any], Fault | None]]  # name, what holds, check


@dataclass(frozen=True)
class Finding:
    """The result of one check; ``line`` is the row, from 1, for data in memory.

    ``columns`` are columns of the table that should be left out.
    """

    rule: str
    status: Status
    reason: str
    line: int | None = None
    fix: str = ""
    columns: tuple[str, ...] = ()


def apply_rules(rules: Sequence[Rule], data: Any, lines: Lines) -> Iterator[Finding]:
    for name, holds, check in rules:
        fault = check(data, lines)
        if fault is None:
            yield Finding(name, "PASS", holds)
        else:
            row = fault.row
            line = None if row is None or lines is None else int(lines[row])
            yield Finding(name, fault.status, fault.reason, line, fault.fix, fault.columns)


def _all_equal(values: FloatArray, groups: Queries) -> NDArray[np.bool_]:
    low, high = np.full(groups.n_queries, np.inf), np.full(groups.n_queries, -np.inf)
    np.minimum.at(low, groups.codes, values)
    np.maximum.at(high, groups.codes, values)
    return np.asarray(low == high)


def _first(groups: Queries, chosen: NDArray[np.bool_]) -> tuple[int, Any]:
    """The first row of the first chosen group, and the id of the group."""
    group = int(np.argmax(chosen))
    return int(np.argmax(groups.codes == group)), groups.ids[group]


def _check_grades(items: Items, lines: IntArray) -> Fault | None:
    if np.unique(items.y).size == 1:
        reason = f"every item has the grade {items.y[0]:g}: there is nothing to learn"
        return Fault("FAIL", reason, None, "check that this is the column of the grades")
    odd = (items.y < 0) | (items.y > 30) | (items.y != np.round(items.y))
    if not odd.any():
        return None
    row = int(np.argmax(odd))
    reason = f"grade {items.y[row]:g}: NDCG takes whole grades from 0 to 30 ({odd.sum():,})"
    return Fault("WARN", reason, row, "measure pairs (Disagreement), or map the grades")


def _check_queries(items: Items, lines: IntArray) -> Fault | None:
    if items.qid is None:
        fix = Message("write qid:<id> on each line, or name the column: ", Setting("qid", "NAME"))
        return Fault("WARN", "there are no query ids, so all items count as one query", None, fix)
    single = items.queries.sizes == 1
    if not single.any():
        return None
    row, query = _first(items.queries, single)
    reason = f"query {query} has a single item ({single.sum():,} of {len(single)} queries)"
    status: Status = "FAIL" if single.all() else "WARN"
    return Fault(status, reason, row, "remove such queries: they have no pairs to learn from")


def _check_one_grade(items: Items, lines: IntArray) -> Fault | None:
    equal = _all_equal(items.y, items.queries)
    flat = equal & (items.queries.sizes > 1)
    if not flat.any():
        return None
    row, query = _first(items.queries, flat)
    name = "" if items.qid is None else f"query {query}: "
    share = f"{flat.sum():,} of {len(flat)} queries"
    reason = f"{name}all items have the grade {items.y[row]:g} ({share})"
    status: Status = "FAIL" if equal.all() else "WARN"
    return Fault(status, reason, row, "judge more items of these queries, or remove them")


def _check_ids(items: Items, lines: IntArray) -> Fault | None:
    if items.docid is None:
        return None
    seen: dict[tuple[int, Any], int] = {}
    for row, key in enumerate(zip(items.queries.codes.tolist(), items.docid.tolist(), strict=True)):
        if key[1] is None:
            continue
        if key in seen:
            query = "" if items.qid is None else f" of query {items.qid[row]}"
            reason = f"item {key[1]}{query} is on line {lines[seen[key]]} already"
            return Fault("FAIL", reason, row, "keep one of the two lines")
        seen[key] = row
    return None


def _check_duplicates(items: Items, lines: IntArray) -> Fault | None:
    first: dict[bytes, int] = {}
    repeats = np.zeros(items.n_items, dtype=bool)
    for row, key in enumerate(_row_keys(items, with_query=True)):
        earlier = first.setdefault(key, row)
        if earlier == row:
            continue
        repeats[row] = True
        if items.y[earlier] != items.y[row]:
            reason = (
                f"the same features as line {lines[earlier]} in the same query, but grade "
                f"{items.y[row]:g} instead of {items.y[earlier]:g}"
            )
            return Fault("WARN", reason, row, "no ranker can distinguish them: judge them again")
    if not repeats.any():
        return None
    reason = f"a copy of an item: same query, features and grade ({repeats.sum():,})"
    return Fault("WARN", reason, int(np.argmax(repeats)), "remove copies, unless they are weights")


def _check_constant(items: Items, lines: IntArray) -> Fault | None:
    constant = [k for k in range(items.n_features) if _is_constant(_column(items, k))]
    if not constant:
        return None
    names = ", ".join(_name(items, k) for k in constant[:8]) + (" ..." if constant[8:] else "")
    status: Status = "FAIL" if len(constant) == items.n_features else "WARN"
    share = f"{len(constant)} of {items.n_features} features"
    reason = f"{share} have the same value in all items: {names}"
    return Fault(status, reason, None, "remove them; they have no information about the order")


def _check_leakage(items: Items, lines: IntArray) -> Fault | None:
    if np.unique(items.y).size < 2:
        return None
    for k in range(items.n_features):
        column = _column(items, k)
        if np.isnan(column).any() or _is_constant(column):
            continue
        with np.errstate(invalid="ignore"):
            correlation = np.corrcoef(column, items.y)[0, 1]
        if abs(correlation) > 1 - 1e-9:
            reason = f"{_name(items, k)} is the grade itself (correlation {correlation:+.3f})"
            fix = "remove it: it will not be known for new items"
            return Fault("FAIL", reason, None, fix, _columns(items, [k]))
    return None


def _check_alone(items: Items, lines: IntArray) -> Fault | None:
    """A feature that orders queries almost perfectly was probably made from the grade."""
    order = _shares_in_order(items)
    alone = [k for k, share in enumerate(order) if share >= ALONE]
    if not alone:
        return None
    names = ", ".join(f"{_name(items, k)} ({order[k]:.0%})" for k in alone[:8])
    reason = f"one feature alone puts almost all pairs of held-out queries in order: {names}"
    return Fault("WARN", reason, None, _leave_out(items, alone), _columns(items, alone))


def _check_late(items: Items, lines: IntArray) -> Fault | None:
    """A feature named after what people do with a result, and that goes with the grade."""
    if items.feature_names is None:
        return None
    named = [k for k, name in enumerate(items.feature_names) if LATE.search(name.lower())]
    if not named:
        return None
    order = _shares_in_order(items, named)
    late = [k for k in named if order[k] >= RELATED]
    if not late:
        return None
    names = ", ".join(f"{_name(items, k)} ({order[k]:.0%} of pairs)" for k in late[:8])
    reason = f"by their names, known only after the click, and they go with the grade: {names}"
    return Fault("WARN", reason, None, _leave_out(items, late), _columns(items, late))


def _check_unique(items: Items, lines: IntArray) -> Fault | None:
    """Whole numbers that are different in almost every row identify rows."""
    if items.n_items < MANY_ROWS:
        return None
    unique = []
    for k in range(items.n_features):
        column = _column(items, k)
        known = column[~np.isnan(column)]
        is_whole = len(known) >= MANY_ROWS and bool((known == np.round(known)).all())
        if is_whole and len(np.unique(known)) >= NEARLY_ALL * items.n_items:
            unique.append(k)
    if not unique:
        return None
    names = ", ".join(_name(items, k) for k in unique[:8])
    reason = f"a different whole number in almost every row, like an id: {names}"
    return Fault("WARN", reason, None, _leave_out(items, unique), _columns(items, unique))


def _shares_in_order(items: Items, columns: Sequence[int] | None = None) -> FloatArray:
    """The share of pairs of rows that a feature alone puts in order; 0 where there are few.

    The direction of a feature is found on every other query, and the share is measured on the rest.
    A pair of equal values counts one half.
    """
    share = np.zeros(items.n_features)
    queries = items.queries
    upper, lower = _some_pairs(items)
    code = queries.codes[upper]
    if len(upper) < FEW_PAIRS or len(np.unique(code)) < FEW_QUERIES:
        return share
    held_out = code % 2 == 1
    for k in range(items.n_features) if columns is None else columns:
        column = _column(items, k)
        with np.errstate(invalid="ignore"):
            sign = np.nan_to_num(np.sign(column[upper] - column[lower]))
        if held_out.any() and not held_out.all():
            rising = sign[~held_out].sum() >= 0
            share[k] = 0.5 + 0.5 * sign[held_out].mean() * (1 if rising else -1)
    return share


def _some_pairs(items: Items) -> tuple[IntArray, IntArray]:
    """Pairs of rows of a query with different grades, the better one first."""
    order, code = items.queries.order, np.sort(items.queries.codes)
    uppers, lowers, total = [], [], 0
    for step in range(1, int(items.queries.sizes.max(initial=1))):
        same = code[step:] == code[:-step]
        one, two = order[step:][same], order[:-step][same]
        differ = items.y[one] != items.y[two]
        one, two = one[differ], two[differ]
        is_first = items.y[one] > items.y[two]
        uppers.append(np.where(is_first, one, two))
        lowers.append(np.where(is_first, two, one))
        total += len(one)
        if total >= MANY_PAIRS:
            break
    if not uppers:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    upper, lower = np.concatenate(uppers), np.concatenate(lowers)
    chosen = np.linspace(0, len(upper) - 1, min(len(upper), MANY_PAIRS)).astype(np.int64)
    return upper[chosen], lower[chosen]


def _columns(items: Items, features: Sequence[int]) -> tuple[str, ...]:
    """The columns of the table that these features were made of."""
    if items.feature_names is None:
        return ()
    names = [items.feature_names[k] for k in features]
    if items.encoding is not None:
        made = {name: c.name for c in items.encoding.columns for name in c.feature_names()}
        names = [made[name] for name in names if name in made]
    return tuple(dict.fromkeys(names))


def _leave_out(items: Items, features: Sequence[int]) -> str:
    columns = list(_columns(items, features))
    why = "remove what is not known when the list is ranked"
    return Message(f"{why}: ", Setting("drop", columns)) if columns else why


ITEM_RULES: list[Rule] = [
    ("grades", "whole numbers from 0 to 30, more than one", _check_grades),
    ("queries", "every query has several items", _check_queries),
    ("grades differ within queries", "every query has something to order", _check_one_grade),
    ("ids", "no id is repeated in a query", _check_ids),
]
FEATURE_RULES: list[Rule] = [
    ("duplicates", "no two items are the same", _check_duplicates),
    ("constant features", "every feature varies", _check_constant),
    ("grade among the features", "no feature repeats the grade", _check_leakage),
    ("one feature alone", "no feature alone orders the queries", _check_alone),
    ("known too late", "no feature is named after clicks or orders", _check_late),
    ("ids among the features", "no feature numbers the rows", _check_unique),
]
LEAK_RULES: list[Rule] = FEATURE_RULES[-4:]


def check_against(items: Items, other: Items, lines: Lines, name: str = "") -> Finding:
    """Whether queries or items are also in other data, of this name."""
    rule = f"nothing shared{name and f' with {name}'}"

    def finding(status: Status, shared: NDArray[np.bool_], reason: str, fix: str) -> Finding:
        row = int(np.argmax(shared))
        return Finding(rule, status, reason, None if lines is None else int(lines[row]), fix)

    if items.qid is not None and other.qid is not None:
        queries = set(map(str, other.queries.ids.tolist()))
        shared = np.array([str(query) in queries for query in items.queries.ids.tolist()])
        if shared.any():
            query = items.queries.ids[np.argmax(shared)]
            reason = f"query {query} is in both ({shared.sum():,} queries)"
            return finding("FAIL", shared[items.queries.codes], reason, "split the data by query")
    keys = set(_row_keys(other, with_query=False))
    same = np.array([key in keys for key in _row_keys(items, with_query=False)])
    if same.mean() <= 0.01:
        return Finding(rule, "PASS", "no shared query and almost no shared items")
    status: Status = "FAIL" if same.mean() > 0.5 else "WARN"  # real data share empty rows
    reason = f"{same.sum():,} of {items.n_items} items have the same features as items there"
    return finding(status, same, reason, "check that no document is in both")


def _row_keys(items: Items, *, with_query: bool) -> Iterator[bytes]:
    codes = items.queries.codes
    for row in range(items.n_items):
        cells = items.X[[row]]
        key = cells.indices.tobytes() + cells.data.tobytes() if items.is_sparse else cells.tobytes()
        yield key + codes[row].tobytes() if with_query else key


def _column(items: Items, k: int) -> FloatArray:
    column = items.X[:, [k]]
    return np.asarray(column.toarray() if items.is_sparse else column)[:, 0]


def _is_constant(column: FloatArray) -> bool:
    known = column[~np.isnan(column)]
    some_missing = 0 < len(known) < len(column)
    return not some_missing and (len(known) == 0 or bool((known == known[0]).all()))


def _name(items: Items, k: int) -> str:
    return f"feature {k + 1}" if items.feature_names is None else items.feature_names[k]


def _check_pairs(ratings: Ratings, lines: Lines) -> Fault | None:
    repeat = first_twice(ratings)
    if repeat is None:
        return None
    row, earlier = repeat
    before = "before" if lines is None else f"on line {lines[earlier]}"
    user, item = ratings.users[ratings.user[row]], ratings.items[ratings.item[row]]
    fix = Message(
        "remove one, or say which counts: ", Setting("duplicates", "first"), ", 'last' or 'mean'"
    )
    return Fault("FAIL", f"user {user} rated item {item} {before} already", row, fix)


def _check_values(ratings: Ratings, lines: Lines) -> Fault | None:
    if np.unique(ratings.value).size > 1:
        return None
    reason = f"every rating is {ratings.value[0]:g}: there is no order to learn"
    fix = Message("check that this is the column of the ratings: ", Setting("value", "NAME"))
    return Fault("FAIL", reason, None, fix)


def _check_single_ratings(ratings: Ratings, lines: Lines) -> Fault | None:
    single = ratings.user_counts == 1
    if not single.any():
        return None
    row, user = _first(ratings.by_user, single)
    reason = f"user {user} gave a single rating ({single.sum():,} of {len(single):,} users)"
    return Fault("WARN", reason, row, "little can be learned about such users")


def _check_equal_ratings(ratings: Ratings, lines: Lines) -> Fault | None:
    equal = _all_equal(ratings.value, ratings.by_user) & (ratings.user_counts > 1)
    if not equal.any():
        return None
    row, user = _first(ratings.by_user, equal)
    share = f"{equal.sum():,} of {len(equal):,} users"
    reason = f"user {user} rated everything {ratings.value[row]:g} ({share})"
    return Fault("WARN", reason, row, "remove such users: they have no preferences")


RATING_RULES: list[Rule] = [
    ("pairs", "no user rated an item twice", _check_pairs),
    ("values", "more than one value", _check_values),
    ("ratings per user", "every user gave several ratings", _check_single_ratings),
    (
        "values differ per user",
        "users with several ratings gave different ones",
        _check_equal_ratings,
    ),
]


def _check_clicks(log: ImpressionLog, lines: Lines) -> Fault | None:
    if not log.clicked.any():
        reason = "no item was clicked: there is nothing to learn"
        return Fault("FAIL", reason, None, "check that this is the column of the clicks")
    if log.clicked.all():
        reason = "every item was clicked: the log lists clicks only"
        return Fault(
            "FAIL", reason, None, "log all shown items, with 0 for those that were not clicked"
        )
    silent = 1.0 - len(np.unique(log.session[log.clicked])) / log.n_sessions
    if silent > 0.99:
        reason = f"{silent:.1%} of the sessions have no click"
        return Fault("WARN", reason, None, "collect more sessions")
    return None


def _check_sizes(log: ImpressionLog, lines: Lines) -> Fault | None:
    single = np.diff(log.starts) == 1
    if not single.any():
        return None
    row = int(log.starts[np.argmax(single)])
    session = log.sessions[log.session[row]]
    reason = f"session {session} shows a single item ({single.sum():,} of {len(single):,})"
    fix = "log all items that were shown, and give the items of one list one session id"
    return Fault("FAIL" if single.all() else "WARN", reason, None, fix)


def _check_gaps(log: ImpressionLog, lines: Lines) -> Fault | None:
    top = log.position[log.starts[:-1]]
    if (top == 1).all():
        return None
    share = float(np.mean(top != 1))
    reason = f"{share:.0%} of the sessions have no item at position 1"
    return Fault("WARN", reason, None, "positions count from 1 at the top; log all items shown")


def _check_moves(log: ImpressionLog, lines: Lines) -> Fault | None:
    document, first = log.documents
    low, high = np.full(len(first), np.iinfo(np.int64).max), np.zeros(len(first), np.int64)
    np.minimum.at(low, document, log.position)
    np.maximum.at(high, document, log.position)
    moved = np.mean(high > low)
    if moved > 0.01:
        return None
    reason = "each item has the same position in all sessions, so position bias cannot be measured"
    return Fault("WARN", reason, None, "swap or shuffle a small share of the lists")


LOG_RULES: list[Rule] = [
    ("clicks", "some items were clicked, others were not", _check_clicks),
    ("sessions", "every session shows several items", _check_sizes),
    ("positions", "every list starts at position 1", _check_gaps),
    ("items move", "items were shown at several positions", _check_moves),
]


def _check_contradictions(pairs: Preferences, lines: Lines) -> Fault | None:
    query = [""] * len(pairs.winner) if pairs.query is None else pairs.query.tolist()
    keys = list(zip(query, pairs.winner.tolist(), pairs.loser.tolist(), strict=True))
    known = set(keys)
    both = [row for row, (q, w, other) in enumerate(keys) if (q, other, w) in known]
    if not both:
        return None
    reason = f"{len(both):,} of {len(keys):,} pairs are also there the other way around"
    return Fault(
        "WARN", reason, both[0], "learners weigh them against each other; check they are meant"
    )


PAIR_RULES: list[Rule] = [
    ("contradictions", "no pair is also there the other way around", _check_contradictions),
]
