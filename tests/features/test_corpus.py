"""Corpus: documents in memory, found by BM25 and ranked by query text alone."""

from __future__ import annotations

import numpy as np
import pytest

from rankwright.features import (
    BM25,
    BM25F,
    Column,
    Corpus,
    EditSimilarity,
    FeatureSet,
    NGrams,
    Prefix,
    Proximity,
    Tokenizer,
    WithinQuery,
)

pytest.importorskip("bm25s")

FEATURES = [
    *(BM25("body"), BM25F(("title", "body")), Prefix("title"), EditSimilarity("title")),
    *(NGrams("body", 3), Proximity("body"), Column("price")),
    WithinQuery(BM25("title"), "z"),
]


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(50)]
    return [
        {
            "id": k,
            "title": " ".join(rng.choice(words, 3)) if k % 9 else None,
            "body": " ".join(rng.choice(words, 20)),
            "price": float(k % 11),
        }
        for k in range(150)
    ]


def test_the_first_documents_are_those_of_bm25(documents):
    corpus = Corpus(documents, fields=["body"])
    features = FeatureSet([BM25("body")])
    rows = [{"query": "w1 w2 w3", **document} for document in documents]
    scores = features.fit_transform(rows)[:, 0]
    found = corpus.find("w1 w2 w3", 20)
    np.testing.assert_allclose(found.score, np.sort(scores)[::-1][:20], atol=1e-9)
    np.testing.assert_allclose(scores[[int(name) for name in found.ids]], found.score, atol=1e-9)


def test_documents_of_a_corpus_have_the_bits_of_their_fields(documents):
    rows = [{"query": "w1 w2 w3", **document} for document in documents]
    features = FeatureSet(FEATURES).fit(rows, documents=documents).encoding_
    corpus = Corpus(documents)
    chosen = corpus.find("w4 w7 w9", 100).number
    held = features.of_rows(corpus.rows("w4 w7 w9", chosen))
    table = [{"query": "w4 w7 w9", **documents[k]} for k in chosen.tolist()]
    columns = {name: [row[name] for row in table] for name in table[0]}
    np.testing.assert_array_equal(held, features.encode(columns))
    by_id = features.of_rows(corpus.rows({"text": "w4 w7 w9"}, corpus.numbers([3, "7"])))
    assert by_id.shape == (2, len(features.feature_names))


def test_queries_without_known_words_find_nothing(documents):
    corpus = Corpus(documents, tokenizer=Tokenizer(stop_words=("w1",)))
    for text in ("", "nothing known", "w1", "\x00"):
        assert corpus.find(text).ids == []
    assert len(corpus.find("w2", 5).ids) == 5
    assert len(corpus.find("w2 w3 w4", 10_000).ids) <= len(corpus)
