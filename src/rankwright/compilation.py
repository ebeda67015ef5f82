"""Compile the kernels ahead of their first use: for container images, the demo and the tests."""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from rankwright._typing import Matrix
from rankwright.exceptions import ParameterError, RankwrightWarning
from rankwright.runtime import n_threads, progress


def compile_kernels(
    families: Iterable[str] | None = None,
    *,
    n_processes: int | None = None,
    note: Callable[[str], None] | None = None,
) -> dict[str, float]:
    """Compile and cache all kernels by training every ranker on a few rows.

    Run it once in the build of a container image, with ``NUMBA_CACHE_DIR`` set to a folder of the
    image: the first training then starts without delay.

    Parameters
    ----------
    families : names, or None
        Among ``boosting``, ``online``, ``gradient``, ``recommend``, ``neighbors``, ``keeprank``,
        ``magnitude`` and ``readers``; None compiles all.
    n_processes : int or None
        The number of processes that compile; None uses RANKWRIGHT_THREADS or all cores.
    note : function of a line of text, or None
        Called when a family is done.

    Returns
    -------
    dict of family to CPU seconds
    """
    chosen = list(FAMILIES) if families is None else list(families)
    for family in chosen:
        if family not in FAMILIES:
            raise ParameterError(f"family {family!r} is unknown: there are {', '.join(FAMILIES)}.")
    seconds: dict[str, float] = {}
    processes = min(n_processes or n_threads(), len(chosen)) or 1
    # A new interpreter for each process: a fork would share the locks of threads that may run.
    with (
        progress.task(
            "compiling kernels", len(chosen), unit="families", active=note is not None
        ) as work,
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
    ):
        jobs = {pool.submit(_compile, family): family for family in chosen}
        for job in as_completed(jobs):
            family = jobs[job]
            seconds[family] = job.result()
            work.update(len(seconds))
            if note is not None:
                done = f"{len(seconds)} of {len(chosen)}"
                note(f"[{done}] {family}: {seconds[family]:.1f} s of CPU")
    return seconds


def _compile(family: str) -> float:
    start = time.process_time()
    logging.getLogger("rankwright").setLevel("ERROR")  # the caller knows that this compiles
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankwrightWarning)  # a few rows are little to learn from
        for fit in FAMILIES[family](family):
            fit()
    return time.process_time() - start


def _rankers(family: str) -> Iterator[Callable[[], Any]]:
    """Fits of the default rankers of a family, to dense and sparse rows, and their scores."""
    import numpy as np
    from scipy.sparse import csr_array

    from rankwright.rankers.base import rankers
    from rankwright.rankers.boosting.rankboost import RankBoost
    from rankwright.rankers.boosting.weak_learners.estimators import TreeRanking

    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(40, 4)), np.repeat(np.arange(5), 8)
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    for cls in rankers().values():
        if cls._family != family:
            continue
        names = cls._get_param_names()
        few = {name: 3 for name in ("n_estimators", "max_iter") if name in names}
        models = [cls(**few)]
        if cls is RankBoost:
            models.append(cls(estimator=TreeRanking(max_leaf_nodes=4), **few))
        for model in models:
            for rows in (X, csr_array(X)):
                yield partial(_fit_and_score, model, rows, y, qid)


def _fit_and_score(model: BaseEstimator, X: Matrix, y: ArrayLike, qid: ArrayLike | None) -> None:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # three rounds do not converge
        model.fit(X, y, qid=qid)
    model.decision_function(X)


def _readers(family: str) -> Iterator[Callable[[], Any]]:
    from rankwright.data.io.letor import _kernels  # noqa: F401  (from here on, they read smaller files)
    from rankwright.data.io.letor.reader import read_letor

    def read() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.txt"
            path.write_text("1 qid:1 1:0.5 2:1 # docid = a\n" * 2**14)  # enough for the kernel
            read_letor(path)

    yield read


def _recommenders(family: str) -> Iterator[Callable[[], Any]]:
    from rankwright.data.behavior.interactions import Interactions
    from rankwright.data.datasets.synthetic import make_ratings
    from rankwright.recommend.recommender import Recommender

    ratings = make_ratings(12, 10, density=0.6, random_state=0).ratings
    yield lambda: Recommender().fit(ratings).recommend(ratings.users[0])
    events = Interactions.from_ratings(ratings)
    yield lambda: Recommender().fit(events).recommend(events.users[0])


# Longest first, so that the processes end at about the same time.
FAMILIES: dict[str, Callable[[str], Iterator[Callable[[], Any]]]] = {
    "boosting": _rankers,
    "online": _rankers,
    "recommend": _recommenders,
    "gradient": _rankers,
    "neighbors": _rankers,
    "keeprank": _rankers,
    "magnitude": _rankers,
    "readers": _readers,
}
