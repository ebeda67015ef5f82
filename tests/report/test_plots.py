"""Charts for notebooks, and what stands behind them."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright import report
from rankwright.exceptions import ParameterError
from rankwright.report import charts
from rankwright.report.page import file_fingerprint
from rankwright.report.plots import (
    contribution_specs,
    contributions,
    importances,
    win_loss_spec,
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(120, 3)), np.repeat(np.arange(12), 10)
    y = np.clip(np.round(X[:, 0] + 1), 0, 3)
    return X, y, qid


def scores(X, y, qid):
    return {
        "good": rw.evaluate(X[:, 0], y, qid, "NDCG@10"),
        "weak": rw.evaluate(X[:, 1], y, qid, "NDCG@10"),
    }


def test_every_plot_is_an_altair_chart(data) -> None:
    altair = pytest.importorskip("altair")
    X, y, qid = data
    systems = scores(X, y, qid)
    model = rw.PRank().fit(X, y, qid=qid)
    charts = [
        report.plot_means(rw.compare(systems, n_resamples=100), "NDCG@10"),
        report.plot_per_query(systems),
        report.plot_win_loss(systems, "good", "weak"),
        report.plot_learning_curves({"one": [0.1, 0.2]}),
        report.plot_contributions(model, X),
        report.plot_thresholds(model, X, y),
        report.plot_calibration(rw.feedback.calibration([0.1, 0.4, 0.6], [0, 0, 1], 3)),
    ]
    assert all(isinstance(chart, altair.TopLevelMixin) for chart in charts)
    assert all(chart.to_dict() for chart in charts)
    vl_convert = pytest.importorskip("vl_convert")
    assert all(vl_convert.vegalite_to_svg(chart.to_dict()).startswith("<svg") for chart in charts)


def test_a_chart_in_a_notebook_says_what_the_page_says(data) -> None:
    """Values that are null on purpose (no stacking, no title) stay null."""
    pytest.importorskip("altair")
    X, y, qid = data
    model = rw.PRank().fit(X, y, qid=qid)
    area = report.plot_thresholds(model, X, y).to_dict()["layer"][0]
    assert area["encoding"]["y"]["stack"] is None
    assert (
        report.plot_contributions(model, X).to_dict()["config"]["axis"]["labelColor"] == "#808080"
    )


def test_thresholds_are_asked_of_ordinal_rankers_only(data) -> None:
    X, y, _ = data
    with pytest.raises(ParameterError, match="RidgeRanker has no thresholds"):
        report.plot_thresholds(rw.RidgeRanker().fit(X, y), X, y)


def test_wins_ties_and_losses_are_counted_by_query(data) -> None:
    X, y, qid = data
    systems = scores(X, y, qid)
    gain = systems["good"].per_query("NDCG@10") - systems["weak"].per_query("NDCG@10")
    _, (wins, ties, losses) = win_loss_spec(systems, "good", "weak", "NDCG@10")
    assert (wins, losses) == (int((gain > 1e-12).sum()), int((gain < -1e-12).sum()))
    assert wins + ties + losses == 12


def test_a_lower_loss_is_a_win(data) -> None:
    X, y, qid = data
    systems = {
        "good": rw.evaluate(X[:, 0], y, qid, "Disagreement"),
        "weak": rw.evaluate(X[:, 1], y, qid, "Disagreement"),
    }
    _, (wins, _, losses) = win_loss_spec(systems, "good", "weak", "Disagreement")
    assert wins > losses


def test_curves_of_a_linear_model_are_its_weights(data) -> None:
    X, _, _ = data
    model = rw.RidgeRanker(alpha=1e-9).fit(X, 2 * X[:, 0] - X[:, 2])
    found = contributions(model, X, ["a", "b", "c"], 2)
    assert [curve.name for curve in found] == ["a", "c"]
    slope = np.diff(found[0].y) / np.diff(found[0].x)
    assert slope == pytest.approx(np.full(len(slope), 2.0), rel=1e-3)


def test_features_that_change_nothing_have_no_curve(data) -> None:
    X, y, _ = data
    flat = np.column_stack([X[:, 0], np.ones(len(X))])
    model = rw.RidgeRanker().fit(flat, y)
    assert [curve.name for curve in contributions(model, flat)] == ["feature 1"]


def test_sparse_rows_and_gaps_have_curves_too(data) -> None:
    from scipy.sparse import csr_array

    X, y, qid = data
    gaps = X.copy()
    gaps[::7, 0] = np.nan
    assert contributions(rw.RankBoost(n_estimators=5).fit(gaps, y, qid=qid), gaps)
    rows = csr_array(np.where(np.abs(X) > 1, X, 0.0))
    assert contributions(rw.RidgeRanker().fit(rows, y), rows)


def test_long_lines_are_thinned_out_and_keep_their_ends() -> None:
    spec = charts.lines({"a": np.arange(10_000.0)}, "round", "value")
    rows = spec["data"]["values"]
    assert len(rows) <= charts.MAX_POINTS
    assert (rows[0]["x"], rows[-1]["x"]) == (1, 10_000)


def test_a_fingerprint_is_the_checksum_of_the_file(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    found = file_fingerprint(tmp_path / "a")
    assert found["sha256"].startswith("ba7816bf")
    assert file_fingerprint(tmp_path / "nothing") == {"path": str(tmp_path / "nothing")}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_contributions_of_a_data_frame_bear_its_names(data, library) -> None:
    frames = pytest.importorskip(library)
    X, y, qid = data
    frame = frames.DataFrame({name: X[:, k] for k, name in enumerate("abc")})
    curves = contributions(rw.RidgeRanker().fit(frame, y, qid=qid), frame)
    plain = contributions(rw.RidgeRanker().fit(X, y, qid=qid), X)
    assert curves[0].name == "a"
    np.testing.assert_array_equal(curves[0].y, plain[0].y)


def test_charts_of_systems_want_names(data) -> None:
    systems = scores(*data)
    for wrong in ({}, systems["good"], [systems["good"]]):
        with pytest.raises(ParameterError, match=r"\{name: scores\}"):
            report.plot_per_query(wrong)
    with pytest.raises(ParameterError, match="no system 'god'; there are good, weak"):
        report.plot_win_loss(systems, "god", "weak")


def test_a_step_function_is_drawn_as_steps_and_every_feature_has_an_importance() -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(200, 3)), 1)
    y = (X[:, 0] > 0).astype(int)
    boost = rw.RankBoost(n_estimators=5).fit(X, y)
    curve = contributions(boost, X, ["a", "b", "c"], 1)[0]
    assert curve.is_step
    assert set(curve.x[1:-1]) <= set(boost.threshold_)
    marks = [spec["mark"] for spec in contribution_specs([curve])]
    assert [mark["interpolate"] for mark in marks] == ["step-before"]
    line = contributions(rw.RidgeRanker().fit(X, y), X, ["a", "b", "c"], 1)[0]
    assert "interpolate" not in contribution_specs([line])[0]["mark"]
    what, found = importances(boost, X, ["a", "b", "c"])
    assert what == "share of the gain in training"
    assert list(found) == sorted(found, key=lambda name: -found[name])
    assert set(found) == {"a", "b", "c"}
    assert importances(rw.RidgeRanker().fit(X, y), X)[0] == "span of the curve"
