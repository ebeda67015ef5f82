"""Comparison of an exported file with its model: rows, differences, reversed pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import rankwright
from rankwright._typing import FloatArray
from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.exports.forest import Branch, Forest
from rankwright.exports.form import Form, Term
from rankwright.exports.target import Files, Options, Reading, Target
from rankwright.scoring.kernel import KernelExpansion, KernelValues
from rankwright.scoring.linear import Deviations, Linear, Slopes
from rankwright.scoring.network import Network, unpack_layers
from rankwright.scoring.transforms import LevelNumbers, QueryScale, folded

MAX_ROWS, MAX_PAIRS = 4000, 200_000
N_RANDOM = 500
QUERY_ROWS = 20  # of a generated query, for models that scale by query


@dataclass(frozen=True)
class Certificate:
    """How an exported file compares with its model; written next to the file as JSON.

    Attributes
    ----------
    target, model : str
    status : "exact" or "order only"
    reader : what scored the file
    precision : "float32" or "float64", of the reader's features and sums
    rows, rows_from : how many rows, and where they come from
    largest_difference : float
        The largest absolute difference of scores, less ``constant``.
    bound : float
        An upper bound on rounding errors in this precision.
    pairs, pairs_reversed : int
        Number of pairs of rows that are close in the model's order, and how many the file reverses.
    pairs_reversed_beyond_bound : int
        Reversed pairs whose scores differ by more than the bound: 0, or the export fails.
    constant : float
        What the file adds to the model's scores.
    lowest_score : float
        Of the file, on these rows. Lucene's engines refuse negative scores.
    grades_equal : bool or None
        Whether the grades of the file and the model agree (beyond rounding at thresholds).
    missing : how missing features are scored: "model", "zero" or "never"
    features : the names of the features, in order
    sha256 : of the file
    rankwright : the version that wrote it
    """

    target: str
    model: str
    status: str
    reader: str
    precision: str
    rows: int
    rows_from: str
    largest_difference: float
    bound: float
    pairs: int
    pairs_reversed: int
    pairs_reversed_beyond_bound: int
    constant: float
    lowest_score: float
    grades_equal: bool | None
    missing: str
    features: list[str]
    sha256: str
    rankwright: str = rankwright.__version__

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        text = (
            f"{self.status}: {self.rows:,} rows ({self.rows_from}), largest difference "
            f"{self.largest_difference:.2g}, {self.pairs_reversed:,} of {self.pairs:,} pairs "
            f"reversed, read by {self.reader}"
        )
        if self.target in ("elasticsearch", "opensearch") and self.lowest_score < 0:
            text += (
                f"; the lowest score is {self.lowest_score:.2g}, and the engine refuses negative "
                "scores: export with data to check, or with a constant"
            )
        return text


def certify(
    form: Form,
    target: Target,
    files: Files,
    options: Options,
    status: str,
    data: tuple[FloatArray, Any] | None = None,
) -> Certificate:
    """Score rows with the model and with the file's reader; raise if they disagree."""
    X, qid = generated_rows(form) if data is None else data
    with np.errstate(over="ignore"):
        X = X.astype(target.dtype).astype(np.float64)  # what the engine sees
    X = np.where(np.abs(X) <= target.tiny, 0.0, X)
    if data is None:
        X = np.where(np.isinf(X), 0.0, X)
    exact, reading = form.scores(X, qid), _read(form, target, files, X, qid, options)
    exported = reading.scores - reading.constant
    eps = float(np.finfo(target.dtype).eps)
    bound = eps * _magnitude(form, X, qid, abs(reading.constant))
    difference = np.abs(exported - exact)
    pairs, n_reversed, beyond = reversed_pairs(exact, exported, bound)
    certificate = Certificate(
        target=target.name,
        model=form.kind,
        status=status,
        reader=reading.reader,
        precision=np.dtype(target.dtype).name,
        rows=len(X),
        rows_from="generated around every threshold" if data is None else "data",
        largest_difference=float(difference.max(initial=0.0)),
        bound=float(bound),
        pairs=pairs,
        pairs_reversed=n_reversed,
        pairs_reversed_beyond_bound=beyond,
        constant=reading.constant,
        lowest_score=float(reading.scores.min(initial=np.inf)) if len(X) else 0.0,
        grades_equal=_grades_equal(form, reading, exact, bound),
        missing=form.missing if form.reference.allow_nan else "never",
        features=list(form.names),
        sha256=hashlib.sha256(files[""]).hexdigest(),
    )
    if not certificate.largest_difference <= bound or beyond or certificate.grades_equal is False:
        raise DataError(
            f"export: the {target.name} file does not reproduce the scores of the model and was "
            f"not written ({certificate}; the bound on rounding errors is {bound:.2g}). Please "
            "report this model."
        )
    return certificate


