"""eval_set and early_stopping mean the same for every iterative ranker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from rankwright import AdaBoostRanker, EarlyStopping, FRank, RankBoost, RankNet, evaluate
from rankwright.exceptions import DataError, MissingQueryWarning, ParameterError
from rankwright.feedback.pairs import Pairs

ITERATIVE = [
    RankBoost(n_estimators=60, early_stopping=5),
    AdaBoostRanker(n_estimators=60, early_stopping=5),
    FRank(n_estimators=60, smoothing=1e-3, early_stopping=5),
    RankNet(max_iter=60, learning_rate=0.05, early_stopping=5, random_state=0),
]
every_iterative_ranker = pytest.mark.parametrize(
    "ranker", ITERATIVE, ids=lambda ranker: type(ranker).__name__
)


def _problem(seed: int = 0, n_queries: int = 20) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(10 * n_queries, 4)), np.repeat(np.arange(n_queries), 10)
    y = np.digitize(X[:, 0] - X[:, 1] ** 2 + 1.5 * rng.normal(size=len(X)), [-0.5, 0.8])
    return X, y, qid


TRAIN, VALID = _problem(0), _problem(1, 8)


def _fit(ranker: Any, **options: Any) -> Any:
    X, y, qid = TRAIN
    return clone(ranker).set_params(**options).fit(
        X, y, qid=qid, eval_set=VALID[:2], eval_qid=[f"q{q}" for q in VALID[2]]
    )  # fmt: skip


@every_iterative_ranker
def test_the_best_iteration_on_the_eval_set_is_kept(ranker: Any) -> None:
    model = _fit(ranker, early_stopping=EarlyStopping(n_iter_no_change=5, smoothing=0.0))
    best = int(np.argmax(model.validation_)) + 1
    assert model.best_iteration_ == best
    assert len(model.validation_) == best + 5
    X, y, qid = VALID
    value = evaluate(model.decision_function(X), y, qid, "NDCG@10")["NDCG@10"]
    assert value == pytest.approx(model.validation_.max())


@every_iterative_ranker
def test_rounds_are_compared_by_the_mean_of_nearby_ones_and_passes_one_by_one(ranker: Any) -> None:
    model = _fit(ranker, early_stopping=EarlyStopping(n_iter_no_change=5, smoothing=0.4))
    curve = model.validation_
    if not isinstance(ranker, RankNet):
        reach = [int(0.4 * number) for number in range(1, len(curve) + 1)]
        means = [curve[k - r : k + r + 1].mean() for k, r in enumerate(reach)]
        curve = np.round(means, 12)
    assert model.best_iteration_ == int(np.argmax(curve)) + 1


@every_iterative_ranker
def test_so_many_rounds_without_a_look_at_the_eval_set_give_the_same_model(ranker: Any) -> None:
    model = _fit(ranker)
    rounds = "max_iter" if isinstance(ranker, RankNet) else "n_estimators"
    plain = clone(ranker).set_params(**{rounds: model.best_iteration_, "early_stopping": None})
    plain.fit(TRAIN[0], TRAIN[1], qid=TRAIN[2])
    assert plain.best_iteration_ == model.best_iteration_
    assert plain.validation_ is None
    np.testing.assert_allclose(
        model.decision_function(VALID[0]), plain.decision_function(VALID[0]), atol=1e-9
    )


@every_iterative_ranker
def test_an_eval_set_without_early_stopping_records_the_curve_of_all_rounds(ranker: Any) -> None:
    model = _fit(ranker, early_stopping=None)
    assert len(model.validation_) == model.best_iteration_ == 60


@every_iterative_ranker
def test_without_an_eval_set_a_fraction_of_the_queries_is_held_out(ranker: Any) -> None:
    X, y, qid = TRAIN
    stopping = EarlyStopping(n_iter_no_change=3, validation_fraction=0.4, random_state=1)
    model = clone(ranker).set_params(early_stopping=stopping).fit(X, y, qid=qid)
    rng = np.random.default_rng(np.random.RandomState(1).randint(2**31 - 1))
    held_out = np.isin(qid, rng.permutation(20)[:8])
    other = clone(ranker).set_params(early_stopping=3)
    rest = ~held_out
    other.fit(
        X[rest], y[rest], qid=qid[rest], eval_set=(X[held_out], y[held_out]),
        eval_qid=qid[held_out],
    )  # fmt: skip
    np.testing.assert_allclose(model.validation_, other.validation_)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-9)


def test_the_rows_of_the_eval_set_are_normalized_by_query_like_the_training_rows() -> None:
    X, y, qid = VALID
    stopping = EarlyStopping(n_iter_no_change=3, smoothing=0.0)
    ranker = FRank(n_estimators=20, normalize="query", early_stopping=stopping)
    model = ranker.fit(*TRAIN[:2], qid=TRAIN[2], eval_set=(100 * X + qid[:, None], y), eval_qid=qid)
    scores = model.decision_function(X, qid)
    assert evaluate(scores, y, qid, "NDCG@10")["NDCG@10"] == model.validation_.max()


def test_early_stopping_takes_what_scikit_learn_users_write() -> None:
    assert EarlyStopping.from_parameter(None) is None
    assert EarlyStopping.from_parameter(False) is None
    assert EarlyStopping.from_parameter(True).get_params() == EarlyStopping().get_params()
    assert EarlyStopping.from_parameter(7).n_iter_no_change == 7
    assert RankBoost(n_estimators=9, early_stopping=False).fit(*TRAIN[:2]).best_iteration_ == 9
    with pytest.raises(ParameterError, match="early_stopping must be None, True or False, an int"):
        RankBoost(early_stopping=0).fit(*TRAIN[:2])
    with pytest.raises(ParameterError, match=r"EarlyStopping.*measure must be the name"):
        RankBoost(early_stopping=EarlyStopping(measure="nice")).fit(*TRAIN[:2])


def test_a_loss_is_minimized() -> None:
    model = _fit(RankBoost(n_estimators=40), early_stopping=EarlyStopping(measure="Disagreement"))
    assert model.best_iteration_ == 1 + int(np.argmin(model.validation_))


def test_the_eval_set_is_read_like_the_training_data() -> None:
    X, y, qid = TRAIN
    lists = RankBoost(early_stopping=5).fit(
        X, y, qid=qid, eval_set=[(VALID[0].tolist(), VALID[1].tolist())], eval_qid=[VALID[2]]
    )
    rows = sparse.csr_array(VALID[0])
    as_csr = RankBoost(early_stopping=5).fit(
        X, y, qid=qid, eval_set=(rows, VALID[1]), eval_qid=VALID[2]
    )
    np.testing.assert_array_equal(lists.validation_, as_csr.validation_)


@pytest.mark.parametrize(
    ("eval_set", "eval_qid", "words"),
    [
        ([VALID[:2], VALID[:2]], None, "one tuple .* got a list of 2 entries"),
        (VALID[0], None, "got ndarray"),
        ((VALID[0][:, :3], VALID[1]), VALID[2], "eval_set: X has 3 features"),
        ((VALID[0], VALID[1][1:]), VALID[2], "eval_set: .*inconsistent"),
        (VALID[:2], VALID[2][1:], "eval_qid has 79 entries"),
        ((VALID[0], ["bad", "good"] * 40), VALID[2], "y of eval_set holds 'bad'"),
        ((VALID[0], np.zeros(80)), VALID[2], "NDCG@10 is undefined on the 8 validation queries"),
        (None, VALID[2], "eval_qid was given without eval_set"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::rankwright.exceptions.DegenerateDataWarning")
def test_a_faulty_eval_set_is_refused(eval_set: Any, eval_qid: Any, words: str) -> None:
    with pytest.raises((ParameterError, DataError), match=words):
        RankBoost().fit(*TRAIN[:2], qid=TRAIN[2], eval_set=eval_set, eval_qid=eval_qid)


def test_an_eval_set_without_its_queries_is_one_list_and_a_warning() -> None:
    with pytest.warns(MissingQueryWarning, match="pass eval_qid"):
        RankBoost(n_estimators=2).fit(*TRAIN[:2], qid=TRAIN[2], eval_set=VALID[:2])


def test_where_there_are_no_queries_to_hold_out_an_eval_set_is_needed() -> None:
    X, y, _ = TRAIN
    with pytest.raises(ParameterError, match="training data are a single query"):
        RankBoost(early_stopping=True).fit(X, y)
    pairs = Pairs(np.flatnonzero(y == 0)[:20], np.flatnonzero(y == 2)[:20])
    with pytest.raises(ParameterError, match="training data are Pairs"):
        RankBoost(early_stopping=True).fit_feedback(X, pairs)
    model = RankBoost(early_stopping=5).fit_feedback(
        X, pairs, eval_set=VALID[:2], eval_qid=VALID[2]
    )
    assert model.best_iteration_ == 1 + int(np.argmax(model.validation_))
