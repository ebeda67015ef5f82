"""FeatureSet: features of queries and documents, in Python, in model files and in TOML."""

from __future__ import annotations

import itertools
import subprocess
import sys
from functools import reduce

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwright as rw
from rankwright.data.behavior.impressions import ImpressionLog
from rankwright.exceptions import CellError, DataError, ModelFileError, ParameterError
from rankwright.features import (
    BM25,
    BM25F,
    Age,
    Bucket,
    ClickPopularity,
    Column,
    Cosine,
    Count,
    Dot,
    EditSimilarity,
    ExactMatch,
    FeatureSet,
    FieldLength,
    IDFSum,
    LogOf,
    NGrams,
    Phrase,
    Prefix,
    Proximity,
    Rate,
    Ratio,
    Recency,
    TermCoverage,
    Tokenizer,
    WithinQuery,
)
from rankwright.features.declaration import CLASSES
from rankwright.features.fitted import FittedFeatures
from rankwright.features.text_features import edit_distance
from rankwright.features.tokenizer import _stemmer

DAY = 86400.0
EVERY = [
    *(BM25("title"), BM25("body", k1=2.0, b=0.3), BM25F(("title", "body"), weights=(3.0, 1.0))),
    *(TermCoverage("title"), IDFSum("body"), Phrase("body"), Proximity("body")),
    *(ExactMatch("title"), Prefix("title"), EditSimilarity("title"), FieldLength("body")),
    *(NGrams("title", 2), Cosine("vector"), Dot("vector"), Age("published")),
    *(Recency("published", half_life=10.0, at="time"), Rate("clicks", "views"), Count()),
    *(ClickPopularity(), Column("price"), Column("color"), LogOf("views")),
    *(Ratio("clicks", "views"), Bucket("price")),
    WithinQuery(BM25("title"), "rank"),
    WithinQuery(Column("price"), "z"),
    WithinQuery(BM25("body"), "share_of_best"),
]


def make_rows(n_queries=12, n_documents=15, seed=0):
    """Documents of a Zipf-like vocabulary, each ranked for several queries."""
    rng = np.random.default_rng(seed)
    words = [f"w{k}" for k in range(60)]
    weight = 1 / np.arange(1, 61)
    draw = lambda n: " ".join(rng.choice(words, n, p=weight / weight.sum()))  # noqa: E731
    documents = [
        {
            "id": f"d{k}",
            "title": draw(4) if k % 7 else None,
            "body": draw(30),
            "price": float(rng.integers(1, 50)) if k % 5 else None,
            "color": str(rng.choice(["red", "blue"])),
            "views": int(rng.integers(5, 100)),
            "clicks": int(rng.integers(0, 5)),
            "published": f"2024-05-{rng.integers(1, 29):02d}",
            "vector": rng.normal(size=3).tolist() if k % 6 else None,
        }
        for k in range(n_documents)
    ]
    rows = []
    for q in range(n_queries):
        query = {"query": draw(3), "query.time": "2024-06-01T12:00:00Z"}
        query["query.vector"] = rng.normal(size=3).tolist()
        chosen = rng.permutation(n_documents)[:10]
        rows += [{"qid": q, **query, **documents[k]} for k in chosen]
    names = rng.choice([d["id"] for d in documents], 200)
    days = 19_850 + rng.integers(0, 30, 200)
    log = ImpressionLog.from_arrays(
        ["q"] * 200, names, rng.integers(0, 2, 200), time=days * DAY, session=np.arange(200)
    )
    y = rng.integers(0, 3, len(rows))
    return rows, y, [row["qid"] for row in rows], documents, log


@pytest.fixture(scope="module")
def data():
    return make_rows()


@pytest.fixture(scope="module")
def model(data):
    rows, y, qid, documents, log = data
    ranker = rw.LambdaMART(n_estimators=8, min_samples_leaf=3, random_state=0)
    pipeline = rw.RankPipeline([("features", FeatureSet(EVERY)), ("rank", ranker)])
    return pipeline.fit(rows, y, qid=qid, documents=documents, log=log)


def test_every_class_is_tried():
    used = {type(feature).__name__ for feature in EVERY}
    assert used == set(CLASSES)


def test_a_file_and_its_scorer_give_the_bits_of_training(model, data, tmp_path):
    rows, _, qid, *_ = data
    expected = model.decision_function(rows, qid=qid)
    assert len(np.unique(expected)) > 50
    rw.save(model, tmp_path / "model.rw")
    for loaded in (rw.load(tmp_path / "model.rw"), rw.load_scorer(tmp_path / "model.rw")):
        np.testing.assert_array_equal(loaded.decision_function(rows, qid=qid), expected)
    again = rw.load(tmp_path / "model.rw")
    assert rw.model_digest(again) == rw.model_digest(model)
    assert again[0].features == EVERY
    matrix = model[0].transform(rows, qid=qid)
    np.testing.assert_array_equal(again[0].transform(rows, qid=qid), matrix)


