"""Ranking systems in files (a model, a TREC run, one score per line), and what a file holds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

import rankwright
from rankwright._typing import FloatArray
from rankwright.data.io.fields import split_fields
from rankwright.data.io.files import read_text
from rankwright.data.io.items import detect_format, detect_kind, read_items
from rankwright.data.io.trec import read_qrels, read_run
from rankwright.data.items import Items
from rankwright.data.runs import Qrels, Run, align
from rankwright.exceptions import DataError, DegenerateDataWarning, ParameterError, Setting
from rankwright.features.fitted import FittedFeatures
from rankwright.metrics.evaluation import evaluate
from rankwright.metrics.measure import Measure, parse_measures
from rankwright.metrics.scores import Scores
from rankwright.persist.format import NotModelFile, read_file, refusing
from rankwright.persist.provenance import Provenance, model_card
from rankwright.persist.scorer import SavedScorer, load_scorer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rankwright.data.behavior.impressions import ImpressionLog
    from rankwright.metrics.comparison import Comparison
    from rankwright.online_eval.rankings import LogComparison


def load_system(path: str | os.PathLike[str]) -> SavedScorer | Run | FloatArray:
    """Load a model for scoring, a TREC run, or a file with one score per line."""
    kind = detect_format(path)
    if kind == "run":
        return read_run(path)
    if kind == "scores":
        return split_fields(read_text(path), None, 1, "a score").numbers(0, "score")
    return load_scorer(path)


def evaluate_system(
    system: Any,
    judged: Items | Qrels,
    measures: Iterable[str | Measure] | str | Measure = ("NDCG@10", "AP"),
    *,
    like: str | None = None,
    name: str = "the system",
    data: str = "the data",
) -> Scores:
    """Evaluate a model, a run or a file of scores on graded items or qrels.

    Parameters
    ----------
    system : fitted ranker, SavedScorer, Run or (n_items,) scores
    judged : Items or Qrels
        Items with the features of a model (``read_items(path, like=model)``), or with ids for a
        run; only a run can be evaluated on qrels.
    measures, like : as in :func:`rankwright.evaluate`; on qrels trec_eval's conventions by default
    name, data : str
        Their names in errors and warnings.

    Examples
    --------
    >>> judged = Items([[1.0], [2.0]], [0, 1], qid=["q", "q"], docid=["a", "b"])
    >>> evaluate_system([0.3, 0.9], judged, "AP")["AP"]
    1.0
    >>> evaluate_system(Run.from_arrays(["q", "q"], ["a", "b"], [2.0, 1.0]), judged, "AP")["AP"]
    0.5
    """
    if isinstance(system, Run):
        if isinstance(judged, Items):
            qrels = _qrels_of(judged, data)
        else:
            qrels, like = judged, like or "trec_eval"
        _check_queries(system, qrels, name, data)
        both = align(system, qrels)
        return evaluate(**both._asdict(), measures=measures, like=like)
    if isinstance(judged, Qrels):
        raise DataError(
            f"{data} contains qrels without features, which {name} needs. Rank the items first, "
            "and evaluate the run: rankwright rank MODEL DATA --trec -o system.run"
        )
    scores, predictions = score_items(system, judged, name), None
    listed = parse_measures(measures)
    if hasattr(system, "predict") and any(measure.reads_predictions for measure in listed):
        predictions = system.predict(judged.X, judged.qid)
    qid = None if judged.qid is None else judged.qid.astype(str)  # as runs name their queries
    return evaluate(
        scores, judged.y, qid, listed, docid=judged.docid, like=like, predictions=predictions
    )


class Description(dict[str, Any]):
    """What is in a file, by name; prints as a table."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        content = {key: value for key, value in self.items() if key != "provenance"}
        content |= _made(self.get("provenance", {}))
        rows = {key.replace("_", " "): _in_words(value) for key, value in content.items()}
        return "\n".join(f"{key:{width}}  {value}" for key, value in rows.items())


