"""A feature set as it is declared: in Python, in TOML, or chosen from the columns of a table."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankwright._typing import FloatArray
from rankwright.data.columns import MANY_WORDS, kind_of, left_out
from rankwright.exceptions import DataError, ParameterError
from rankwright.features.base import QUERY, Feature, Rows, as_list, query_column
from rankwright.features.text_features import (
    BM25,
    BM25F,
    EditSimilarity,
    ExactMatch,
    FieldLength,
    IDFSum,
    NGrams,
    Phrase,
    Prefix,
    Proximity,
    TermCoverage,
)
from rankwright.features.tokenizer import Tokenizer, text_of
from rankwright.features.value_features import (
    Age,
    Bucket,
    ClickPopularity,
    Column,
    Cosine,
    Count,
    Dot,
    LogOf,
    Rate,
    Ratio,
    Recency,
)

SHORT = 30  # mean words of a field whose letters and exact matches are compared
USUAL_TEXTS = frozenset({
    "title", "name", "heading", "text", "body", "content", "description", "abstract", "summary",
    "snippet", "product_title", "keywords",
})  # fmt: skip
SAMPLE = 2_000  # cells that are looked at to choose features

Plain = (
    BM25
    | BM25F
    | TermCoverage
    | IDFSum
    | Phrase
    | Proximity
    | ExactMatch
    | Prefix
    | EditSimilarity
    | FieldLength
    | NGrams
    | Cosine
    | Dot
    | Age
    | Recency
    | Rate
    | Count
    | ClickPopularity
    | Column
    | LogOf
    | Ratio
    | Bucket
)


class WithinQuery(Feature, frozen=True):
    """Another feature, compared with the other documents of the query.

    Parameters
    ----------
    feature : Feature
        A feature with one column.
    how : "rank", "z" or "share_of_best"
        Its rank, 1 for the largest value (equal values share the mean rank); its distance from the
        mean in standard deviations (0 if all are equal); or its share of the largest value (0 if
        that is not positive). Missing values stay missing.
    name : str or None
        The name of the feature; None is that of the other one, and ``how``.

    Examples
    --------
    >>> from rankwright.features import Column, FeatureSet
    >>> features = FeatureSet([WithinQuery(Column("price"), "rank")])
    >>> rows = {"query": ["a", "a", "b"], "price": [5.0, 7.0, 1.0]}
    >>> features.fit_transform(rows).ravel().tolist()
    [2.0, 1.0, 1.0]
    """

    feature: Plain
    how: Literal["rank", "z", "share_of_best"] = "rank"
    name: str | None = None

    def columns(self) -> list[str]:
        return self.feature.columns()

    def corpora(self) -> list[tuple[str, ...]]:
        return self.feature.corpora()

    def fitted(self, rows: Rows) -> Any:
        return msgspec.structs.replace(self, feature=self.feature.fitted(rows))

    def check(self) -> None:
        self.feature.check()
        if len(self.feature.output_names()) > 1:
            raise self._refuse("feature", "a feature with one column")

    def output_names(self) -> list[str]:
        return [self.name or f"{self.feature.output_names()[0]}_{self.how}"]

    def compared(self, values: FloatArray) -> FloatArray:
        """The values of one query, compared with each other."""
        known = values[~np.isnan(values)]
        if not len(known):
            return values
        if self.how == "rank":
            above = len(known) - np.searchsorted(np.sort(known), values, side="right")
            same = np.searchsorted(np.sort(known), values, side="right") - np.searchsorted(
                np.sort(known), values, side="left"
            )
            return np.where(np.isnan(values), np.nan, above + (same + 1) / 2)
        if self.how == "z":
            mean = float(known.sum() / len(known))
            spread = float(np.sqrt(((known - mean) ** 2).sum() / len(known)))
            flat = spread <= 1e-12 * max(abs(mean), 1e-300)
            return (values - mean) * 0.0 if flat else (values - mean) / spread
        best = float(known.max())
        return values / best if best > 0 else values * 0.0


AnyFeature = Plain | WithinQuery
CLASSES: dict[str, type[Feature]] = {
    cls.__name__: cls
    for cls in (
        *(BM25, BM25F, TermCoverage, IDFSum, Phrase, Proximity, ExactMatch, Prefix),
        *(EditSimilarity, FieldLength, NGrams, Cosine, Dot, Age, Recency, Rate, Count),
        *(ClickPopularity, Column, LogOf, Ratio, Bucket, WithinQuery),
    )
}


class Declaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Features and tokenizer, as a TOML file or a model file holds them."""

    features: tuple[AnyFeature, ...]
    tokenizer: Tokenizer = Tokenizer()
    max_terms: int | None = None

    def check(self) -> None:
        """Raise a ParameterError unless every feature is valid and has a name of its own."""
        if not self.features:
            raise ParameterError("a feature set needs one or more features.", parameter="features")
        for feature in self.features:
            feature.check()
        self.tokenizer.check()
        names = [name for feature in self.features for name in feature.output_names()]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ParameterError(
                f"two features are called {twice[0]!r}. Give one of them a name=.",
                parameter="features",
            )


