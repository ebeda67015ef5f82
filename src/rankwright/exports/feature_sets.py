"""A feature set as the features of a search engine: templates, similarities, how equal they are.

Engines cut texts with analyzers of their own and count documents of a shard, so a text feature is
equal at most up to that. What an engine cannot compute is read from a field of the document, which
the user fills.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rankwright.features.base import Feature
from rankwright.features.fitted import FittedFeatures
from rankwright.features.text_features import BM25, ExactMatch, FieldLength, TermCoverage
from rankwright.features.value_features import (
    Age,
    Bucket,
    Column,
    Cosine,
    Dot,
    LogOf,
    Rate,
    Ratio,
    Recency,
)

EQUAL = "equal"
UP_TO_ANALYZER = "equal up to the engine's analyzer"
NOT_EXPRESSIBLE = "not expressible"
ENGINES = ("elasticsearch", "opensearch", "solr", "vespa")
_DAY_MS = 86_400_000


class EngineFeature(NamedTuple):
    """A feature in an engine: its definition (None: read from a field), and how equal it is."""

    name: str
    definition: Any
    statement: str
    note: str = ""


def engine_features(fitted: FittedFeatures, engine: str) -> list[EngineFeature]:
    """What each feature is in an engine, in the order of the model's features."""
    write = {"solr": _solr, "vespa": _vespa}.get(engine, _elasticsearch)
    found = []
    for feature in fitted.declaration.features:
        parts = write(feature)
        names = feature.output_names()
        if parts is None or len(parts) != len(names):
            note = f"{type(feature).__name__} is read from the field of the feature's name"
            parts = [(None, NOT_EXPRESSIBLE, note)] * len(names)
        found += [EngineFeature(name, *part) for name, part in zip(names, parts, strict=True)]
    return found


def similarities(fitted: FittedFeatures) -> dict[str, dict[str, float]]:
    """k1 and b of each field; the first BM25 of a field decides."""
    found: dict[str, dict[str, float]] = {}
    for feature in fitted.declaration.features:
        plain: Any = getattr(feature, "feature", feature)
        if isinstance(plain, BM25):
            found.setdefault(plain.field, {"k1": plain.k1, "b": plain.b})
    return found


def statements(features: list[EngineFeature]) -> dict[str, dict[str, str]]:
    """The statement and the note of each feature."""
    return {
        one.name: {"statement": one.statement, **({"note": one.note} if one.note else {})}
        for one in features
    }


Parts = list[tuple[Any, str, str]] | None
_SHARD = "document frequencies are those of the index, lengths above 40 words are rounded"


def _elasticsearch(feature: Feature) -> Parts:
    if isinstance(feature, BM25) and feature.query == "text":
        query = {"match": {feature.field: "{{query}}"}}
        return [(query, UP_TO_ANALYZER, f"similarity bm25_{feature.field}; {_SHARD}")]
    if isinstance(feature, ExactMatch) and feature.query == "text":
        term = {"term": {f"{feature.field}.exact": "{{query}}"}}
        note = f"needs a keyword sub-field {feature.field}.exact with a lowercase normalizer"
        return [({"constant_score": {"filter": term}}, UP_TO_ANALYZER, note)]
    if isinstance(feature, FieldLength):
        field = f"{feature.field}.length"
        return [(_field(field), UP_TO_ANALYZER, f"needs a token_count sub-field {field}")]
    if isinstance(feature, Column):
        return _levels(feature, _field, lambda field, level: _constant(field, level))
    script = _expression(feature, _Painless())
    if script is None:
        return None
    source = {"source": script, "lang": "painless"}
    scored = {"query": {"match_all": {}}, "script_score": {"script": source}}
    return [({"function_score": scored}, EQUAL, "")]


def _field(name: str) -> dict[str, Any]:
    value = {"field": name}
    return {"function_score": {"query": {"exists": value}, "field_value_factor": value}}


def _constant(field: str, level: str) -> dict[str, Any]:
    return {"constant_score": {"filter": {"term": {field: level}}}}


def _levels(
    feature: Column,
    number: Callable[[str], str | dict[str, Any]],
    level: Callable[[str, str], str | dict[str, Any]],
) -> Parts:
    encoding = feature.encoding
    if encoding is None or feature.field.startswith("query."):
        return None
    if encoding.kind in ("number", "boolean") and not encoding.fill:
        return [(number(feature.field), EQUAL, "")]
    if encoding.kind == "text" and not encoding.has_missing:
        return [(level(feature.field, text), EQUAL, "") for text in encoding.levels]
    return None


