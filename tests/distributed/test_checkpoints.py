"""Fits on an engine that are interrupted and go on: the same bytes as without."""

from __future__ import annotations

import numpy as np
import pytest

import rankwright as rw
from rankwright.exceptions import ClusterError, ParameterError
from rankwright.persist import Checkpoint

pytestmark = [
    pytest.mark.filterwarnings("ignore::rankwright.exceptions.ClusterWarning"),
    pytest.mark.usefixtures("patience"),
]

PARAMETERS = [
    {},
    {"subsample": 0.5, "colsample_bytree": 0.6, "tree": "leafwise"},
    {"early_stopping": 4},
]


class Interrupted(Exception):
    pass


def ranker(**parameters):
    given = {"n_estimators": 30, "min_samples_leaf": 5, "random_state": 1} | parameters
    return rw.LambdaMART(**given)


def interrupt_at(number):
    def after(round_):
        if round_.number == number:
            raise Interrupted

    return [after]


def fit(model, judged, **rows):
    if model.early_stopping:
        rows |= {"eval_set": (judged.X[:200], judged.y[:200]), "eval_qid": judged.qid[:200]}
    return model.fit(judged.X, judged.y, qid=judged.qid, **rows)


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("number", [3, 11])
def test_an_interrupted_fit_goes_on_with_the_same_bytes(
    parameters, number, judged, model_bytes, tmp_path, client
):
    expected = model_bytes(fit(ranker(**parameters), judged))
    seen = []
    with rw.engine(client, checkpoint=Checkpoint(tmp_path / "work")):
        with pytest.raises(Interrupted):
            fit(ranker(callbacks=interrupt_at(number), **parameters), judged)
        fit(ranker(callbacks=[lambda r: seen.append(r.number)], **parameters), judged)
    assert seen[0] > 1  # trees before were not grown again
    order = np.random.default_rng(0).permutation(len(judged.y))
    shuffled = rw.Items(judged.X[order], judged.y[order], judged.qid[order])
    rows = {"eval_set": (judged.X[:200], judged.y[:200]), "eval_qid": judged.qid[:200]}
    with rw.engine("local:2", checkpoint=Checkpoint(tmp_path / "work")):  # finished already
        model = ranker(callbacks=interrupt_at(1), **parameters)
        model.fit(
            shuffled.X, shuffled.y, qid=shuffled.qid, **(rows if model.early_stopping else {})
        )
    assert model_bytes(model.set_params(callbacks=None)) == expected


def test_trees_on_top_of_others_go_on_too(judged, model_bytes, tmp_path):
    def more(model):
        return model.fit_more(12, judged.X, judged.y, qid=judged.qid)

    expected = model_bytes(more(fit(ranker(n_estimators=4), judged)))
    first = fit(ranker(n_estimators=4, callbacks=interrupt_at(10)), judged)
    with rw.engine("local:2", checkpoint=Checkpoint(tmp_path)):
        with pytest.raises(Interrupted):
            more(first)
        assert model_bytes(more(fit_here(ranker(n_estimators=4), judged))) == expected


def fit_here(model, judged):
    from rankwright.runtime import active_engine

    with active_engine(None):
        return fit(model, judged)


def test_a_ranker_without_rounds_is_kept_when_it_is_finished(judged, model_bytes, tmp_path):
    X = np.nan_to_num(judged.X)
    with rw.engine("local:2", checkpoint=Checkpoint(tmp_path)):
        models = [rw.RidgeRanker().fit(X, judged.y, qid=judged.qid) for _ in range(2)]
    assert model_bytes(models[0]) == model_bytes(models[1])
    assert len(list(tmp_path.glob("*.rw"))) == 1


def test_other_rows_or_parameters_are_refused(judged, tmp_path):
    checkpoint = Checkpoint(tmp_path)
    with rw.engine("local:2", checkpoint=checkpoint):
        fit(ranker(n_estimators=2), judged)
        with pytest.raises(ParameterError, match="different data"):
            fit(ranker(n_estimators=3), judged)
        for name in ("X", "y", "qid"):
            fields = {"X": judged.X, "y": judged.y, "qid": judged.qid}
            fields[name] = fields[name].copy()
            fields[name][7] = 3
            with pytest.raises(ParameterError, match="different data"):
                fit(ranker(n_estimators=2), rw.Items(**fields))
        with pytest.raises(ParameterError) as error:
            fit(ranker(random_state=None), judged)
        assert error.value.parameter == "random_state"
    checkpoint.remove()
    assert not tmp_path.exists()


@pytest.mark.parametrize("where", [("--cluster", "local:2"), ("--memory", "64MB")])
def test_train_resumes_at_the_shell(where, judged, tmp_path, monkeypatch):
    from rankwright.cli.app import main

    def run(*words):
        monkeypatch.setattr("sys.argv", ["rankwright", *map(str, words)])
        try:
            main()
        except SystemExit as ending:
            return ending.code or 0
        return 0

    rw.data.write_items(judged, tmp_path / "a.csv")
    sets = ("--set", "n_estimators=20", "--set", "min_samples_leaf=5")
    words = ("train", tmp_path / "a.csv", *where, *sets)
    assert run(*words, "-o", tmp_path / "expected.rw") == 0
    work, rounds = tmp_path / "work", rw.LambdaMART._rounds

    def killed(self, grow, add, draws, n_known, *others):
        def grow_some(number):
            if number == 9:
                raise KeyboardInterrupt
            return grow(number)

        return rounds(self, grow_some, add, draws, n_known, *others)

    with monkeypatch.context() as patch:
        patch.setattr(rw.LambdaMART, "_rounds", killed)
        assert run(*words, "--checkpoint", work, "-o", tmp_path / "model.rw") != 0
    assert list(work.glob("*.rw"))
    assert run(*words, "--checkpoint", work, "-o", tmp_path / "model.rw") == 0
    assert rw.model_digest(tmp_path / "model.rw") == rw.model_digest(tmp_path / "expected.rw")
    assert not work.exists()


def test_workers_of_another_version_are_refused(judged, tmp_path):
    distributed = pytest.importorskip("distributed")
    other = tmp_path / "numba-0.0.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.0.1\n")
    quiet = {"dashboard_address": ":0", "silence_logs": 50, "threads_per_worker": 1}
    quiet |= {"n_workers": 1, "processes": True}
    with distributed.LocalCluster(**quiet) as cluster, distributed.Client(cluster) as client:
        client.run(exec, f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
        with rw.engine(client), pytest.raises(ClusterError, match=r"numba 0\.0\.1") as error:
            fit(ranker(), judged)
        assert error.value.kind == "version"
        assert not any(client.processing().values())


def test_a_worker_that_ends_while_versions_are_compared_is_no_fault(judged, client, monkeypatch):
    """Its answer is an error of the connection; the others go on."""
    run, left = client.run, [1]

    def run_or_not(function, *arguments, **options):
        found = run(function, *arguments, **options)
        if left[0]:
            left[0] = 0
            found[min(found)] = OSError("connection reset")
        return found

    monkeypatch.setattr(client, "run", run_or_not)
    with rw.engine(client):
        fit(ranker(n_estimators=2), judged)
    assert left == [0]
    monkeypatch.setattr("rankwright.distributed.engines.PATIENCE", 0.1)
    monkeypatch.setattr(client, "run", lambda *_, workers, **__: {workers[0]: OSError("reset")})
    with rw.engine(client), pytest.raises(ClusterError, match="does not answer"):
        fit(ranker(n_estimators=2), judged)
