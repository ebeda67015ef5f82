"""From raw text to a ranker at a shell: documents, queries and judgments in files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rankwright as rw
from rankwright.data.io.collection import read_documents, read_judgments, read_queries
from rankwright.exceptions import DataError

TOPICS = (("running", "shoe", "marathon"), ("red", "wine", "grape"), ("bike", "wheel", "helmet"))
FILES = ("--documents", "docs.jsonl", "--queries", "queries.csv")


@pytest.fixture
def collection(tmp_path):
    """Documents about three topics; those of the query's topic are relevant."""
    rng = np.random.default_rng(0)
    documents, judgments, queries = [], ["query,document,grade"], []
    for k in range(60):
        words = [*TOPICS[k % 3], "the", "a", "good", "for"]
        title, body = (" ".join(rng.choice(words, n)) for n in (4, 30))
        documents.append({"id": f"d{k}", "title": title, "body": body, "price": k % 7})
    del documents[5]["body"]
    for q in range(20):
        queries.append(f"q{q}\t{' '.join(rng.choice(TOPICS[q % 3], 2, replace=False))}")
        chosen = rng.permutation(60)[:10].tolist()
        judgments += [f"q{q},d{k},{int(k % 3 == q % 3)}" for k in chosen]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (tmp_path / "queries.csv").write_text("\n".join(queries))
    (tmp_path / "judgments.csv").write_text("\n".join(judgments))
    return tmp_path


def test_every_verb_computes_the_features_of_training(shell, collection):
    ranker = ("--ranker", "LambdaMART", "--set", "n_estimators=10")
    trained = shell("train", "judgments.csv", *FILES, *ranker, "-o", "text.rw", "--json")
    assert json.loads(trained.stdout)["model"] == "text.rw"
    values = shell("evaluate", "text.rw", "judgments.csv", *FILES, "--json")
    assert json.loads(values.stdout)["measures"]["NDCG@10"] > 0.9
    printed = shell("predict", "text.rw", "judgments.csv", *FILES).stdout
    pairs = read_judgments(collection / "judgments.csv")
    documents = read_documents(collection / "docs.jsonl")
    queries = read_queries(collection / "queries.csv")
    rows = pairs.joined(documents, queries)
    scorer = rw.load_scorer(collection / "text.rw")
    expected = scorer.decision_function(rows, qid=pairs.query)
    assert [float(line) for line in printed.splitlines()] == expected.tolist()
    ranked = shell("rank", "text.rw", "judgments.csv", *FILES, "--cutoff", "1").stdout
    assert len(ranked.splitlines()) == 20
    explained = shell("explain", "text.rw", "judgments.csv", *FILES, "--query", "q3", "--json")
    items = json.loads(explained.stdout)["items"]
    assert [item["rank"] for item in items] == [1, 2, 3]
    assert "bm25_title" in items[0]["contributions"]
    about = json.loads(shell("info", "text.rw", "--json").stdout)
    assert about["feature_set"]["bm25_title"] == "BM25"
    assert about["vocabulary"]["title"] == 13


def test_a_specification_declares_the_features(shell, collection):
    spec = '[tokenizer]\nstop_words = ["the", "a"]\n'
    spec += '[[features]]\nkind = "BM25"\nfield = "title"\n'
    spec += '[[features]]\nkind = "WithinQuery"\nfeature = {kind = "Column", field = "price"}\n'
    (collection / "features.toml").write_text(spec)
    ranker = ("--ranker", "RankSVM", "--feature-spec", "features.toml")
    shell("train", "judgments.csv", *FILES, *ranker, "-o", "text.rw")
    scorer = rw.load_scorer(collection / "text.rw")
    assert scorer.feature_names == ("bm25_title", "price_rank")
    assert scorer.encoding.declared.tokenizer.stop_words == ("the", "a")


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--queries", "queries.csv"), "--documents", 2),
        (("--feature-spec", "features.toml"), "--documents", 2),
        ((*FILES, "--clicks"), "--clicks", 2),
        ((*FILES, "--feature-spec", "nowhere.toml"), "nowhere.toml", 5),
        (("--documents", "twice.jsonl"), "same id", 3),
        (("--documents", "few.jsonl", "--queries", "queries.csv"), "which is not among", 3),
        (("--documents", "docs.jsonl", "--queries", "fewer.csv"), "which is not among", 3),
    ],
)
def test_wrong_files_are_named(shell, collection, words, said, code):
    one = '{"id": "d1", "title": "a"}\n'
    (collection / "twice.jsonl").write_text(one * 2)
    (collection / "few.jsonl").write_text(one)
    (collection / "fewer.csv").write_text("q0\ttext\n")
    (collection / "features.toml").write_text("")
    done = shell("train", "judgments.csv", *words, code=code)
    assert said in done.stderr


def test_a_model_without_a_feature_set_refuses_documents(shell, collection):
    rw.save(rw.RidgeRanker().fit([[0.0], [1.0]], [0, 1]), collection / "plain.rw")
    done = shell("predict", "plain.rw", "judgments.csv", *FILES, code=3)
    assert "no feature set" in done.stderr


@pytest.mark.parametrize("verb", ["evaluate", "predict", "rank", "explain"])
def test_a_model_of_texts_asks_for_the_documents(shell, collection, verb):
    shell("train", "judgments.csv", *FILES, "--ranker", "RidgeRanker", "-o", "text.rw")
    done = shell(verb, "text.rw", "judgments.csv", code=3)
    assert "--documents" in done.stderr


def test_queries_are_lines_or_tables(tmp_path):
    expected = {"1": {"text": "red shoe"}, "2": {"text": "wine"}}
    forms = {
        "a.tsv": "1\tred shoe\n2\twine\n",
        "b.csv": "id,text\n1,red shoe\n2,wine\n",
        "c.jsonl": '{"id": 1, "text": "red shoe"}\n{"id": 2, "text": "wine"}\n',
        "d.tsv": "qid\tquery\n1\tred shoe\n2\twine\n",
    }
    for name, content in forms.items():
        (tmp_path / name).write_text(content)
        assert read_queries(tmp_path / name) == expected
    (tmp_path / "bad.tsv").write_text("1\ta\nno tab\n")
    with pytest.raises(DataError):
        read_queries(tmp_path / "bad.tsv")


def test_judgments_are_tables_or_qrels(tmp_path):
    (tmp_path / "a.csv").write_text("query,document,grade\nq,1,2\nq,2,0\n")
    (tmp_path / "b.qrels").write_text("q 0 1 2\nq 0 2 0\n")
    for name in ("a.csv", "b.qrels"):
        pairs = read_judgments(tmp_path / name)
        assert (pairs.query, pairs.document) == (["q", "q"], ["1", "2"])
        assert pairs.grade.tolist() == [2.0, 0.0]
    (tmp_path / "c.csv").write_text("query,document,grade\nq,1,good\n")
    with pytest.raises(DataError, match="'good'"):
        read_judgments(tmp_path / "c.csv")