def _solr(feature: Feature) -> Parts:
    if isinstance(feature, BM25) and feature.query == "text":
        query = f"{{!edismax qf={feature.field} mm=0 v=${{query}}}}"
        return [(_query(query), UP_TO_ANALYZER, f"BM25SimilarityFactory; {_SHARD}")]
    if isinstance(feature, Column):
        return _levels(feature, _solr_field, lambda f, level: _query(f"{{!term f={f}}}{level}"))
    text = _expression(feature, _SolrFunctions())
    return None if text is None else [(_query(f"{{!func}}{text}"), EQUAL, "in single precision")]


def _query(text: str) -> dict[str, Any]:
    return {"class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": text}}


def _solr_field(name: str) -> dict[str, Any]:
    return {"class": "org.apache.solr.ltr.feature.FieldValueFeature", "params": {"field": name}}


def _vespa(feature: Feature) -> Parts:
    if isinstance(feature, BM25) and feature.query == "text":
        note = f"bm25({feature.field}) with k1 and b of rank-properties, divided by k1 + 1"
        text = f"bm25({feature.field}) / {feature.k1 + 1.0!r}"
        return [(text, UP_TO_ANALYZER, note)]
    if isinstance(feature, TermCoverage) and feature.query == "text":
        note = "for queries without repeated words"
        return [(f"fieldMatch({feature.field}).queryCompleteness", UP_TO_ANALYZER, note)]
    if isinstance(feature, FieldLength):
        return [(f"fieldLength({feature.field})", UP_TO_ANALYZER, "")]
    if isinstance(feature, Dot):
        product = f"sum(query({feature.query}) * attribute({feature.field}))"
        return [(product, EQUAL, "in the precision of the tensor type")]
    if isinstance(feature, Cosine):
        text = f"cosine_similarity(query({feature.query}), attribute({feature.field}), x)"
        return [(text, EQUAL, "in the precision of the tensor type, whose dimension is x")]
    if isinstance(feature, Column):
        return _levels(
            feature,
            lambda name: f"attribute({name})",
            lambda name, level: f'if (attribute({name}) == "{level}", 1, 0)',
        )
    expression = _expression(feature, _RankFunctions())
    return None if expression is None else [(expression, EQUAL, "")]


class _Painless:
    """Expressions of Elasticsearch's and OpenSearch's scripts."""

    def number(self, field: str) -> str:
        return f"doc['{field}'].value"

    def days(self, field: str) -> str:
        return f"doc['{field}'].value.toInstant().toEpochMilli() / {_DAY_MS}.0"

    def log(self, text: str) -> str:
        return f"Math.signum({text}) * Math.log1p(Math.abs({text}))"

    def power(self, exponent: str) -> str:
        return f"Math.pow(2.0, {exponent})"

    def most(self, one: str, other: str) -> str:
        return f"Math.max({one}, {other})"

    def add(self, one: str, other: str) -> str:
        return f"({one} + {other})"

    def subtract(self, one: str, other: str) -> str:
        return f"({one} - {other})"

    def divide(self, one: str, other: str) -> str:
        return f"(({one}) / ({other}))"

    def reaches(self, one: str, edge: float) -> str:
        return f"({one} >= {edge!r} ? 1.0 : 0.0)"


class _SolrFunctions(_Painless):
    """Function queries of Solr."""

    def number(self, field: str) -> str:
        return f"field({field})"

    def days(self, field: str) -> str:
        return f"div(ms({field}),{_DAY_MS})"

    def log(self, text: str) -> str:
        return f"if(gte({text},0),ln(sum(1,{text})),sub(0,ln(sub(1,{text}))))"

    def power(self, exponent: str) -> str:
        return f"pow(2,{exponent})"

    def most(self, one: str, other: str) -> str:
        return f"max({one},{other})"

    def add(self, one: str, other: str) -> str:
        return f"sum({one},{other})"

    def subtract(self, one: str, other: str) -> str:
        return f"sub({one},{other})"

    def divide(self, one: str, other: str) -> str:
        return f"div({one},{other})"

    def reaches(self, one: str, edge: float) -> str:
        return f"if(gte({one},{edge!r}),1,0)"