def _made(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """How a model was made, in a few lines; ``--json`` and ``--card`` have all of it."""
    if not provenance:
        return {}
    made = msgspec.convert(provenance, Provenance)
    data = made.data
    lines: dict[str, Any] = {
        "trained": made.date,
        "command": made.command,
        "random_state": made.random_state,
        "parameters": {k: v for k, v in made.model.get("parameters", {}).items() if v is not None},
        "members": list(made.model.get("members", {})),
        "versions": made.versions,
        "measures": {name: str(value) for name, value in made.measures.items()},
        "measured_on": made.measured_on,
    }
    if data is not None:
        queries = "" if data.n_queries is None else f", {data.n_queries:,} queries"
        lines["data"] = f"{data.name}: {data.n_items:,} items{queries}, sha256 {data.sha256}"
    left_out = [column.name for column in made.columns if column.read_as == "left out"]
    lines["left_out"] = left_out
    return {key: value for key, value in lines.items() if value not in ("", None, [], {})}


def _in_words(value: object) -> str:
    if isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
        parts = {name: ", ".join(map(str, listed[:10])) for name, listed in value.items()}
        more = {name: len(listed) - 10 for name, listed in value.items()}
        return "; ".join(
            f"{name}: {part}" + (f" and {more[name]} more" if more[name] > 0 else "")
            for name, part in parts.items()
        )
    if isinstance(value, dict):
        return ", ".join(f"{name}: {count}" for name, count in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


class EvaluationData:
    """Graded items or qrels in a file, on which systems are evaluated.

    Parameters
    ----------
    path : path
    name : str or None
        Its name in errors and warnings; by default its path.
    **options
        As in :func:`rankwright.read_items`.
    """

    def __init__(
        self, path: str | os.PathLike[str], name: str | None = None, **options: Any
    ) -> None:
        self.path, self.name, self.options = path, name or os.fspath(path), options
        is_qrels = (options.get("format") or detect_format(path)) == "qrels"
        self.qrels = read_qrels(path) if is_qrels else None
        self._items: dict[Any, Items] = {}

    def items(self, system: Any = None) -> Items:
        """The items with the features of a model; read once for models with the same features."""
        model = system if hasattr(system, "feature_names") else None
        key = None if model is None else (model.n_features, model.feature_names)
        if key not in self._items:
            self._items[key] = read_items(self.path, like=model, **self.options)
        return self._items[key]

    def scored_items(self, systems: Mapping[str, Any]) -> dict[str, tuple[Any, Items]]:
        """Systems with the items that they score; without runs, which score none."""
        if self.qrels is not None:
            return {}
        scoring = {name: one for name, one in systems.items() if not isinstance(one, Run)}
        return {name: (one, self.items(one)) for name, one in scoring.items()}

    def evaluate(
        self, system: Any, measures: Iterable[str | Measure] | str | Measure, **options: Any
    ) -> Scores:
        """Evaluate a system on this file; options as in :func:`evaluate_system`."""
        judged = self.items(system) if self.qrels is None else self.qrels
        return evaluate_system(system, judged, measures, data=self.name, **options)

    def compare(
        self,
        systems: Mapping[str, Any],
        measures: Iterable[str | Measure] | str | Measure,
        *,
        like: str | None = None,
        called: Mapping[str, str] | None = None,
        **options: Any,
    ) -> tuple[Comparison, dict[str, Scores]]:
        """Evaluate systems and test their differences.

        Parameters
        ----------
        systems : {name: model, run or scores}
        measures, like : as in :func:`evaluate_system`
        called : {name: str}, names of systems in errors and warnings; by default their keys
        **options : of :func:`rankwright.compare`

        Returns
        -------
        comparison, scores : Comparison, and the Scores of each system
        """
        scores = {
            name: self.evaluate(one, measures, like=like, name=(called or {}).get(name, name))
            for name, one in systems.items()
        }
        return rankwright.compare(scores, **options), scores


def name_systems(
    paths: Sequence[str | os.PathLike[str]], names: Sequence[str] = ()
) -> dict[str, str]:
    """Paths of systems by name: those given, or else short ones that tell the files apart.

    >>> name_systems(["old/a.run.gz", "old/b.rw"])
    {'a': 'old/a.run.gz', 'b': 'old/b.rw'}
    >>> list(name_systems(["old/a.rw", "new/a.rw"]))
    ['old/a.rw', 'new/a.rw']
    """
    files = [os.fspath(path) for path in paths]
    if names and (len(names) != len(files) or len(set(names)) < len(names)):
        raise ParameterError(
            Setting("names", ",".join(names)), f": give {len(files)} different names."
        )
    short = [os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0] for path in files]
    numbered = [f"{number} {path}" for number, path in enumerate(files, 1)]
    called = next(n for n in (names, short, files, numbered) if len(set(n)) == len(files))
    return dict(zip(called, files, strict=True))


def compare_models_on_log(
    models: Mapping[str, Any], log: ImpressionLog, features: Callable[[Any], Items], **options: Any
) -> LogComparison:
    """Estimate the clicks of each model from a log, and the differences between models.

    Parameters
    ----------
    models : {name: fitted ranker or SavedScorer}
    log : ImpressionLog
    features : function that returns the items of the log with the features of a given model
    **options : of :func:`rankwright.online_eval.compare_on_log`. Without ``propensity`` it is
        estimated: from items that were shown at several positions, else by regression EM.
    """
    from rankwright.feedback.clicks.propensity import find_propensities
    from rankwright.online_eval import compare_on_log

    tables = {name: features(model) for name, model in models.items()}
    log = _with_features(log, tables.values())
    scores, propensity = {}, options.pop("propensity", None)
    modeled = options.get("method", "pbm") in ("pbm", "doubly_robust")
    modeled |= options.get("measure") == "DCG"
    for name, model in models.items():
        items = tables[name]
        rows = log.rows_in(items)
        scores[name] = score_items(model, items, name)[rows]
        if propensity is None and modeled:
            propensity, how = find_propensities(log, items)
            if how == "regression_em":
                warnings.warn(
                    "each item of the log has the same position in all sessions, so propensities "
                    "are estimated from item features (regression EM), which is less reliable. "
                    "Give propensities, or "
                    "swap or shuffle some lists.",
                    DegenerateDataWarning,
                    stacklevel=2,
                )
    return compare_on_log(log, scores, propensity=propensity, **options)


def _with_features(log: ImpressionLog, tables: Iterable[Items]) -> ImpressionLog:
    """The log without lists of which no item has features, such as those of a recommender."""
    for items in tables:
        missing = log.rows_in(items) < 0
        absent = np.logical_and.reduceat(missing, log.starts[:-1])
        if (missing != absent[log.session]).any():
            raise DataError(
                "some items of the log have no features. Add them to the feature table."
            )
        log = log.take(~absent) if absent.any() else log
    return log


def score_items(system: Any, items: Items, name: str = "the system") -> Any:
    if hasattr(system, "decision_function"):
        return system.decision_function(items.X, items.qid)
    if len(system) != items.n_items:
        raise DataError(
            f"{name} has {len(system)} scores and the data {items.n_items} items: give one score "
            "per item, in the same order."
        )
    return system


def _qrels_of(items: Items, data: str) -> Qrels:
    if items.docid is None or items.qid is None:
        raise DataError(
            f"{data} has no document ids, so a run cannot be evaluated on it. Give qrels, or data "
            "with a qid and a docid in every line."
        )
    return Qrels.from_arrays(items.qid.astype(str), items.docid, items.y)


def _check_queries(run: Run, qrels: Qrels, name: str, data: str) -> None:
    """Judged queries that a run does not answer count as failures: warn of them."""
    answered, judged = set(map(str, run.queries)), list(map(str, qrels.queries))
    missing = [query for query in judged if query not in answered]
    if len(missing) == len(judged):
        raise DataError(
            f"{name} and {data} have no query in common: the run has {_some(run.queries)}, the "
            f"judgments have {_some(judged)}. Use the same query ids in both."
        )
    if missing:
        warnings.warn(
            f"{name} does not answer {len(missing):,} of the {len(judged):,} judged queries "
            f"({_some(missing)}), which count as failures.",
            DegenerateDataWarning,
            stacklevel=3,
        )


def _some(queries: Sequence[object] | NDArray[Any]) -> str:
    more = f" and {len(queries) - 3:,} more" if len(queries) > 3 else ""
    return ", ".join(map(str, queries[:3])) + more


def describe_file(
    path: str | os.PathLike[str],
    kind: str | None = None,
    *,
    ratings: Mapping[str, Any] | None = None,
    log: ImpressionLog | None = None,
    **options: Any,
) -> Description:
    """Describe the content of a model or data file, as ``rankwright info`` prints it.

    Parameters
    ----------
    path : path of a model, items, a TREC run, qrels, ratings, a log of impressions, or pairs
    kind : type of the content, as in :func:`rankwright.validate`; None detects it
    ratings : how to read ratings, as in :func:`rankwright.read_ratings`
    log : what the store of a service holds, from :func:`rankwright.service.read_log`
    **options : how to read items, as in :func:`rankwright.read_items`
    """
    from rankwright.data.io.conversion import read_data
    from rankwright.data.io.ratings import read_ratings
    from rankwright.data.validation import describe

    kind = kind or detect_kind(path)
    if kind == "model":
        about = describe_model(path)
    elif log is not None:
        about = describe(log)
    elif kind == "ratings":
        about = describe(read_ratings(path, duplicates="keep", **(ratings or {})))
    else:
        kind = options.get("format") or detect_format(path) or "letor" if kind == "items" else kind
        about = describe(read_data(path, kind, **options))
    return Description(file=os.fspath(path), format=kind, **about)


def describe_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a model file, as ``rankwright info`` prints it."""
    with refusing(path):
        try:
            manifest, arrays = read_file(path)
        except NotModelFile:  # of another library
            return _describe_scorer(load_scorer(path))
    about: dict[str, Any] = {"kind": manifest.model.kind}
    if manifest.served is None:  # not a scorer of rows: a recommender, a learned fusion
        rankwright.load(path)  # raises if the file is damaged
    else:
        about |= _describe_scorer(load_scorer(path))
    about |= {
        "written_by": f"rankwright {manifest.library}, format {manifest.format}",
        "arrays": len(arrays),
        "numbers": int(sum(array.size for array in arrays.values())),
    }
    if manifest.encoding is not None:
        columns = manifest.encoding.columns
        about["columns"] = {column.name: column.kind for column in columns}
        about["levels"] = {c.name: list(c.levels) for c in columns if c.levels}
    if manifest.provenance is not None:
        about["provenance"] = manifest.provenance.to_dict()
    return about


def card(path: str | os.PathLike[str]) -> str:
    """A model card as Markdown, from what a model file says about itself."""
    about = describe_model(path)
    made = about.get("provenance")
    provenance = None if made is None else msgspec.convert(made, Provenance)
    if provenance is not None:
        about["digest"] = f"`{rankwright.model_digest(path)}`"
    return model_card(about, provenance, os.path.basename(os.fspath(path)))


def _describe_scorer(scorer: SavedScorer) -> dict[str, Any]:
    names = scorer.feature_names
    made: dict[str, Any] = {}
    if isinstance(scorer.encoding, FittedFeatures):
        texts = scorer.encoding.knowledge.texts
        made = {"feature_set": scorer.encoding.kinds, "fields": list(scorer.encoding.fields)}
        made["vocabulary"] = {field: len(known.terms) for field, known in texts.items()}
    return {
        "kind": scorer.kind,
        "scored_by": scorer.scorer.kind,
        "n_features": scorer.n_features,
        "features": None if names is None else list(names[:20]),
        "takes_missing": scorer.allow_nan,
        **made,
    }
