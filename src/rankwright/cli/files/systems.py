"""A system (a model, a run, a file of scores) beside what judges said (items, qrels)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import rankwright as rw
from rankwright.cli.config import STDIN
from rankwright.cli.console import note
from rankwright.cli.files.formats import guess_format, tell_format
from rankwright.cli.files.items import TableOptions, first_gap, read_items, remark_on_queries
from rankwright.cli.files.pipes import at_hand
from rankwright.exceptions import DataError, FileFormatError, ModelFileError, ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rankwright.metrics.evaluation import Scores
    from rankwright.persist.scorer import SavedScorer


MANY = 50  # items: a few may well have zeros alone in the last features


@dataclass(frozen=True, eq=False)
class Judged:
    """What judges said: items with grades, or qrels."""

    path: str
    items: rw.Items | None = None
    qrels: rw.Qrels | None = None

    def as_qrels(self) -> rw.Qrels:
        """Qrels, made of the items' ids where need be."""
        if self.qrels is not None:
            return self.qrels
        items = self.items
        if items is None or items.docid is None or items.qid is None:
            raise DataError(
                f"{self.path} names no documents, so a run cannot be put beside it. "
                "Give qrels, or data with a qid and a docid in every line."
            )
        return rw.Qrels.from_arrays(items.qid.astype(str), items.docid, items.y)