def declaration_of(content: Mapping[str, Any], where: str) -> Declaration:
    """A declaration from the content of a TOML or JSON document; ``where`` names it in errors.

    >>> declaration_of({"features": [{"kind": "BM25", "field": "title"}]}, "x.toml").features
    (BM25(field='title', k1=1.2, b=0.75, query='text', name=None),)
    """
    listed = content.get("features")
    if not isinstance(listed, list):
        raise DataError(
            "there is no list of features.",
            file=where,
            fix="Write [[features]] with kind and field for each feature.",
        )
    for number, entry in enumerate(listed, start=1):
        inner = entry.get("feature") if isinstance(entry, dict) else None
        for part in (entry, inner):
            kind = part.get("kind") if isinstance(part, dict) else None
            if part is not None and not (isinstance(kind, str) and kind in CLASSES):
                raise DataError(
                    f"feature {number} has the unknown kind {kind!r}.",
                    file=where,
                    fix=f"Use one of {', '.join(CLASSES)}.",
                )
        try:
            msgspec.convert(entry, CLASSES[entry["kind"]])
        except msgspec.ValidationError as error:
            names = [n for n in CLASSES[entry["kind"]].__struct_fields__ if n not in LEARNED]
            raise DataError(
                f"feature {number}, {entry['kind']}: {error}.",
                file=where,
                fix=f"Its parameters are {', '.join(names)}.",
            ) from None
    try:
        declaration = msgspec.convert(content, Declaration)
    except msgspec.ValidationError as error:
        raise DataError(f"{error}.", file=where) from None
    declaration.check()
    return declaration


LEARNED = ("encoding", "newest")


def read_declaration(path: str | os.PathLike[str]) -> Declaration:
    """Read a declaration from a TOML file."""
    with open(path, "rb") as file:
        try:
            content = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"it is not TOML ({error}).", file=path) from None
    return declaration_of(content, os.fspath(path))


def to_toml(declaration: Declaration) -> str:
    """A declaration as TOML, without what was learned.

    >>> print(to_toml(Declaration((BM25("title"), WithinQuery(Column("price"), "z")))))
    [[features]]
    kind = "BM25"
    field = "title"
    <BLANKLINE>
    [[features]]
    kind = "WithinQuery"
    feature = {kind = "Column", field = "price"}
    how = "z"
    <BLANKLINE>
    """
    content: dict[str, Any] = msgspec.to_builtins(declaration)
    lines = []
    if declaration.max_terms is not None:
        lines += [f"max_terms = {declaration.max_terms}", ""]
    if declaration.tokenizer != Tokenizer():
        given = {k: v for k, v in content["tokenizer"].items() if v not in (None, [], ())}
        lines += ["[tokenizer]", *(f"{k} = {_toml(v)}" for k, v in given.items()), ""]
    for feature in content["features"]:
        entries = {k: v for k, v in feature.items() if k not in LEARNED}
        lines += ["[[features]]", *(f"{k} = {_toml(v)}" for k, v in entries.items()), ""]
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inner = {k: v for k, v in value.items() if k not in LEARNED}
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in inner.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return msgspec.json.encode(value).decode()


def choose_features(
    table: Mapping[str, Any], left: Sequence[str] = ()
) -> tuple[tuple[AnyFeature, ...], dict[str, str]]:
    """A sensible set of features for a table of fields, and why each column is used or not.

    Fields of text get BM25, coverage, phrase, proximity and length; short ones also exact match,
    prefix and similarity of letters; several fields also BM25F. Dates get their age, other columns
    are taken as :class:`Column`. ``left`` are columns to leave out, such as ids.
    """
    features: list[AnyFeature] = []
    why: dict[str, str] = {}
    texts = []
    has_query = QUERY in table or query_column("text") in table
    for name, cells in table.items():
        if name in left or name == QUERY or name.startswith(f"{QUERY}."):
            continue
        listed = as_list(cells)
        sample = listed[:: max(1, len(listed) // SAMPLE)]
        if any(isinstance(c, list | tuple | np.ndarray) and _is_vector(c) for c in sample):
            has_other = query_column("vector") in table
            why[name] = "vectors" if has_other else "left out: the query has no vector"
            features += [Cosine(name)] if has_other else []
            continue
        mean = _mean_words(name, sample)
        kind = "text" if mean is None else kind_of(name, sample)[0]
        if kind == "text" and has_query:
            words = MANY_WORDS if mean is None else mean
            usual = name.lower() in USUAL_TEXTS
            if usual or words > MANY_WORDS / 2 or left_out(name, sample, "text"):
                texts.append((name, words))
                why[name] = f"text, {words:.1f} words on average"
                continue
        if reason_out := left_out(name, sample, kind):
            why[name] = f"left out: {reason_out}"
            continue
        why[name] = kind
        features.append(Age(name) if kind == "date" else Column(name))
    for name, mean in texts:
        features += [BM25(name), TermCoverage(name), IDFSum(name), Phrase(name), Proximity(name)]
        features += [FieldLength(name)]
        if mean <= SHORT:
            features += [ExactMatch(name), Prefix(name), EditSimilarity(name), NGrams(name)]
    if len(texts) > 1:
        features.append(BM25F(tuple(name for name, _ in texts)))
    if texts:
        first = texts[0][0]
        best: Any = BM25F(tuple(n for n, _ in texts)) if len(texts) > 1 else BM25(first)
        features += [WithinQuery(best, "rank"), WithinQuery(best, "share_of_best")]
    return tuple(features), why


def _is_vector(cell: Sequence[object] | NDArray[Any]) -> bool:
    return len(cell) > 1 and all(isinstance(v, int | float | np.number) for v in cell)


def _mean_words(name: str, sample: Sequence[Any]) -> float | None:
    """The mean number of words of a column, None for a column of lists of text."""
    if any(isinstance(cell, list | tuple | np.ndarray) for cell in sample):
        return None
    texts = [text_of(name, row, cell) for row, cell in enumerate(sample)]
    known = [text for text in texts if text]
    return sum(len(text.split()) for text in known) / len(known) if known else 0.0