def _read(
    form: Form, target: Target, files: Files, X: FloatArray, qid: ArrayLike | None, options: Options
) -> Reading:
    """The reader's scores; a model that scales by query is read one query at a time."""
    if not any(isinstance(step, QueryScale) for step in form.steps):
        return target.read(files, X, form, options)
    queries, parts = Queries.from_ids(qid, len(X)), []
    rows = np.split(queries.order, queries.ptr[1:-1])
    parts = [target.read(files, X[chosen], form, options) for chosen in rows]
    back = np.argsort(np.concatenate(rows))
    scores = np.concatenate([part.scores for part in parts])[back]
    graded = [part.grades for part in parts if part.grades is not None]
    grades = np.concatenate(graded)[back] if graded else None
    return parts[0]._replace(scores=scores, grades=grades)


def generated_rows(form: Form, random_state: int = 0) -> tuple[FloatArray, Any]:
    """Rows around every threshold (± 1 float32 and ± 1 double), NaN, 0 and random values."""
    rng, n = np.random.default_rng(random_state), len(form.names)
    special: list[list[float]] = [[] for _ in range(n)]
    whole = set()  # features that are categories
    for split in _splits(form):
        special[split.feature] += split.categories or [split.threshold]
        whole |= {split.feature} if split.categories else set()
    nan = [np.nan] if form.takes_nan else []
    pools = [
        np.array([*(_next_to(values) if j in whole else _around(values)), 0.0, *nan])
        for j, values in enumerate(special)
    ]
    centers, scales = _scales(form, special)
    X = rng.normal(centers, scales, (N_RANDOM, n))
    known = np.array([(j, v) for j, pool in enumerate(pools) for v in pool])
    if len(known) > MAX_ROWS - N_RANDOM:
        known = rng.permutation(known)[: MAX_ROWS - N_RANDOM]
    more = X[rng.integers(0, N_RANDOM, len(known))]
    for j, pool in enumerate(pools):  # half of the other features are at a threshold too
        chosen = rng.random(len(more)) < 0.5
        more[chosen, j] = rng.choice(pool, int(chosen.sum()))
    more[np.arange(len(known)), known[:, 0].astype(int)] = known[:, 1]
    for j in whole:
        X[:, j], more[:, j] = np.round(X[:, j]), np.round(more[:, j])
    if form.takes_nan:
        X[rng.random(X.shape) < 0.15] = np.nan
    X = np.vstack([X, more])
    for columns in _level_columns(form):  # one level in most rows, none or two in some
        levels = np.eye(columns.stop - columns.start)
        X[:, columns] = rng.permutation(np.resize(levels, (len(X), len(levels))))
        odd = rng.random(len(X)) < 0.1
        X[odd, columns] = rng.integers(0, 2, (int(odd.sum()), len(levels)))
    needs_queries = any(isinstance(step, QueryScale) for step in form.steps)
    return X, np.arange(len(X)) // QUERY_ROWS if needs_queries else None


def _level_columns(form: Form) -> list[slice]:
    """The columns of 0 and 1 that are levels of a category to some term."""
    steps = (step for term in form.terms for step in term.steps if isinstance(step, LevelNumbers))
    return [columns for step in steps for columns in step.categories]


def _splits(form: Form) -> Iterator[Branch]:
    """The splits on raw features, without those on levels."""
    for term in form.terms:
        others = None
        if len(term.steps) == 1 and isinstance(term.steps[0], LevelNumbers):
            others = term.steps[0].others
        for split in term.body.splits() if isinstance(term.body, Forest) else ():
            if not term.steps:
                yield split
            elif others is not None and split.feature < len(others):
                yield replace(split, feature=int(others[split.feature]))


def _next_to(values: list[float]) -> FloatArray:
    """Whole numbers at and beside each value."""
    exact = np.round([v for v in values if np.isfinite(v)])
    return np.unique(np.concatenate([exact - 1, exact, exact + 1]))


def _around(values: list[float]) -> FloatArray:
    """Each value, its neighbors among doubles, and those among float32 numbers."""
    exact = np.unique([v for v in values if np.isfinite(v)])
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
    sides = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    doubles = [np.nextafter(exact, side) for side in (-np.inf, np.inf)]
    samples = np.concatenate([exact, near, *sides, *doubles]).astype(np.float64)
    return samples[np.isfinite(samples)]


def _scales(form: Form, special: list[list[float]]) -> tuple[FloatArray, FloatArray]:
    """Center and spread of random values of each feature, by thresholds, scalers or support."""
    n = len(form.names)
    centers, scales = np.zeros(n), np.ones(n)
    for j, values in enumerate(special):
        finite = [v for v in values if np.isfinite(v)]
        if finite:
            centers[j], scales[j] = (
                np.mean(finite),
                max(float(np.ptp(finite)), 1e-3 * abs(finite[0])),
            )
    has_trees = any(isinstance(term.body, Forest) for term in form.terms)
    for _, steps, body in () if has_trees else form.terms:
        affine, support = folded(steps, n), getattr(body, "support", None)
        if affine is not None:
            centers, scales = -affine[1] / affine[0], 1.0 / np.abs(affine[0])
        if support is not None and not steps:
            centers, scales = support.mean(axis=0), support.std(axis=0) + 1e-9
    return centers, np.where(scales > 0, scales, 1.0)