def test_a_query_alone_has_the_features_it_has_among_others(model, data):
    rows, _, qid, *_ = data
    matrix = model[0].transform(rows, qid=qid)
    for query in set(qid):
        of_query = [k for k, q in enumerate(qid) if q == query]
        alone = model[0].transform([rows[k] for k in of_query])
        np.testing.assert_array_equal(alone, matrix[of_query])


def test_columns_of_any_library_and_any_order_are_the_same_rows(model, data):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows, _, qid, *_ = data
    expected = model[0].transform(rows, qid=qid)
    columns = {name: [row[name] for row in rows] for name in reversed(rows[0])}
    columns["query.text"] = columns.pop("query")
    for X in (columns, pd.DataFrame(columns), pl.DataFrame(columns, strict=False)):
        np.testing.assert_array_equal(model[0].transform(X, qid=qid), expected)


def test_scoring_needs_numpy_only(model, data, tmp_path):
    rows, _, qid, *_ = data
    rw.save(model, tmp_path / "model.rw")
    (tmp_path / "rows.json").write_bytes(msgspec.json.encode([rows, qid]))
    code = """
import sys, json
for name in ("sklearn", "scipy", "numba", "snowballstemmer", "bm25s", "narwhals"):
    sys.modules[name] = None
import rankwright as rw
rows, qid = json.load(open("rows.json"))
print(rw.load_scorer("model.rw").decision_function(rows, qid=qid).tolist())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert msgspec.json.decode(done.stdout) == model.decision_function(rows, qid=qid).tolist()


@pytest.mark.parametrize("stemmer", [None, "english"])
@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.5, 0.0), (2.0, 1.0)])
def test_bm25_is_that_of_bm25s(stemmer, k1, b, data):
    bm25s = pytest.importorskip("bm25s")
    if stemmer:
        pytest.importorskip("snowballstemmer")
    rows, _, _, documents, _ = data
    tokenizer = Tokenizer(stemmer=stemmer)
    index = bm25s.BM25(method="lucene", k1=k1, b=b, dtype="float64")
    index.index([tokenizer.words(d["body"]) for d in documents], show_progress=False)
    features = FeatureSet([BM25("body", k1=k1, b=b)], tokenizer=tokenizer)
    features.fit(rows, documents=documents)
    for query in {row["query"] for row in rows}:
        words = list(dict.fromkeys(tokenizer.words(query)))
        expected = index.get_scores(words)
        ours = features.transform([{"query": " ".join(words), **d} for d in documents])[:, 0]
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)
        assert ours.max() > 0


WORDS = st.lists(st.sampled_from("abcde"), max_size=12)


@given(st.lists(st.sampled_from("abcde"), min_size=2, max_size=4), st.lists(WORDS, max_size=5))
def test_matches_equal_a_plain_twin(query, fields):
    rows = {"query": [" ".join(query)] * len(fields), "body": [" ".join(f) for f in fields]}
    names = [Phrase("body"), Proximity("body"), TermCoverage("body"), ExactMatch("body")]
    if not fields:
        rows = {"query": [" ".join(query)], "body": [""]}
        fields = [[]]
    values = FeatureSet(names).fit_transform(rows)
    pairs = {(a, b) for a, b in itertools.pairwise(query) if a != b}
    for row, words in enumerate(fields):
        coverage = len(set(query) & set(words)) / len(set(query))
        single = float(bool(set(query) & set(words)))
        adjacent = [(a, b) in set(itertools.pairwise(words)) for a, b in pairs]
        near = [closeness(words, a, b) for a, b in pairs]
        phrase = sum(adjacent) / len(pairs) if pairs else single
        proximity = sum(near) / len(pairs) if pairs else single
        exact = float(words == query)
        np.testing.assert_allclose(values[row], [phrase, proximity, coverage, exact])


def closeness(words, a, b):
    places = {w: [k for k, word in enumerate(words) if word == w] for w in (a, b)}
    gaps = [abs(i - j) for i in places[a] for j in places[b]]
    return 1 / min(gaps) if gaps else 0.0


@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_the_edit_distance_is_that_of_the_table(one, other):
    def step(above, letter):
        row = [above[0] + 1]
        for k, b in enumerate(other):
            row.append(min(above[k] + (letter != b), above[k + 1] + 1, row[k] + 1))
        return row

    assert edit_distance(one, other) == reduce(step, one, list(range(len(other) + 1)))[-1]


def test_statistics_come_from_documents_or_from_the_different_rows():
    rows = {"query": ["red"] * 3, "id": [1, 1, 2], "title": ["red", "red", "blue"]}
    by_rows = FeatureSet([BM25("title")]).fit(rows)
    statistics = by_rows.encoding_.knowledge.texts["title"]
    assert (statistics.n_documents, statistics.document_frequency("red")) == (2, 1.0)
    documents = {"id": range(9), "title": ["red"] * 8 + [None]}
    by_documents = FeatureSet([BM25("title")]).fit(rows, documents=documents)
    statistics = by_documents.encoding_.knowledge.texts["title"]
    assert (statistics.n_documents, statistics.document_frequency("red")) == (9, 8.0)


def test_the_vocabulary_is_bounded_and_rare_terms_share_their_mean(tmp_path):
    words = [f"rare{k}" for k in range(5000)]
    texts = ["common " + " ".join(words[k : k + 50]) for k in range(0, 5000, 25)]
    rows = {"query": ["common rare7"] * len(texts), "body": texts}
    small = FeatureSet([BM25("body")], max_terms=100).fit(rows)
    whole = FeatureSet([BM25("body")]).fit(rows)
    kept = small.encoding_.knowledge.texts["body"]
    assert (len(kept.terms), kept.n_terms) == (100, 5001)
    assert kept.document_frequency("common") == len(texts)
    assert 1 < kept.rare < 2.1
    difference = np.abs(small.transform(rows) - whole.transform(rows)).max()
    assert 0 <= difference < 0.5


def test_clicks_of_the_future_are_not_counted():
    log = ImpressionLog.from_arrays(
        ["q"] * 3, ["a"] * 3, [1, 1, 1], time=[10 * DAY, 20 * DAY, 20.5 * DAY], session=[1, 2, 3]
    )
    times = ["1970-01-11", "1970-01-12", "1970-01-21T23:00:00Z", "1970-01-22"]
    rows = {"id": ["a"] * 4, "query.time": times}
    counts = FeatureSet([Count("clicks")]).fit(rows, log=log).transform(rows)[:, 0]
    np.testing.assert_allclose(np.expm1(counts), [0, 1, 1, 3])


def test_leaks_are_refused(data):
    rows, y, _, _, log = data
    planted = [{**row, "judgment": int(grade)} for row, grade in zip(rows, y, strict=True)]
    with pytest.raises(DataError, match="the grade itself"):
        FeatureSet([Column("judgment")]).fit(planted, y)
    with pytest.raises(DataError, match="came after"):
        FeatureSet([ClickPopularity(at=None)]).fit(rows, log=log)
    past = FeatureSet([ClickPopularity(at=None)]).fit(rows, log=log, up_to="2024-05-10")
    assert past.encoding_.knowledge.log.total[0] < len(log.item)
    untimed = ImpressionLog.from_arrays(["q"], ["a"], [1])
    with pytest.raises(DataError, match="no times"):
        FeatureSet([Count()]).fit(rows, log=untimed)


def test_grades_change_no_feature(data):
    rows, y, qid, documents, log = data
    matrices = [
        FeatureSet(EVERY).fit(rows, grades, documents=documents, log=log).transform(rows, qid)
        for grades in (y, 2 - y, None)
    ]
    for other in matrices[1:]:
        np.testing.assert_array_equal(matrices[0], other)


def test_a_declaration_survives_toml(tmp_path):
    features = FeatureSet(EVERY, tokenizer=Tokenizer(stop_words=("the", 'a"b')), max_terms=50)
    (tmp_path / "features.toml").write_text(features.to_toml())
    again = FeatureSet.from_toml(tmp_path / "features.toml")
    assert again.features == EVERY
    assert (again.tokenizer, again.max_terms) == (features.tokenizer, 50)


ODD = [
    "",
    "   ",
    "\x00nul\x00 red",
    "赤い 靴",
    "أحمر",
    "🎉🎉",
    "ﬁne ＲＥＤ",
    "a" * 100_000,
    None,
    7,
]


def test_odd_texts_have_finite_features(data):
    rows, _, _, documents, _ = data
    texts = [f for f in EVERY if f.corpora() or "title" in f.columns() or "body" in f.columns()]
    features = FeatureSet(texts).fit(rows, documents=documents)
    odd = [{"query": q, "title": t, "body": t} for q in ODD for t in ODD]
    values = features.transform(odd)
    assert np.isfinite(values).all()
    number = {name: k for k, name in enumerate(features.get_feature_names_out())}
    same = FeatureSet([ExactMatch("t"), EditSimilarity("t")]).fit_transform(
        {"query": ["ﬁne ＲＥＤ"], "t": ["Fine red"]}
    )
    assert same.tolist() == [[1.0, 1.0]]
    empty = values[: len(ODD), number["bm25_title"]]
    assert not empty.any()


def test_a_text_of_ten_megabytes_is_read_whole():
    text = "red shoe " * 1_100_000 + "needle"
    rows = {"query": ["needle"], "body": [text]}
    values = FeatureSet([TermCoverage("body"), FieldLength("body")]).fit_transform(rows)
    assert values.tolist() == [[1.0, 2_200_001.0]]


def test_missing_fields_are_documented_values_and_missing_columns_are_refused(data):
    rows, _, _, documents, _ = data
    features = FeatureSet([BM25("title"), FieldLength("title"), Column("price"), Cosine("vector")])
    features.fit(rows, documents=documents)
    gap = {"query": "w1", "title": None, "price": None, "vector": None, "query.vector": [1, 2, 3]}
    np.testing.assert_array_equal(features.transform([gap]), [[0, 0, np.nan, np.nan]])
    with pytest.raises(DataError, match="'vector'"):
        features.transform([{k: v for k, v in gap.items() if k != "vector"}])
    with pytest.raises(DataError, match="which X lacks"):
        FeatureSet([BM25("subtitle")]).fit(rows)
    with pytest.raises(DataError, match="documents lack"):
        FeatureSet([BM25("title")]).fit(rows, documents=[{"id": 1, "name": "x"}])
    with pytest.raises(DataError, match="same id"):
        FeatureSet([BM25("title")]).fit(rows, documents=[{"id": 1, "title": "x"}] * 2)
    for vector in ([1.0, 2.0], "abc", [1.0, np.inf, 2.0], [1.0, 2.0, 1e200]):
        with pytest.raises(CellError) as caught:
            features.transform([{**gap, "vector": [0, 0, 1]}, {**gap, "vector": vector}])
        assert (caught.value.name, caught.value.row) == ("vector", 1)
    with pytest.raises(CellError):
        FeatureSet([Cosine("vector")]).fit([{**gap, "query.vector": "abc"}])
    with pytest.raises(DataError):
        features.transform([])


def test_a_damaged_feature_set_is_refused(model, tmp_path):
    rw.save(model, tmp_path / "model.rw")
    state = model[0].encoding_.state()
    statistics = state["texts"]["title"]
    wrong = [
        {**state, "texts": {}},
        {**state, "declared": '{"features": []}'},
        {**state, "declaration": state["declared"]},
        {**state, "log": None, "extra": 1},
        *(
            {**state, "texts": {**state["texts"], "title": {**statistics, **change}}}
            for change in (
                {"frequency": statistics["frequency"][:-1]},
                {"terms": statistics["terms"][::-1].copy()},
                {"frequency": statistics["frequency"] * 1000},
                {"mean_length": float("nan")},
                {"n_documents": -1},
                {"n_documents": "3"},
            )
        ),
    ]
    for forged in wrong:
        with pytest.raises((DataError, ParameterError)):
            FittedFeatures.from_state(forged)
    FittedFeatures.from_state(state)
    whole = (tmp_path / "model.rw").read_bytes()
    (tmp_path / "model.rw").write_bytes(whole.replace(b"BM25F", b"BM25G"))
    with pytest.raises(ModelFileError):
        rw.load_scorer(tmp_path / "model.rw")


def test_features_are_chosen_from_the_columns(data):
    rows, y, _qid, documents, _ = data
    few = [{k: v for k, v in row.items() if k != "qid"} for row in rows]
    features = FeatureSet().fit(few, y, documents=documents)
    names = set(features.get_feature_names_out())
    assert {"bm25_body", "price", "age_published", "cosine_vector", "color=red"} <= names
    assert not any("id" in name.split("_") for name in names)


def test_a_stemmed_model_says_what_it_needs(data, tmp_path, monkeypatch):
    pytest.importorskip("snowballstemmer")
    rows, y, qid, *_ = data
    features = FeatureSet([BM25("body")], tokenizer=Tokenizer(stemmer="english"))
    pipeline = rw.RankPipeline([("features", features), ("rank", rw.RidgeRanker())])
    rw.save(pipeline.fit(rows, y, qid=qid), tmp_path / "model.rw")
    expected = pipeline.decision_function(rows)
    scorer = rw.load_scorer(tmp_path / "model.rw")
    np.testing.assert_array_equal(scorer.decision_function(rows), expected)
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    _stemmer.cache_clear()
    with pytest.raises(ModelFileError, match=r"rankwright\[text\]"):
        rw.load_scorer(tmp_path / "model.rw")
    _stemmer.cache_clear()


def test_an_unknown_language_is_refused(data):
    pytest.importorskip("snowballstemmer")
    with pytest.raises(ParameterError, match="klingon"):
        FeatureSet([BM25("body")], tokenizer=Tokenizer(stemmer="klingon")).fit(data[0])
