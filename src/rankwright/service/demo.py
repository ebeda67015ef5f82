"""A service without any file: generated models, users, medical abstracts and judges.

The setting of the queue is that of the papers' experiments on OHSUMED and on the cystic fibrosis
collection: abstracts found for a clinician's question, graded by several experts. All texts are
generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwright.data.datasets.synthetic import (
    QuerySample,
    make_engines,
    make_queries,
    make_ratings,
)
from rankwright.persist.scorer import SavedScorer
from rankwright.service.judging.queue import Queue
from rankwright.service.log.entries import Event, Judgment, LoggedFeedback, encode
from rankwright.service.log.store import Store

if TYPE_CHECKING:
    from rankwright.service.settings import Settings

N_QUERIES, N_FEATURES = 300, 10  # of the log
JUDGES = ("expert A (simulated)", "expert B (simulated)", "expert C (simulated)")
NOISE = (0.4, 0.6, 0.9)  # how far each expert is off, in grades
PER_QUERY, N_GRADES, PER_JUDGE = 10, 5, 24

# Question -> what a document about it may deal with; a document with all of it is perfect.
TOPICS = {
    "salt loss in the sweat of children with cystic fibrosis": (
        "sweat chloride", "salt loss", "children", "cystic fibrosis",
    ),
    "inhaled antibiotics for chronic lung infection": (
        "inhaled tobramycin", "antibiotics", "chronic infection", "lung function",
    ),
    "pancreatic enzyme dose and growth": (
        "pancreatic enzymes", "dose response", "growth", "fat absorption",
    ),
    "home monitoring of blood pressure in older adults": (
        "home monitoring", "blood pressure", "older adults", "hypertension",
    ),
    "exercise after myocardial infarction": (
        "exercise training", "myocardial infarction", "rehabilitation", "mortality",
    ),
    "vitamin D and the risk of fractures": (
        "vitamin D", "fracture risk", "bone density", "supplementation",
    ),
}  # fmt: skip
OTHER = (
    "staff training", "hospital costs", "skin lesions", "hearing tests", "dental care",
    "travel medicine", "seasonal allergy", "sleep quality", "eye surgery", "insulin pumps",
)  # fmt: skip
DESIGNS = ("A cohort study", "A randomized trial", "A case series", "A survey", "A review")
SENTENCES = (
    "We studied {} in {n} patients over {m} months.",
    "Data on {} were taken at every visit.",
    "Results on {} were compared with those of {n} controls.",
    "The effect on {} was larger than expected.",
    "No effect on {} was found.",
    "Further work on {} is needed.",
)
GUIDELINES = """\
Grade how well the abstract answers the **question**, not how well it is written.

- **4**: deals with every part of the question
- **3**: deals with most of it
- **2**: deals with half of it
- **1**: mentions one part in passing
- **0**: about something else