@dataclass(frozen=True, eq=False)
class System:
    """Something that orders items: a model, a run, or scores in the order of the data."""

    path: str
    model: SavedScorer | None = None
    run: Any = None
    scores: NDArray[np.float64] | None = None

    def judge(
        self, judged: Judged, measures: Sequence[str], like: str | None, **options: Any
    ) -> Scores:
        """The measures of this system; on qrels by trec_eval's conventions by default."""
        if self.run is not None:
            qrels = judged.as_qrels()
            _remark_on_missing(self.run, qrels, self.path, judged.path)
            beside = rw.align(self.run, qrels)
            columns: dict[str, Any] = {"docid": beside.docid, "qid": beside.qid}
            like = like or (None if judged.qrels is None else "trec_eval")
            return rw.evaluate(
                beside.scores, beside.y, measures=measures, like=like, **columns, **options
            )
        if judged.items is None:
            raise DataError(
                f"{judged.path} holds qrels and no features, which {self.path} needs. Rank the "
                f"items first: rankwright rank {self.path} DATA --trec -o system.run"
            )
        items = judged.items
        scores, predictions = self.on(items, measures)
        return rw.evaluate(
            scores,
            items.y,
            None if items.qid is None else items.qid.astype(str),  # as runs name their queries
            measures,
            like=like,
            predictions=predictions,
            docid=items.docid,
            **options,
        )

    def on(
        self, items: rw.Items, measures: Sequence[str] = ()
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Scores of items, and predicted grades where a measure reads them."""
        if self.scores is not None:
            if len(self.scores) != items.n_items:
                raise DataError(
                    f"{self.path} has {len(self.scores)} scores and the data {items.n_items} "
                    "items: one score per item is needed, in the same order."
                )
            return self.scores, None
        if self.model is None:
            raise DataError(f"{self.path} is a run: it scores no new items.")
        X = features_for(self.model, items, self.path)
        scores = self.model.decision_function(X, items.qid)
        reads = any(rw.Measure.parse(name).reads_predictions for name in measures)
        return scores, self.model.predict(X, items.qid) if reads else None


def features_for(model: SavedScorer, items: rw.Items, path: str) -> Any:
    """The columns that a model wants, by name where both sides know names."""
    if model.feature_names is not None and items.feature_names is not None:
        missing = _missing(model.feature_names, items.feature_names)
        if missing:
            raise DataError(
                f"{path} was trained with a feature {missing[0]!r} that the data lack "
                f"({len(missing)} of {model.n_features} are missing). "
                f"The data have {', '.join(items.feature_names[:10])}."
            )
        X = _named(items, items.feature_names, model.feature_names)
        _refuse_gaps(model, X, path)
        return X
    if items.n_features != model.n_features:
        raise DataError(
            f"{path} was trained on {model.n_features} features and the data have "
            f"{items.n_features}. Give data of the same kind."
        )
    _remark_on_width(items, path)
    _refuse_gaps(model, items.X, path)
    return items.X


def _missing(wanted: Sequence[str], names: Sequence[str]) -> list[str]:
    """Features that the data lack; not a word that no item has, if its column is there."""
    known = {*names}
    words = {name.partition("=")[0] for name in names if "=" in name}
    return [name for name in wanted if not (name in known or name.partition("=")[0] in words)]


def _named(items: rw.Items, names: Sequence[str], wanted: Sequence[str]) -> Any:
    """The columns of these names in this order; a word that no item has is 0 throughout."""
    place = {name: k for k, name in enumerate(names)}
    order = [place.get(name, items.n_features) for name in wanted]
    if order == list(range(items.n_features)):
        return items.X
    return (_with_zeros(items.X) if items.n_features in order else items.X)[:, order]


def read_like(items: rw.Items, path: str, options: TableOptions) -> rw.Items:
    """Further items with the features of these; a word that these do not have is passed over."""
    names = items.feature_names
    if names is not None:  # else columns have places only, and the options say which
        options = replace(options, feature=[], one_hot=[], drop=[])
    other = read_items(path, options, n_features=items.n_features, names=names)
    if names is not None and other.feature_names is not None:
        missing = _missing(names, other.feature_names)
        if missing:
            raise DataError(
                f"{path} lacks {missing[0]!r}, a feature of the training data ({len(missing)} of "
                f"{len(names)} are missing): give the same columns."
            )
        return replace(other, X=_named(other, other.feature_names, names), feature_names=names)
    if other.n_features != items.n_features or other.feature_names != names:
        raise DataError(f"{path} has other features than the training data: give the same columns.")
    return other


def _refuse_gaps(model: SavedScorer, X: Any, path: str) -> None:
    """Unknown values, where a model has not learned what to make of them."""
    gap = None if model.allow_nan else first_gap(X, model.feature_names)
    if gap is not None:
        raise DataError(
            f"{path} needs every value, and {gap}. Fill them, or train a ranker that takes gaps, "
            "such as RankBoost."
        )


def _with_zeros(X: Any) -> Any:
    """The same with a column of zeros after the last."""
    import numpy as np

    zeros = np.zeros((X.shape[0], 1))
    if isinstance(X, np.ndarray):
        return np.hstack([X, zeros])
    from scipy.sparse import csr_array, hstack

    return hstack([X, csr_array(zeros)], format="csr")


def _remark_on_width(items: rw.Items, path: str) -> None:
    """LETOR files leave out zeros, so data of another kind can look like narrow data."""
    if items.n_items < MANY:
        return
    used = items.X.indices if items.is_sparse else items.X.any(axis=0).nonzero()[0]
    width = int(used.max()) + 1 if len(used) else 0
    if width < items.n_features:
        note(
            f"the data have nothing but 0 after feature {width}, and {path} knows "
            f"{items.n_features} features: are they of the same kind?"
        )


def _remark_on_missing(run: rw.Run, qrels: rw.Qrels, path: str, judged: str) -> None:
    """Judged queries that a run does not answer count as failures: nobody should wonder why."""
    answered, asked = set(map(str, run.queries)), list(map(str, qrels.queries))
    missing = [query for query in asked if query not in answered]
    if len(missing) == len(asked):
        raise DataError(
            f"{path} and {judged} have no query in common: the run answers "
            f"{_some(run.queries)}, the judges were asked {_some(qrels.queries)}. "
            "Give files that name their queries alike."
        )
    if missing:
        note(
            f"{path} does not answer {len(missing):,} of the {len(asked):,} judged queries "
            f"({_some(missing)}): it found nothing there"
        )


def _some(queries: Sequence[Any] | NDArray[Any]) -> str:
    more = f" and {len(queries) - 3:,} more" if len(queries) > 3 else ""
    return ", ".join(map(str, queries[:3])) + more


def refuse_two_pipes(*paths: str) -> None:
    """Standard input can be read once only."""
    if sum(path in ("-", STDIN) for path in paths) > 1:
        raise ParameterError("- stands for standard input: only one of the files can come from it.")


def read_judged(
    path: str, options: TableOptions, models: Sequence[SavedScorer | None] = ()
) -> Judged:
    """Items with grades, or qrels, by the kind of the file; with what these models want to see."""
    with at_hand(path) as local:
        kind = tell_format(local, options.read_as)
        if kind == "qrels":
            return Judged(path, qrels=rw.read_qrels(local))
        items = read_for([model for model in models if model is not None], local, options)
    remark_on_queries(items, path)
    return Judged(path, items=items)


def read_for(
    models: Sequence[SavedScorer], path: str, options: TableOptions, *, graded: bool = True
) -> rw.Items:
    """Items with the features that models want, by name where the models know names."""
    width = max((model.n_features for model in models), default=None)
    known = [model.feature_names for model in models if model.feature_names is not None]
    names = list(dict.fromkeys(name for each in known for name in each)) or None
    try:
        return read_items(path, options, graded=graded, n_features=width, names=names)
    except FileFormatError as error:
        if "n_features" not in error.fix:
            raise
        parts = (error.path, error.line, error.column, error.reason, error.text)
        fix = f"the model has learned {width} features: give data of the same kind"
        raise FileFormatError(*parts, fix) from None


def read_model(path: str) -> SavedScorer:
    """A model file, also from a pipe."""
    with at_hand(path) as local:
        _refuse_data(path, guess_format(local), "model", "The model comes")
        return rw.load_scorer(local)


def read_system(path: str, name: str | None = None) -> System:
    """A model file, a TREC run, or one score per line."""
    with at_hand(path) as local:
        kind = tell_format(local)
        if kind == "run":
            return System(name or path, run=rw.read_run(local))
        if kind == "scores":
            return System(name or path, scores=_read_scores(local))
        _refuse_data(path, guess_format(local), "model, run or file of scores", "The systems come")
        return System(name or path, model=rw.load_scorer(local))


def _refuse_data(path: str, kind: str | None, wanted: str, rule: str) -> None:
    """Data in the place of a model: most likely the order of the words was mixed up."""
    if kind not in (None, "model"):
        raise ModelFileError(
            f"{path} is no {wanted}; it looks like {kind}. {rule} first, the data last."
        )


def _read_scores(path: str) -> NDArray[np.float64]:
    from rankwright.data.io.fields import split_fields
    from rankwright.data.io.files import read_text

    return split_fields(read_text(path), None, 1, "a score").numbers(0, "score")