class _RankFunctions(_Painless):
    """Ranking expressions of Vespa; dates are seconds since 1970."""

    def number(self, field: str) -> str:
        return f"attribute({field})"

    def days(self, field: str) -> str:
        return f"(attribute({field}) / 86400)"

    def log(self, text: str) -> str:
        return f"if ({text} < 0, -log(1 - {text}), log(1 + {text}))"

    def power(self, exponent: str) -> str:
        return f"pow(2, {exponent})"

    def most(self, one: str, other: str) -> str:
        return f"max({one}, {other})"

    def reaches(self, one: str, edge: float) -> str:
        return f"if ({one} >= {edge!r}, 1, 0)"


def _expression(feature: Feature, say: _Painless) -> str | None:
    """A feature of numbers and dates of the document as an expression; None if it is none."""
    if isinstance(feature, LogOf):
        return say.log(say.number(feature.field)) if _is_document(feature.field) else None
    if isinstance(feature, Ratio) and _is_document(feature.field, feature.by):
        return say.divide(say.number(feature.field), say.number(feature.by))
    if isinstance(feature, Bucket) and _is_document(feature.field) and feature.edges:
        text = say.reaches(say.number(feature.field), feature.edges[0])
        for edge in feature.edges[1:]:
            text = say.add(text, say.reaches(say.number(feature.field), edge))
        return text
    if isinstance(feature, Age | Recency) and feature.at is None:
        age = say.subtract(repr(feature.newest), say.days(feature.field))
        if isinstance(feature, Age):
            return age
        return say.power(
            say.subtract("0.0", say.divide(say.most(age, "0.0"), repr(feature.half_life)))
        )
    if isinstance(feature, Rate) and _is_document(feature.clicks, feature.impressions):
        prior = repr(feature.strength * (feature.prior or 0.0))
        clicks = say.add(say.number(feature.clicks), prior)
        return say.divide(clicks, say.add(say.number(feature.impressions), repr(feature.strength)))
    return None


def _is_document(*fields: str) -> bool:
    return not any(field.startswith("query.") for field in fields)


def engine_files(
    fitted: FittedFeatures, engine: str, names: tuple[str, ...], store: str
) -> dict[str, Any]:
    """The files of a feature set for an engine: {suffix: JSON content}.

    ``names`` are those of the features in the exported model.
    """
    features = engine_features(fitted, engine)
    about: dict[str, Any] = {"engine": engine, "features": statements(features)}
    tokenizer = fitted.declaration.tokenizer
    about["analyzer"] = {
        "tokenizer": "words of letters and digits",
        "filters": ["NFKC", "lowercase", *(["stop words"] if tokenizer.stop_words else [])],
        **({"stemmer": tokenizer.stemmer} if tokenizer.stemmer else {}),
        **({"stop_words": list(tokenizer.stop_words)} if tokenizer.stop_words else {}),
    }
    about["similarity"] = similarities(fitted)
    files: dict[str, Any] = {".statements.json": about}
    if engine in ("elasticsearch", "opensearch"):
        listed = [
            {
                "name": name,
                "params": ["query"] if "{{query}}" in str(one.definition) else [],
                "template_language": "mustache",
                "template": one.definition or _field(name),
            }
            for name, one in zip(names, features, strict=True)
        ]
        files[".featureset.json"] = {"featureset": {"name": store, "features": listed}}
        files[".index.json"] = {
            "settings": {
                "similarity": {
                    f"bm25_{field}": {"type": "BM25", **values}
                    for field, values in about["similarity"].items()
                }
            },
            "mappings": {
                "properties": {
                    field: {"type": "text", "similarity": f"bm25_{field}"}
                    for field in about["similarity"]
                }
            },
        }
    elif engine == "solr":
        files[".features.json"] = [
            {"store": store, "name": name, **(one.definition or _solr_field(name))}
            for name, one in zip(names, features, strict=True)
        ]
    return files


def vespa_functions(fitted: FittedFeatures) -> str:
    """The functions of a rank profile that compute the features."""
    lines = []
    for one in engine_features(fitted, "vespa"):
        name = vespa_name(one.name)
        text = one.definition or f"attribute({name})"
        lines.append(f"    function {name}() {{\n        expression: {text}\n    }}\n")
    properties = "".join(
        f"        bm25({field}).{name}: {value!r}\n"
        for field, values in similarities(fitted).items()
        for name, value in values.items()
    )
    if properties:
        lines.append(f"    rank-properties {{\n{properties}    }}\n")
    return "".join(lines)


def vespa_name(name: str) -> str:
    """The name of a feature as the name of a function."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
