"""Features from text: learning statistics and computing features, beside bm25s and scikit-learn.

Documents of 200 words from a Zipf vocabulary, queries of four words with 100 candidates each. CPU
seconds of one thread, and the memory beyond the peak of generating the texts (each part in a
process of its own). ``bm25s`` and ``TfidfVectorizer`` index the same documents, and score all of
them for every query; the feature set computes twelve features of the candidates. Then one request
of 100 documents, from raw fields and from a ``Corpus``, and growth with documents and vocabulary.
The last lines ask a service (``rankwright serve``) for such requests: the CPU time of its process,
with HTTP, scoring by LambdaMART of 100 trees, and the log.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WORDS, TERMS = 200, 100_000
N_DOCUMENTS, N_QUERIES, N_CANDIDATES = 100_000, 1_000, 100


def texts(n: int, n_terms: int = TERMS, n_words: int = WORDS, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    names = np.array([f"t{k}" for k in range(n_terms)], object)
    chance = np.cumsum(1.0 / np.arange(1, n_terms + 1))
    drawn = np.searchsorted(chance, rng.uniform(0, chance[-1], (n, n_words)))
    return [" ".join(row) for row in names[drawn].tolist()]


def feature_set() -> Any:
    from rankwright import features as f

    listed = [f.BM25("body"), f.TermCoverage("body"), f.IDFSum("body"), f.Phrase("body")]
    listed += [f.Proximity("body"), f.FieldLength("body"), f.BM25("title"), f.TermCoverage("title")]
    listed += [f.Phrase("title"), f.ExactMatch("title"), f.BM25F(("title", "body"))]
    return f.FeatureSet([*listed, f.Column("price")])


def collection(n: int, n_terms: int = TERMS) -> list[dict[str, Any]]:
    bodies = texts(n, n_terms)
    return [
        {"id": str(k), "title": body[:50], "body": body, "price": float(k % 97)}
        for k, body in enumerate(bodies)
    ]


def measured(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, the CPU seconds, and the megabytes that the peak of memory grew by."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    result = work()
    seconds = time.process_time() - start
    return result, seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def ours(n: int, n_terms: int) -> None:
    from rankwright.features import Corpus

    documents = collection(n, n_terms)
    queries = texts(N_QUERIES, n_terms, 4, seed=1)
    features = feature_set()
    rows = [{"query": queries[0], **document} for document in documents[:100]]
    _, seconds, memory = measured(lambda: features.fit(rows, documents=documents))
    size = sum(len(known.terms) for known in features.encoding_.knowledge.texts.values()) * 16
    print(f"  FeatureSet.fit: {seconds:.1f} s, {memory:.0f} MB; in a file {size / 1e6:.1f} MB")
    fitted, corpus = features.encoding_, Corpus(documents, fields=["body"])
    found, seconds, memory = measured(lambda: [corpus.find(text, N_CANDIDATES) for text in queries])
    print(f"  Corpus.find, with its index: {seconds:.1f} s, {memory:.0f} MB")
    chosen = [(text, one.number) for text, one in zip(queries, found, strict=True)]

    def compute() -> int:
        return sum(len(fitted.of_rows(corpus.rows(text, number))) for text, number in chosen)

    compute_first = fitted.of_rows(corpus.rows(*chosen[0]))  # cuts titles and bodies once
    n_rows, seconds, memory = measured(compute)
    print(
        f"  12 features of {n_rows:,} rows in a corpus: {seconds:.1f} s, "
        f"{1e3 * seconds / len(queries):.2f} ms a query"
    )
    number = chosen[0][1].tolist()
    table = {name: [documents[k][name] for k in number] for name in documents[0]}
    table["query.text"] = [queries[0]] * len(number)
    assert np.array_equal(fitted.encode(table), compute_first)
    _, seconds, _ = measured(lambda: [fitted.encode(table) for _ in range(20)])
    print(f"  12 features of one request of {len(number)} raw documents: {50 * seconds:.1f} ms")


def with_bm25s(n: int, n_terms: int) -> None:
    import bm25s

    documents, queries = texts(n, n_terms), texts(N_QUERIES, n_terms, 4, seed=1)

    def index() -> Any:
        made = bm25s.BM25(method="lucene", k1=1.2, b=0.75, dtype="float64")
        made.index([text.split() for text in documents], show_progress=False)
        return made

    made, seconds, memory = measured(index)
    print(f"  bm25s, index: {seconds:.1f} s, {memory:.0f} MB")
    _, seconds, _ = measured(lambda: [made.get_scores(text.split()) for text in queries])
    print(f"  bm25s, one score of all documents: {seconds:.1f} s")


def with_sklearn(n: int, n_terms: int) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents, queries = texts(n, n_terms), texts(N_QUERIES, n_terms, 4, seed=1)
    vectorizer = TfidfVectorizer()
    matrix, seconds, memory = measured(lambda: vectorizer.fit_transform(documents))
    print(f"  TfidfVectorizer, fit: {seconds:.1f} s, {memory:.0f} MB")
    asked = vectorizer.transform(queries)
    _, seconds, _ = measured(lambda: [(matrix @ one.T).toarray() for one in asked])
    print(f"  TfidfVectorizer, one score of all documents: {seconds:.1f} s")


def service(n: int, n_terms: int) -> None:
    import json
    import tempfile
    from pathlib import Path

    from benchmarks.serve_load import Server, measure, post

    import rankwright as rw

    documents, queries = collection(n, n_terms), texts(N_QUERIES, n_terms, 4, seed=1)
    rng = np.random.default_rng(0)
    chosen = [(text, rng.integers(0, n, N_CANDIDATES)) for text in queries[:30]]
    rows: Any = [{"query": text, **documents[k]} for text, number in chosen for k in number]
    y = rng.integers(0, 3, len(rows))
    ranker = rw.LambdaMART(n_estimators=100, learning_rate=0.1, random_state=0)
    model = rw.RankPipeline([("features", feature_set()), ("rank", ranker)])
    model.fit(rows, y, qid=np.repeat(np.arange(len(chosen)), N_CANDIDATES), documents=documents)
    sent = []
    for text in queries[:100]:
        number = rng.choice(n, N_CANDIDATES, replace=False)
        fields = [(str(k), {name: documents[k][name] for name in FIELDS}) for k in number]
        items = [{"id": name, "fields": one} for name, one in fields]
        sent.append(post("/v1/rank", json.dumps({"query": text, "items": items}).encode()))
    bodies = [json.dumps({"query": text}).encode() for text in queries[:100]]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "text.rw")
        rw.save(model, path)
        with open(Path(folder) / "docs.jsonl", "w") as file:
            file.writelines(json.dumps(document) + "\n" for document in documents)
        for name, requests, options in (
            ("raw fields", sent, ()),
            ("a query, documents held", [post("/v1/rank", b) for b in bodies], ("docs.jsonl",)),
        ):
            held = tuple(word for file in options for word in ("--documents", file))
            server = Server.service(folder, path, *held, "--store", f"{len(name)}.db")
            server.wait_until_ready()
            measure(server, requests, 200, 1)
            _, seconds = measure(server, requests, 500, 1)
            server.stop()
            print(f"  service, {N_CANDIDATES} documents, {name}: {1e3 * seconds:.2f} ms a request")


FIELDS = ("title", "body", "price")
PARTS = {"ours": ours, "bm25s": with_bm25s, "sklearn": with_sklearn, "service": service}


def start(part: str, n: int, n_terms: int) -> None:
    """Run a part in a process of its own, for its memory."""
    words = [sys.executable, "-m", "benchmarks.features", part, str(n), str(n_terms)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(words, env=os.environ | threads, check=True)


def run() -> None:
    print(f"{N_DOCUMENTS:,} documents of {WORDS} words, {TERMS:,} terms, {N_QUERIES:,} queries")
    for part in ("ours", "bm25s", "sklearn"):
        sys.stdout.flush()
        start(part, N_DOCUMENTS, TERMS)
    for n, n_terms in ((25_000, TERMS), (25_000, 10_000)):
        print(f"{n:,} documents, {n_terms:,} terms")
        sys.stdout.flush()
        start("ours", n, n_terms)
    sys.stdout.flush()
    start("service", 25_000, TERMS)


if __name__ == "__main__":  # the processes that start() makes
    PARTS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
