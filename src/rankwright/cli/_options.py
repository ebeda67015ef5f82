"""Options that verbs share, and the data that they name; errors speak of options.

A field of a group is called as the parameter of the library that it sets.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

import rankwright as rw
from rankwright.cli._console import note
from rankwright.exceptions import ParameterError


def _check_run_name(type_: Any, name: str) -> None:
    if name.split() != [name]:
        raise ValueError("The name of a TREC run has no blanks.")


def _numbers(type_: Any, tokens: Any) -> list[float]:
    try:
        return [float(word) for word in split(token.value for token in tokens)]
    except ValueError:
        raise ValueError("write numbers with commas, such as 1,0.6,0.4") from None


def _option(help: str, **more: Any) -> Parameter:
    return Parameter(help=help, **more)


# Options of several verbs.
SEED = validators.Number(gte=0, lt=2**32)
_FROM_ONE = Parameter(validator=validators.Number(gte=1))
Count = Annotated[int, _FROM_ONE]
MaybeCount = Annotated[int | None, _FROM_ONE]  # cyclopts 4 checks no part of a union
Cluster = Annotated[
    str | None,
    _option("Workers read DATA, a file, folder or glob: address of a Dask scheduler, or local:4."),
]
Cutoff = Annotated[int | None, _FROM_ONE, _option("At most this many items of each query.")]
Data = Annotated[str, _option("Items: LETOR, CSV, TSV, JSONL or Parquet; - is standard input.")]
Format = Literal["letor", "csv", "tsv", "jsonl", "parquet", "run", "qrels", "ratings"]
Json = Annotated[bool, _option("Print JSON instead of text.")]
Like = Annotated[
    Literal["trec_eval", "letor3", "lightgbm", "xgboost", "sklearn", "ranx"] | None,
    _option("Use the conventions of this tool (with qrels, by default trec_eval's)."),
]
Measures = Annotated[list[str], Parameter(alias="-m")]
ModelFile = Annotated[str, _option("A model file, written by `rankwright train`.")]
NewModel = Annotated[str, _option("Where to write the model.", alias="-o")]
Output = Annotated[str | None, _option("A file instead of standard output.", alias="-o")]
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lt=65536))]
Propensity = Annotated[
    list[float] | None,
    _option(
        "The chance that position 1, 2, ... is examined: 1,0.6,0.4. By default estimated.",
        converter=_numbers,
    ),
]
RandomState = Annotated[int, _option("Seeds everything random.", validator=SEED)]
Report = Annotated[str | None, _option("Write a page with tables and charts to this HTML file.")]
RunName = Annotated[str, _option("The name of the run.", validator=_check_run_name)]
Settings = Annotated[list[str], _option("A parameter of the ranker: --set C=0.1; may be repeated.")]


UNREAD = "with {}: not used where workers read the files. Leave it out, or use one machine."


@Parameter(name="*", group=Group("How to read the data", sort_key=10))
@dataclass(frozen=True)
class TableOptions:
    """How to read the data.

    Args:
        format: The format, if neither the extension nor the first line tells.
        y: Column of the grade, by name or position from 0; by default grade, label, rating, ...
        qid: Column of the query; by default qid, query, query id, session, ...
        docid: Column of the id; by default docid, document, id, item, product, url, ...
        features: A column to use as a feature; may be repeated. By default all others.
        drop: A column that is not a feature; may be repeated.
        one_hot: A column of words; each word becomes a feature of 0 and 1. May be repeated.
        weight: Column of the weight of an item in training.
        decimal: The decimal point of a CSV file.
        on_bad_line: Stop at a bad line of a LETOR file (error), or leave it out (skip).
        group: LightGBM's file of query sizes, for LETOR without qid; by default DATA.query, .group.
    """

    format: Annotated[Format | None, Parameter(name="--read-as")] = None
    y: str | None = None
    qid: str | None = None
    docid: str | None = None
    features: Annotated[list[str], Parameter(name="--feature")] = dataclasses.field(
        default_factory=list
    )
    drop: list[str] = dataclasses.field(default_factory=list)
    one_hot: list[str] = dataclasses.field(default_factory=list)
    weight: Annotated[str | None, Parameter(name="--weight-column")] = None
    decimal: Literal[".", ","] = "."
    on_bad_line: Literal["error", "skip"] = "error"
    group: str | None = None

    def parameters(self, path: str) -> dict[str, Any]:
        """The parameters of ``read_items`` for this file."""
        from rankwright.data.io.items import group_file

        group = self.group
        if group is None and (group := group_file(path)) is not None:
            note(f"{path}: the number of lines of each query is read from {group}")
        return dataclasses.asdict(self) | {"group": group}

    def read(self, path: str, **more: Any) -> rw.Items:
        return rw.read_items(path, **self.parameters(path), **more)

    def of_many_files(self, cluster: str, unused: dict[str, Any]) -> dict[str, Any]:
        """The parameters of ``read_items`` where workers read; other options are refused."""
        refuse(UNREAD.format(f"--cluster {cluster}"), {"--group": self.group, **unused})
        return {key: value for key, value in dataclasses.asdict(self).items() if key != "group"}

    def columns(self) -> list[str]:
        """The options that say how to read the columns: the next command needs them too."""
        names = ("y", "qid", "docid", "grades")
        given = {f"--{name}": getattr(self, name, None) for name in names}
        given |= {"--decimal": self.decimal} if self.decimal != "." else {}
        return [word for name, column in given.items() if column for word in (name, column)]


@Parameter(name="*", group=Group("How to read the data", sort_key=10))
@dataclass(frozen=True)
class GradedOptions(TableOptions):
    """How to read the data.

    Args:
        grades: What words in the column of the grade mean: --grades "Exact=3,Irrelevant=0".
    """

    grades: str | None = None


@Parameter(name="*", group=Group("How to read ratings", sort_key=11))
@dataclass(frozen=True)
class RatingsOptions:
    """How to read ratings.

    Args:
        format: movielens-1m, movielens-100k, jester, book-crossing, netflix, csv or parquet.
        user: Column of the user, by name or position from 0; by default user, customer, ...
        item: Column of the item; by default item, movie, product, book, isbn, ...
        value: Column of the rating; by default rating, value, score, stars, ...
    """

    format: Annotated[str | None, Parameter(name="--ratings-format")] = None
    user: Annotated[str | None, Parameter(name="--user-column")] = None
    item: Annotated[str | None, Parameter(name="--item-column")] = None
    value: Annotated[str | None, Parameter(name="--rating-column")] = None

    def parameters(self, **more: str | None) -> dict[str, Any]:
        """The parameters of ``read_ratings``: columns that are given, a number as a position."""
        columns = {key: name for key, name in (vars(self) | more).items() if name is not None}
        return {key: int(name) if name.isdigit() else name for key, name in columns.items()}


@Parameter(name="*", group=Group("How to read events", sort_key=12))
@dataclass(frozen=True)
class EventOptions:
    """Events without ratings.

    Args:
        events: Take a table with ratings as events too; a table without a rating column always is.
        at_least: With --events: only ratings of this value or more.
        weight: Column of the weight of an event; by default weight, count, quantity, plays, ...
        time: Column of the time of an event; by default time, timestamp, date, ...
        item_features: A table of titles, numbers, categories of items; new items get lists too.
        user_features: A table that describes the users.
    """

    events: bool = False
    at_least: float | None = None
    weight: Annotated[str | None, Parameter(name="--weight-column")] = None
    time: Annotated[str | None, Parameter(name="--time-column")] = None
    item_features: str | None = None
    user_features: str | None = None

    def features(self) -> dict[str, Any]:
        """Arguments of ``Recommender.fit``."""
        paths = {"item_features": self.item_features, "user_features": self.user_features}
        return {name: rw.read_features(path) for name, path in paths.items() if path is not None}

    def read(self, path: str, reading: RatingsOptions, duplicates: str) -> Any:
        """Ratings or interactions, as the file has them."""
        given = reading.parameters(weight=self.weight, time=self.time)
        if self.events or self.at_least is not None:
            return rw.read_interactions(path, at_least=self.at_least, **given)
        return rw.read_feedback(path, duplicates=duplicates, **given)


# Parameters of the library -> options of the verb that runs, which sets this.
option_names: dict[str, str] = {}


def in_options(text: str, **names: str) -> str:
    """A message about parameters of a function, as one about options.

    >>> in_options("give qid='search term', one_hot=['color'] or format=...",
    ...            qid="--qid", one_hot="--one-hot", format="--read-as")
    "give --qid 'search term', --one-hot color or --read-as..."
    """
    names = option_names | names

    def option(match: re.Match[str]) -> str:
        if match[3] is not None:
            return f"{names[match[1]]} {shlex.quote(match[3])}"
        return names[match[1]] + (" " if re.match(r"[\w-]", match.string[match.end() :]) else "")

    pattern = rf"\b({'|'.join(names)})=(?:True\b|\[?(['\"])(.*?)\2\]?)?"
    return re.sub(pattern, option, text) if names else text


def refuse(reason: str, options: dict[str, Any]) -> None:
    """Refuse options that are set although they are not used here."""
    for name, value in options.items():
        if value:
            raise ParameterError(f"{name} {reason}")


def split(words: Iterable[str]) -> list[str]:
    """Words that were given separately or with commas."""
    return [part.strip() for word in words for part in word.split(",")]


def read_log(path: str) -> rw.ImpressionLog:
    """A log of impressions from a file, or from the store of ``rankwright serve``."""
    with open(path, "rb") as file:
        is_store = file.read(15) == b"SQLite format 3"
    return rw.service.read_impressions(path) if is_store else rw.read_log(path)


def read_log_features(log: str, features: str | None, table: TableOptions, **more: Any) -> rw.Items:
    """The features of the items of a log, from a file of their own or from its other columns."""
    if features is None:
        return rw.data.read_log_features(log)
    return table.read(features, graded=False, **more)


def note_missing_queries(items: rw.Items, path: str) -> None:
    """Say that data without queries are one long list."""
    if items.qid is not None:
        return
    if items.feature_names is None:
        fault, fix = "no line has a qid", "Give LightGBM's file of query sizes with --group"
    else:
        fault = "no column is called qid, query, session or the like"
        fix = "Name the column of the query with --qid"
    note(f"{path}: {fault}, so all items are taken as one list. {fix}.")
