"""Lists of several noisy search engines over the same documents, for metasearch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright.data.runs import Qrels, Run
from rankwright.data.synthetic.draw import FloatArray, Sample, Seed, need

__all__ = ["EngineSample", "make_engines"]


@dataclass(frozen=True, eq=False)
class EngineSample(Sample):
    """Lists of several engines for the same queries, drawn by :func:`make_engines`.

    Attributes
    ----------
    runs : tuple of Run
        What each engine returned; its scores are on a scale of its own.
    qrels : Qrels
        The relevant documents of each query, best grade first.
    ideal : Run
        All documents in the right order.
    bayes : Run
        The posterior mean of each document's worth given what every engine thought of *all*
        documents, unlisted ones too: no fusion of the lists can be expected to do better.
    noise : (n_engines,) float64
        Each engine's error.
    """

    runs: tuple[Run, ...]
    qrels: Qrels
    ideal: Run
    bayes: Run
    noise: FloatArray


def make_engines(
    n_queries: int = 50,
    n_docs: int = 100,
    n_engines: int = 5,
    *,
    list_length: int = 30,
    n_relevant: int = 5,
    n_grades: int = 3,
    noise: tuple[float, float] = (0.5, 2.0),
    random_state: Seed = None,
) -> EngineSample:
    """Draw the lists of several noisy search engines, for metasearch.

    Each document of a query has a standard normal worth; the ``n_relevant`` best are relevant.
    Engine e sees the worth plus normal noise of its own size and returns its first documents.

    Parameters
    ----------
    n_queries, n_docs, n_engines : int
        Documents are counted per query.
    list_length : int, default=30
        How many documents an engine returns for a query.
    n_relevant : int, default=5
        Relevant documents per query (1 for the one right page of the RankBoost paper).
    n_grades : int, default=3
        Grades 0 .. n_grades - 1; the relevant documents share the upper ones evenly.
    noise : (low, high), default=(0.5, 2.0)
        The engines' errors run evenly from the first to the second.
    random_state : int, Generator or None

    Examples
    --------
    >>> sample = make_engines(10, 40, 3, list_length=15, random_state=0)
    >>> sample.runs[0], sample.qrels
    (Run('engine-0', 150 rows, 10 queries), Qrels(400 rows, 10 queries))
    """
    for name, number in (("n_queries", n_queries), ("n_docs", n_docs), ("n_engines", n_engines)):
        need(number >= 1, name, number, "an integer >= 1")
    need(1 <= list_length <= n_docs, "list_length", list_length, "in 1 .. n_docs")
    need(1 <= n_relevant <= n_docs, "n_relevant", n_relevant, "in 1 .. n_docs")
    need(n_grades >= 2, "n_grades", n_grades, "an integer >= 2")
    need(min(noise) > 0, "noise", noise, "two numbers > 0")
    rng = np.random.default_rng(random_state)
    worth = rng.standard_normal((n_queries, n_docs))
    spread = np.linspace(noise[0], noise[1], n_engines)
    seen = worth + spread[:, None, None] * rng.standard_normal((n_engines, *worth.shape))
    place = np.argsort(np.argsort(-worth, axis=1), axis=1)
    grade = np.maximum(0, n_grades - 1 - place * (n_grades - 1) // n_relevant)
    precision = spread**-2.0
    posterior = np.tensordot(precision, seen, axes=1) / (1 + precision.sum())
    scale, shift = np.exp(rng.standard_normal(n_engines)), 5 * rng.standard_normal(n_engines)
    runs = tuple(
        _full_run(shift[e] + scale[e] * seen[e], f"engine-{e}").top(list_length)
        for e in range(n_engines)
    )
    ideal = _full_run(worth, "ideal")
    qrels = Qrels(ideal.queries, ideal.docs, ideal.query, ideal.doc, grade=grade.ravel())
    return EngineSample(runs, qrels, ideal, _full_run(posterior, "bayes"), spread)


def _full_run(score: FloatArray, name: str) -> Run:
    """A run with one row for each cell; documents of different queries are different."""
    n_queries, n_docs = score.shape
    width = len(str(max(n_docs - 1, 0)))
    queries = np.array([f"q{q}" for q in range(n_queries)], dtype=object)
    docs = np.array(
        [f"q{q}-d{d:0{width}}" for q in range(n_queries) for d in range(n_docs)], object
    )
    query = np.repeat(np.arange(n_queries), n_docs)
    return Run(queries, docs, query, np.arange(score.size), score=score.ravel(), name=name)
