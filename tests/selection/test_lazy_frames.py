"""A lazy frame of polars is collected wherever rows go in."""

from __future__ import annotations

import numpy as np
import polars as pl

import rankwright as rw
from rankwright.selection import progressive
from rankwright.testing.inputs import make_problem

PROBLEM = make_problem()
FRAME = pl.DataFrame({f"f{k}": column for k, column in enumerate(PROBLEM.X.T)})
LAZY, Y, QID = FRAME.lazy(), PROBLEM.y, PROBLEM.qid


def test_rankers_fit_score_and_stop_on_lazy_frames():
    for ranker in (rw.RidgeRanker(), rw.PRank()):
        eager, lazy = (ranker.fit(X, Y, qid=QID).decision_function(X) for X in (FRAME, LAZY))
        assert np.array_equal(eager, lazy)
    model = rw.LambdaMART(n_estimators=5, early_stopping=3)
    model.fit(LAZY, Y, qid=QID, eval_set=(LAZY, Y), eval_qid=QID)
    assert model.score(LAZY, Y, qid=QID) == model.score(FRAME, Y, qid=QID)
    assert rw.PRank().partial_fit(LAZY, Y).feature_names_in_.tolist() == FRAME.columns


def test_selection_takes_lazy_frames():
    search = rw.RankSearchCV(rw.RankSVM(), {"C": [0.1, 1.0]}, cv=3, random_state=0)
    assert search.fit(LAZY, Y, qid=QID).best_params_ == search.fit(FRAME, Y, qid=QID).best_params_
    auto = rw.AutoRanker([("RidgeRanker", rw.RidgeRanker())], random_state=0)
    assert auto.fit(LAZY, Y, qid=QID).best_name_ == "RidgeRanker"
    steps = [[step["prediction"] for step in progressive(rw.PRank(), X, Y)] for X in (LAZY, FRAME)]
    assert steps[0] == steps[1]
    assert np.array_equal(rw.Items(LAZY, Y).X, PROBLEM.X)
