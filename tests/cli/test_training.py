"""``train`` at a shell: parameters of trees, nonsense, checkpoints and what to do next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rankwright as rw

TRAIN = ("train", "$F/train.txt")
TREES = ("--ranker", "lambdamart", "--set", "n_estimators=4")


def test_every_parameter_of_a_tree_is_set_at_the_shell(shell) -> None:
    shell(*TRAIN, *TREES, "--set", "learning_rate=.05", "--set", "max_leaf_nodes=3", "-o", "a.rw")
    model = rw.load("a.rw")
    assert (model.learning_rate, model.max_leaf_nodes, len(model.alpha_)) == (0.05, 3, 4)
    boost = ("--ranker", "rankboost", "--set", "n_estimators=3", "--set", "estimator=tree:4")
    shell(*TRAIN, *boost, "--set", "learning_rate=.5", "-o", "b.rw")
    assert rw.load("b.rw").estimator.get_params()["learning_rate"] == 0.5
    shell(*TRAIN, *boost, "--set", "estimator__min_samples_leaf=5", "-o", "c.rw")
    tree = rw.load("c.rw").estimator
    assert (tree.max_leaf_nodes, tree.min_samples_leaf) == (4, 5)


@pytest.mark.parametrize(
    "setting, said",
    [
        ("weak=treehouse", "RankBoost has no parameter 'weak'. It has"),
        ("estimator=treehouse", "estimator must be 'threshold' or 'value'"),
        ("estimator=tree:-3", "tree:-3: write tree, or tree:LEAVES"),
        ("estimator=tree:1", "tree:1: write tree, or tree:LEAVES"),
        ("max_leaf_nodes=4", "RankBoost has no parameter 'max_leaf_nodes'. It has"),
        ("n_estimators=many", "n_estimators must be an integer"),
    ],
)
def test_nonsense_is_refused_with_what_is_valid(shell, setting: str, said: str) -> None:
    done = shell(*TRAIN, "--ranker", "rankboost", "--set", setting, code=2)
    assert said in done.stderr
    assert not Path("model.rw").exists()


def test_nonsense_inside_a_tree_is_refused(shell) -> None:
    boost = ("--ranker", "rankboost", "--set", "estimator=tree")
    done = shell(*TRAIN, *boost, "--set", "learning_rate=7", code=2)
    assert "learning_rate must be a number from" in done.stderr
    assert "'bushes'" in shell(*TRAIN, *boost, "--set", "bushes=7", code=2).stderr


def test_a_checkpoint_is_refused_for_other_parameters_and_removed_at_the_end(
    shell, tmp_path
) -> None:
    from rankwright.persist import Checkpoint

    other = Checkpoint(tmp_path / "work")
    other.open("another training")
    done = shell(*TRAIN, *TREES, "--checkpoint", "work", code=2)
    assert "different data, parameters or version" in done.stderr
    other.remove()
    shell(*TRAIN, *TREES, "--checkpoint", "work", "-o", "a.rw")
    shell(*TRAIN, *TREES, "-o", "b.rw")
    assert not (tmp_path / "work").exists()
    assert rw.model_digest("a.rw") == rw.model_digest("b.rw")


def test_the_data_that_chose_are_never_the_next_to_evaluate(shell) -> None:
    done = shell(*TRAIN, *TREES, "--valid", "$F/test.txt")
    assert "evaluate model.rw TEST-DATA" in done.stdout
    assert "evaluate model.rw $F" not in done.stdout
    result = json.loads(shell(*TRAIN, *TREES, "--json").stdout)
    assert result["not_tried"] == {}
