"""Splits use every row once and never cut what must stay together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwright.data.queries import (
    Split,
    fold_queries,
    leave_out,
    split_queries,
    split_within_users,
)
from rankwright.exceptions import ParameterError

IDS = st.lists(st.integers(0, 8), min_size=1, max_size=60)
MANY = IDS.filter(lambda ids: len(set(ids)) >= 2)
SEED = st.integers(0, 2**32)


def covers(split: Split, n_rows: int) -> bool:
    return sorted([*split.train, *split.test]) == list(range(n_rows))


@given(MANY, st.floats(0.01, 0.99), SEED)
def test_a_query_is_on_one_side_only_and_no_side_is_empty(qid, test_size, seed):
    split = split_queries(qid, test_size=test_size, random_state=seed)
    ids = np.array(qid)
    assert covers(split, len(qid))
    assert len(split.train)
    assert len(split.test)
    assert not set(ids[split.train]) & set(ids[split.test])


@given(MANY, st.integers(2, 5), SEED)
def test_each_query_is_tested_in_exactly_one_fold_of_equal_size(qid, n_folds, seed):
    ids = np.array(qid)
    n_queries = len(set(qid))
    if n_queries < n_folds:
        with pytest.raises(ParameterError, match="give more queries"):
            fold_queries(qid, n_folds, random_state=seed)
        return
    folds = fold_queries(qid, n_folds, random_state=seed)
    tested = [set(ids[split.test]) for split in folds]
    assert all(covers(split, len(qid)) for split in folds)
    assert sum(map(len, tested)) == len(set.union(*tested)) == n_queries
    assert max(map(len, tested)) - min(map(len, tested)) <= 1


@given(IDS, SEED)
def test_every_user_keeps_half_of_his_rows_and_the_odd_one(user, seed):
    split = split_within_users(user, random_state=seed)
    ids = np.array(user)
    assert covers(split, len(user))
    for key in set(user):
        size = int((ids == key).sum())
        assert (ids[split.test] == key).sum() == size // 2


@given(IDS, st.integers(1, 3), SEED)
def test_a_fixed_number_of_rows_is_left_out_of_every_user_who_has_more(user, n, seed):
    split = leave_out(user, n, random_state=seed)
    ids = np.array(user)
    assert covers(split, len(user))
    for key in set(user):
        size = int((ids == key).sum())
        assert (ids[split.test] == key).sum() == (n if size > n else 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1))
def test_with_times_the_latest_rows_are_left_out(rows):
    user, time = np.array(rows).T
    split = leave_out(user, time=time)
    for row in split.test:
        mine = user == user[row]
        assert time[row] == time[mine].max()
        assert row == np.flatnonzero(mine & (time == time[row])).max()


@given(MANY, SEED)
def test_the_same_seed_gives_the_same_split(qid, seed):
    for split in (split_queries, split_within_users, leave_out):
        one, two = split(qid, random_state=seed), split(qid, random_state=seed)
        assert (one.test == two.test).all()


def test_splits_differ_from_seed_to_seed():
    tests = {tuple(split_queries(range(20), random_state=seed).test) for seed in range(10)}
    assert len(tests) == 10