def _magnitude(form: Form, X: FloatArray, qid: ArrayLike | None, constant: float) -> float:
    """The size of the terms of a score, times how often they are rounded: of the largest row."""
    added = constant + abs(form.constant)
    rows = np.nan_to_num(X, nan=0.0) if form.missing == "zero" else X
    sizes = [abs(term.factor) * _term_magnitude(term, rows, qid, added) for term in form.terms]
    return float(sum(sizes) * (1 if len(sizes) == 1 else 2))


def _term_magnitude(term: Term, X: FloatArray, qid: ArrayLike | None, constant: float) -> float:
    body: Any = term.body
    if isinstance(body, Forest):
        return 4.0 * (len(body.trees) + 10) * (body.magnitude + constant)
    rows, affine, n = X, folded(term.steps, X.shape[1]), X.shape[1]
    for step in term.steps:
        rows = step.transform(rows, Queries.from_ids(qid, len(X)))
    size = np.abs(np.nan_to_num(rows))
    if affine is not None:
        size = np.abs(np.nan_to_num(X)) * np.abs(affine[0]) + np.abs(affine[1])
    for step in term.steps:
        if isinstance(step, KernelValues):
            size = size * 1e3
    if isinstance(body, Linear):
        total = size @ np.abs(body.coef) + abs(body.intercept)
    elif isinstance(body, Slopes):
        total = size[:, body.feature] @ np.abs(body.slope)
        total = total + np.abs(body.offset).sum() + np.abs(body.missing).sum()
    elif isinstance(body, Network):
        total, n = _network_magnitude(body, size), int(body.layers.max())
    elif isinstance(body, KernelExpansion):
        total, n = _kernel_magnitude(body, size), len(body.support)
    elif isinstance(body, Deviations):
        total = (size + np.abs(body.mean)) @ np.abs(body.coef) + abs(body.intercept)
        total = total * (1e3 if body.rated_only else 1.0)
    else:
        total = np.full(len(X), 1e6)  # votes and prototypes: a small share of a whole grade
    return float(4.0 * (n + 10) * (total.max(initial=0.0) + constant))


def _network_magnitude(body: Network, size: FloatArray) -> FloatArray:
    """tanh does not enlarge an error, so absolute weights carry it through the layers."""
    layers = unpack_layers(body.layers.tolist(), body.weights)
    for table, offset in layers:
        size = size @ np.abs(table) + (np.abs(offset) if len(offset) else 0.0) + 1.0
    return np.asarray(size[:, 0])


def _kernel_magnitude(body: KernelExpansion, size: FloatArray) -> FloatArray:
    kernel, support = body.kernel, np.abs(body.support)
    if kernel.name == "rbf":
        squares = (size**2).sum(axis=1) + float((support**2).sum(axis=1).max(initial=0.0))
        total = np.abs(body.coef).sum() * (1.0 + kernel.gamma * squares)
        return np.asarray(total + abs(body.intercept))
    inner = kernel.gamma * (size @ support.T) + abs(kernel.coef0)
    total = kernel.degree * inner**kernel.degree @ np.abs(body.coef)
    return np.asarray(total + abs(body.intercept))


def reversed_pairs(exact: FloatArray, exported: FloatArray, bound: float) -> tuple[int, int, int]:
    """Pairs of rows, how many are reversed, and how many of these differ by more than the bound.

    The pairs are those nearest to each other in the exact order: the easiest ones to reverse.

    >>> reversed_pairs(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]), 0.1)
    (3, 1, 1)
    """
    order = np.argsort(exact, kind="stable")
    a, b, n = exact[order], exported[order], len(exact)
    steps = range(1, min(n, MAX_PAIRS // max(n, 1) + 2))
    total = n_reversed = beyond = 0
    for step in steps:
        differ = a[step:] > a[:-step]
        wrong = differ & (b[step:] < b[:-step])
        total += int(differ.sum())
        n_reversed += int(wrong.sum())
        beyond += int((wrong & (a[step:] - a[:-step] > 2 * bound)).sum())
    return total, n_reversed, beyond


def _grades_equal(form: Form, reading: Reading, exact: FloatArray, bound: float) -> bool | None:
    """Grades may differ only where a score is at a threshold."""
    if form.grades is None or reading.grades is None:
        return None
    thresholds, classes = form.grades
    grades = classes[np.searchsorted(thresholds, exact, side="right")]
    clear = np.abs(exact[:, None] - thresholds).min(axis=1, initial=np.inf) > bound
    return bool((grades == reading.grades)[clear].all())
