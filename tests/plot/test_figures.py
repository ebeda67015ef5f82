"""Charts for notebooks, and what stands behind them."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright import plot
from rankwright.exceptions import ParameterError
from rankwright.plot import charts
from rankwright.plot.dependence import contributions, importances
from rankwright.plot.figures import effect_specs, win_loss_spec
from rankwright.report.page import file_fingerprint


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
        plot.means(rw.compare(systems, n_resamples=100), "NDCG@10"),
        plot.per_query(systems),
        plot.win_loss(systems, "good", "weak"),
        plot.learning_curves({"one": [0.1, 0.2]}),
        plot.effects(model, X),
        plot.grades(model, X, y),
        plot.calibration(rw.feedback.calibration([0.1, 0.4, 0.6], [0, 0, 1], 3)),
        plot.importance(model, X),
        plot.position_bias([1.0, 0.5]),
        plot.position_bias({"shuffle": [1.0, 0.5], "harvest": [1.0, 0.6]}),
        plot.agreement({"ann": {1: 2, 2: 0}, "bob": {1: 2, 2: 1}}),
        plot.pareto({"a": (1.0, 0.7), "b": (2.0, 0.8)}),
    ]
    assert all(isinstance(chart, altair.TopLevelMixin) for chart in charts)
    assert all(chart.to_dict() for chart in charts)
    vl_convert = pytest.importorskip("vl_convert")
    assert all(vl_convert.vegalite_to_svg(chart.to_dict()).startswith("<svg") for chart in charts)


def test_a_notebook_shows_charts_without_a_network(data) -> None:
    altair = pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    X, y, qid = data
    model = rw.PRank().fit(X, y, qid=qid)
    for chart in (plot.effects(model, X), plot.importance(model, X)):
        shown = chart._repr_mimebundle_()
        assert "text/html" not in shown  # Altair's loads scripts
        assert shown["image/svg+xml"].startswith("<svg")
        assert [kind for kind in shown if "vegalite" in kind]
        with altair.renderers.enable("mimetype"):
            assert "image/svg+xml" not in chart._repr_mimebundle_()
        wider = chart.properties(title="mine")
        assert "mine" in wider._repr_mimebundle_()["image/svg+xml"]


def test_a_chart_in_a_notebook_says_what_the_page_says(data) -> None:
    """Values that are null on purpose (no stacking, no title) stay null."""
    pytest.importorskip("altair")
    X, y, qid = data
    model = rw.PRank().fit(X, y, qid=qid)
    area = plot.grades(model, X, y).to_dict()["layer"][0]
    assert area["encoding"]["y"]["stack"] is None
    assert plot.effects(model, X).to_dict()["config"]["axis"]["labelColor"] == "#1f2328"


def rows_of(chart):
    return next(iter(chart.to_dict()["datasets"].values()))


def test_grades_show_thresholds_where_a_ranker_has_them(data) -> None:
    X, y, _ = data
    for model, n in ((rw.RidgeRanker(), 0), (rw.PRank(), len(np.unique(y)) - 1)):
        rules = plot.grades(model.fit(X, y), X, y).to_dict()["layer"][1]
        assert len(rules["data"]["values"]) == n


def test_learning_curves_take_models(data) -> None:
    X, y, qid = data
    model = rw.RankBoost(n_estimators=5, early_stopping=5)
    model.fit(X, y, qid=qid, eval_set=(X, y), eval_qid=qid)
    chart = plot.learning_curves([model, model])
    assert {row["name"] for row in rows_of(chart)} == {"RankBoost 1", "RankBoost 2"}
    with pytest.raises(ParameterError, match="eval_set="):
        plot.learning_curves(rw.RankBoost(n_estimators=2).fit(X, y, qid=qid))


def test_win_loss_says_which_system_is_which(data) -> None:
    spec = plot.win_loss(scores(*data)).to_dict()
    assert spec["title"].startswith("good is better on ")
    assert spec["encoding"]["y"]["title"].endswith("good minus weak")


def test_an_explanation_sums_to_the_difference_of_the_scores(data) -> None:
    X, y, qid = data
    model = rw.RankBoost(n_estimators=8).fit(X, y, qid=qid)
    found = model.explain(X[0], X[1])
    shown = sum(row["value"] for row in rows_of(plot.explain(found, n=100)))
    assert shown == pytest.approx(found.difference)
    with pytest.raises(ParameterError, match="explain"):
        plot.explain(model)


def test_agreement_takes_judgments_and_grades_by_judge() -> None:
    judgments = rw.data.Judgments([1], [7, 9, 8], [0] * 3, [0, 1, 2], [[0, 0], [2, 2], [1, 2]])
    by_judge = {"judge 1": {0: 0, 1: 2, 2: 1}, "judge 2": {0: 0, 1: 2, 2: 2}}
    assert rows_of(plot.agreement(judgments)) == rows_of(plot.agreement(by_judge))
    with pytest.raises(ParameterError, match="no two judges"):
        plot.agreement({"ann": {1: 2}, "bob": {2: 0}})


def test_pareto_joins_the_candidates_that_no_other_one_beats(data) -> None:
    X, y, qid = data
    auto = rw.AutoRanker([("ridge", rw.RidgeRanker()), ("PRank", rw.PRank())], measure="AP")
    chart = plot.pareto(auto.fit(X, y, qid=qid))
    rows = rows_of(chart)
    assert {row["name"] for row in rows} == {"ridge", "PRank", "ensemble"}
    assert any(row["best"] for row in rows)
    assert chart.to_dict()["encoding"]["y"]["title"] == "AP"


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
            plot.per_query(wrong)
    with pytest.raises(ParameterError, match="no system 'god'; there are good, weak"):
        plot.win_loss(systems, "god", "weak")


def test_a_step_function_is_drawn_as_steps_and_every_feature_has_an_importance() -> None:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(200, 3)), 1)
    y = (X[:, 0] > 0).astype(int)
    boost = rw.RankBoost(n_estimators=5).fit(X, y)
    curve = contributions(boost, X, ["a", "b", "c"], 1)[0]
    assert curve.is_step
    assert set(curve.x[1:-1]) <= set(boost.threshold_)
    marks = [spec["mark"] for spec in effect_specs([curve])]
    assert [mark["interpolate"] for mark in marks] == ["step-before"]
    line = contributions(rw.RidgeRanker().fit(X, y), X, ["a", "b", "c"], 1)[0]
    assert "interpolate" not in effect_specs([line])[0]["mark"]
    what, found = importances(boost, X, ["a", "b", "c"])
    assert what == "share of the gain in training"
    assert list(found) == sorted(found, key=lambda name: -found[name])
    assert set(found) == {"a", "b", "c"}
    assert importances(rw.RidgeRanker().fit(X, y), X)[0] == "span of the curve"
