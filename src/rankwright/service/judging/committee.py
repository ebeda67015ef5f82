"""What to judge next: the items whose rank varies most over the members of an OAP ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwright._typing import FloatArray
from rankwright.data.queries import Queries


def rank_variance(model: Any, X: Any, queries: Queries) -> FloatArray:
    """The variance over the members of an ensemble of each item's rank, as a share of its list.

    Ranks are divided by the length of the list. Otherwise the longest lists would be judged first,
    which is worse than judging at random on MQ2008 (``experiments/oap_bpm/README.md``).

    Parameters
    ----------
    model : fitted OAPBPM, OAPBagging or OAPVoting
    X : (n_items, n_features) array
    queries : the query of each row

    Examples
    --------
    >>> from rankwright import OAPBPM
    >>> X = np.random.default_rng(0).normal(size=(6, 3))
    >>> model = OAPBPM(n_estimators=20, tau=1, random_state=0).fit(X, [0, 1, 2, 0, 1, 2])
    >>> rank_variance(model, X, Queries.from_ids([7, 7, 7, 8, 8, 8]))  # all members are equal
    array([0., 0., 0., 0., 0., 0.])
    """
    scores = model.member_scores(X)
    variance = np.empty(len(scores))
    for size in np.unique(queries.sizes):  # lists of one length are sorted together
        of_size = np.flatnonzero(queries.sizes == size)
        rows = queries.order[queries.ptr[of_size][:, None] + np.arange(size)]
        places = np.argsort(np.argsort(-scores[rows], axis=1, kind="stable"), axis=1)
        variance[rows] = places.var(axis=2) / size**2
    return variance


def pair_disagreement(member_scores: FloatArray, pairs: Any) -> FloatArray:
    """How evenly the members are split about which of two rows is better: 0 to 1/4.

    Parameters
    ----------
    member_scores : (n_items, n_members) array
    pairs : (n_pairs, 2) row numbers

    Examples
    --------
    >>> pair_disagreement(np.array([[1.0, 2.0], [0.0, 3.0], [5.0, 5.0]]), [[0, 1], [2, 0]])
    array([0.25, 0.  ])
    """
    first, second = np.asarray(pairs).T
    share = (member_scores[first] > member_scores[second]).mean(axis=1)
    disagreement: FloatArray = share * (1.0 - share)
    return disagreement
