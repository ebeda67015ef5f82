"""The paper's tasks: one reviewer's ratings, predicted from those of a few hundred others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import rankwright as rw
from rankwright.exceptions import DatasetError

N_REFERENCE = 300


class Task(NamedTuple):
    """What one reviewer rated: half to learn from, half to test on.

    ``X_train`` and ``X_test`` are filled with medians; ``raw_train`` and ``raw_test`` have NaN.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    raw_train: np.ndarray
    raw_test: np.ndarray


@dataclass(frozen=True)
class Group:
    """Who may be tested, and whose ratings may serve as features.

    ``table`` is (n_reviewers, n_items) with NaN where there is no rating; what a reference
    reviewer did not rate counts as that reviewer's median.
    """

    name: str
    table: np.ndarray
    testable: np.ndarray
    reference: np.ndarray

    @cached_property
    def medians(self) -> np.ndarray:
        return np.nanmedian(self.table, axis=1)

    def held_out(self, n: int) -> tuple[Group, Group]:
        """The group with n reviewers to tune on, and with the others to test on."""
        mixed = np.random.default_rng(0).permutation(self.testable)
        return replace(self, testable=mixed[:n]), replace(self, testable=mixed[n:])

    def tasks(self, n: int | None, seed: int) -> Iterator[Task]:
        """Tasks of n reviewers drawn at random; None takes each of them once."""
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(self.testable)
        for reviewer in chosen if n is None else chosen[:n]:
            items = rng.permutation(np.flatnonzero(~np.isnan(self.table[reviewer])))
            others = self.reference[self.reference != reviewer]
            others = rng.permutation(others)[:N_REFERENCE]
            known, medians = self.table[np.ix_(others, items)], self.medians[others, None]
            X, y = np.where(np.isnan(known), medians, known).T, self.table[reviewer, items]
            half = len(items) // 2
            yield Task(X[:half], y[:half], X[half:], y[half:], known.T[:half], known.T[half:])


def _dense(ratings: Any) -> np.ndarray:
    table = np.full((ratings.n_users, ratings.n_items), np.nan)
    table[ratings.user, ratings.item] = ratings.value
    return table


def by_density(data: str, title: str, bins: dict[str, tuple[int, int]]) -> list[Group]:
    """Reviewers with 50 to 300 ratings are tested; reference reviewers have as many as the bin."""
    table = _dense(load(data))
    counts = (~np.isnan(table)).sum(axis=1)
    testable = np.flatnonzero((counts >= 50) & (counts <= 300))
    return [
        Group(f"{title} {name}", table, testable, np.flatnonzero((counts >= a) & (counts <= b)))
        for name, (a, b) in bins.items()
    ]


def movielens() -> list[Group]:
    bins = {"20-40": (20, 40), "40-60": (40, 60), "60-80": (60, 80)}
    return by_density("movielens-1m", "MovieLens", bins)


def jester() -> list[Group]:
    """The file at hand starts at 36 ratings: the group 20-40 is 36-40."""
    bins = {"20-40": (36, 40), "40-60": (40, 60), "60-80": (60, 80)}
    return by_density("jester", "Jester", bins)


def netflix() -> list[Group]:
    """Blocks of the densest customers and movies of the sample, as full as the paper's subsets."""
    whole = _dense(load("netflix-sample").train)
    groups = []
    for n_customers, percent in ((1000, 32), (500, 46), (320, 58)):
        known = ~np.isnan(whole)
        customers = np.argsort(-known.sum(axis=1), kind="stable")[:n_customers]
        movies = np.argsort(-known[customers].sum(axis=0), kind="stable")
        full = known[np.ix_(customers, movies)].mean(axis=0)
        density = np.cumsum(full) / np.arange(1, len(full) + 1)
        kept = movies[: int(np.flatnonzero(density >= percent / 100)[-1]) + 1]
        table = whole[np.ix_(customers, kept)]
        testable = np.flatnonzero((~np.isnan(table)).sum(axis=1) >= 20)
        everyone = np.arange(len(table))
        groups.append(Group(f"Netflix {percent} %", table, testable, everyone))
    return groups


def books() -> list[Group]:
    """Readers with 200 explicit ratings or more, books with 10 of theirs; each reader in turn."""
    ratings = load("book-crossing")
    ratings = ratings.only(users=ratings.users[ratings.user_counts >= 200])
    ratings = ratings.only(items=ratings.items[ratings.item_counts >= 10])
    table = _dense(ratings)
    testable = np.flatnonzero((~np.isnan(table)).sum(axis=1) >= 4)
    return [Group("Books", table, testable, np.arange(len(table)))]


SETS: dict[str, Callable[[], list[Group]]] = {
    "movielens": movielens,
    "jester": jester,
    "netflix": netflix,
    "books": books,
}


def load(name: str) -> Any:
    """The data set, or a clear word where this machine does not have it."""
    try:
        return rw.load_dataset(name)
    except DatasetError as error:
        sys.exit(f"this experiment needs real data: {error}")