Use *cannot judge* if the text is damaged or in a language that you do not read.
"""


def demo_queue() -> Queue:
    """Sixty generated abstracts for six questions.

    >>> queue = demo_queue()
    >>> len(queue), queue.n_grades, len(queue.query_texts)
    (60, 5, 6)
    """
    rng = np.random.default_rng(2003)
    rows = []
    for number, (question, parts) in enumerate(TOPICS.items(), 1):
        for position in range(PER_QUERY):
            row = {
                "query": f"q{number}",
                "id": f"demo-{number}{position:02d}",
                "query_text": question,
            }
            rows.append(row | _abstract(parts, _grade_of(position), rng))
    return Queue.from_rows(
        rows, guidelines=GUIDELINES, n_grades=N_GRADES, name="demo: medical abstracts (generated)"
    )


def _grade_of(position: int) -> int:
    """The true grade of a generated document: two of each."""
    return position % N_GRADES


def _abstract(parts: tuple[str, ...], grade: int, rng: np.random.Generator) -> dict[str, str]:
    """A text that deals with as many parts of the question as its grade says."""
    inside = [parts[k] for k in rng.permutation(len(parts))[:grade]]
    outside = [OTHER[k] for k in rng.permutation(len(OTHER))[: 5 - grade]]
    subjects = [*inside, *outside][:4]
    first, second = (subjects + outside)[:2]
    title = f"{first[0].upper()}{first[1:]} and {second}: {str(rng.choice(DESIGNS)).lower()}"
    chosen = rng.permutation(len(SENTENCES))
    sentences = [
        _sentence(SENTENCES[chosen[k % len(SENTENCES)]], subject, rng)
        for k, subject in enumerate(subjects)
    ]
    return {"title": title, "text": " ".join(sentences)}


def _sentence(template: str, subject: str, rng: np.random.Generator) -> str:
    text = template.format(subject, n=int(rng.integers(12, 400)), m=int(rng.integers(3, 60)))
    return text[0].upper() + text[1:]


def demo_judgments(queue: Queue) -> Iterator[tuple[str, str, Judgment]]:
    """Keys, judges and grades of the simulated experts, in the order in which they are logged."""
    rng = np.random.default_rng(1991)
    chosen = [rng.permutation(len(queue))[:PER_JUDGE] for _ in JUDGES]
    for turn in range(PER_JUDGE):
        for judge, noise, rows in zip(JUDGES, NOISE, chosen, strict=True):
            row = int(rows[turn])
            document = queue.documents[row]
            grade = _grade_of(row % PER_QUERY) + rng.normal(scale=noise)
            value = float(np.clip(np.rint(grade), 0, N_GRADES - 1))
            judgment = Judgment(
                "judge", "grades", document.query, (document.id,), value,
                features=[queue.X[row].tolist()],
            )  # fmt: skip
            yield f"demo/{judge}/{document.query}/{document.id}", judge, judgment


def demo_settings(folder: str, random_state: int = 0) -> Settings:
    """Settings of a service with generated models and users, in a folder.

    A linear ranker, 50 boosted stumps, a recommender and a learned fusion are served; a
    BayesianPRank learns from the grades that simulated users gave to 300 lists.
    """
    import rankwright as rw
    from rankwright.service.settings import Settings

    sample = make_queries(
        N_QUERIES, docs_per_query=10, n_features=N_FEATURES, random_state=random_state
    )
    engines = make_engines(40, random_state=random_state)
    train = sample.qid < 30
    X, y, qid = sample.X[train], sample.y[train], sample.qid[train]
    models = {
        "linear": rw.RidgeRanker().fit(X, y, qid=qid),
        "boosted": rw.RankBoost(n_estimators=50).fit(X, y, qid=qid),
        "films": rw.Recommender(random_state=random_state).fit(
            make_ratings(80, 60, random_state=random_state).ratings
        ),
        "engines": rw.LearnedFusion().fit(engines.runs, engines.qrels),
    }
    paths = [str(Path(folder) / f"{name}.rw") for name in models]
    for model, path in zip(models.values(), paths, strict=True):
        rw.save(model, path)
    store = str(Path(folder) / "feedback.db")
    _write_log(store, sample, rw.load_scorer(paths[0]))
    return Settings(models=tuple(paths), store=store, learn="BayesianPRank")


def _write_log(path: str, sample: QuerySample, scorer: SavedScorer) -> None:
    """Lists in the order of a model, and the grades of a user for each."""
    store = Store(path)
    futures = []
    for query in range(N_QUERIES):
        rows = np.flatnonzero(sample.qid == query)
        scores = scorer.decision_function(sample.X[rows])
        order = np.argsort(-scores, kind="stable")
        ids = [f"d{row}" for row in rows[order]]
        features = sample.X[rows[order]].tobytes()
        body = encode(Event(f"query {query}", "linear", ids, scores[order].tobytes(), features))
        event, user = f"demo-{query}", f"user {query % 20}"
        store.append_event(event, body, user)
        grades = dict(zip(ids, sample.y[rows[order]].astype(float).tolist(), strict=True))
        feedback = encode(LoggedFeedback("1", grades=grades))
        futures.append(store.append("feedback", f"{event}/1", feedback, event=event, user=user))
    for future in futures:
        future.result()
    store.close()
