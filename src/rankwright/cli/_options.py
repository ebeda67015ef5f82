"""Options that verbs share, and the files that they name; errors speak of options."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

import rankwright as rw
from rankwright.cli._console import STDIN, note, working
from rankwright.data.io.files import naming
from rankwright.exceptions import DataError, FileFormatError, ModelFileError, ParameterError


def _check_run_name(type_: Any, name: str) -> None:
    if name.split() != [name]:
        raise ValueError("The name of a TREC run has no blanks.")


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
Like = Literal["trec_eval", "letor3", "lightgbm", "xgboost", "sklearn", "ranx"]
Measures = Annotated[list[str], _option("NDCG@10, AP, P@5, RR, ...; use commas.", alias="-m")]
ModelFile = Annotated[str, _option("A model file, written by `rankwright train`.")]
NewModel = Annotated[str, _option("Where to write the model.", alias="-o")]
Output = Annotated[str | None, _option("A file instead of standard output.", alias="-o")]
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lt=65536))]
RandomState = Annotated[int, _option("Seeds everything random.", validator=SEED)]
Report = Annotated[str | None, _option("Write a page with tables and charts to this HTML file.")]
RunName = Annotated[str, _option("The name of the run.", validator=_check_run_name)]
Settings = Annotated[list[str], _option("A parameter of the ranker: --set C=0.1; may be repeated.")]


@Parameter(name="*", group=Group("How to read the data", sort_key=10))
@dataclass(frozen=True)
class TableOptions:
    """How to read the data.

    Parameters
    ----------
    read_as
        The format, if neither the extension nor the first line tells.
    y
        Column of the grade, by name or position from 0; by default grade, label, rating, ...
    qid
        Column of the query; by default qid, query, query id, session, ...
    docid
        Column of the id; by default docid, document, id, item, product, url, ...
    feature
        A column to use as a feature; may be repeated. By default all others.
    drop
        A column that is not a feature; may be repeated.
    one_hot
        A column of words; each word becomes a feature of 0 and 1. May be repeated.
    weight_column
        Column of the weight of an item in training.
    decimal
        The decimal point of a CSV file.
    on_bad_line
        Stop at a bad line of a LETOR file (error), or leave it out (skip).
    group
        For a LETOR file without qid: LightGBM's file of the number of lines of each query. By
        default DATA.query or DATA.group, where there is one.
    """

    read_as: Format | None = None
    y: str | None = None
    qid: str | None = None
    docid: str | None = None
    feature: list[str] = dataclasses.field(default_factory=list)
    drop: list[str] = dataclasses.field(default_factory=list)
    one_hot: list[str] = dataclasses.field(default_factory=list)
    weight_column: str | None = None
    decimal: Literal[".", ","] = "."
    on_bad_line: Literal["error", "skip"] = "error"
    group: str | None = None

    def parameters(self, path: str) -> dict[str, Any]:
        """The parameters of ``read_items`` for this file."""
        given = dataclasses.asdict(self) | {"group": self.group or _group_beside(path)}
        given |= {"format": given.pop("read_as"), "features": given.pop("feature")}
        return given | {"weight": given.pop("weight_column")}

    def read(self, path: str, **more: Any) -> rw.Items:
        with local_file(path) as local:
            return rw.read_items(local, **self.parameters(path), **more)

    def of_many_files(self, cluster: str, **unused: Any) -> dict[str, Any]:
        """The parameters of ``read_items`` where workers read; other options are refused."""
        refuse_with(f"--cluster {cluster}", group=self.group, **unused)
        given = self.parameters("-")
        return {name: value for name, value in given.items() if name != "group"}

    def of_another_file(self) -> TableOptions:
        """The same options for other data, which have their own groups."""
        return dataclasses.replace(self, group=None)

    def columns(self) -> list[str]:
        """The options that say how to read the columns: the next command needs them too."""
        given = {"--y": self.y, "--qid": self.qid, "--docid": self.docid}
        given |= {"--decimal": self.decimal} if self.decimal != "." else {}
        return [word for name, column in given.items() if column for word in (name, column)]


@Parameter(name="*", group=Group("How to read the data", sort_key=10))
@dataclass(frozen=True)
class GradedOptions(TableOptions):
    """How to read the data.

    Parameters
    ----------
    grades
        What words in the column of the grade mean: --grades "Exact=3,Substitute=2,Irrelevant=0".
    """

    grades: str | None = None

    def columns(self) -> list[str]:
        return super().columns() + (["--grades", self.grades] if self.grades else [])


def _group_beside(path: str) -> str | None:
    from rankwright.data.io.items import group_file

    sizes_file = None if path in ("-", STDIN) else group_file(path)
    if sizes_file is not None:
        note(f"{path}: the number of lines of each query is read from {sizes_file}")
    return sizes_file


@Parameter(name="*", group=Group("How to read ratings", sort_key=11))
@dataclass(frozen=True)
class RatingsOptions:
    """How to read ratings.

    Parameters
    ----------
    ratings_format
        movielens-1m, movielens-100k, jester, book-crossing, netflix, csv or parquet.
    user_column
        Column of the user in a table, by name or position from 0; by default user, customer, ...
    item_column
        Column of the item; by default item, movie, product, book, isbn, ...
    rating_column
        Column of the rating; by default rating, value, score, stars, ...
    """

    ratings_format: str | None = None
    user_column: str | None = None
    item_column: str | None = None
    rating_column: str | None = None

    def parameters(self) -> dict[str, Any]:
        given = {"user": self.user_column, "item": self.item_column, "value": self.rating_column}
        return {"format": self.ratings_format, **_columns(given)}


@Parameter(name="*", group=Group("How to read events", sort_key=12))
@dataclass(frozen=True)
class EventOptions:
    """Events without ratings.

    Parameters
    ----------
    events
        Take a table with ratings as events too; a table without a rating column always is.
    at_least
        With --events: only ratings of this value or more.
    weight_column
        Column of the weight of an event; by default weight, count, quantity, plays, ...
    time_column
        Column of the time of an event; by default time, timestamp, date, ...
    item_features
        A table that describes the items: titles, numbers, categories. New items get lists too.
    user_features
        A table that describes the users.
    """

    events: bool = False
    at_least: float | None = None
    weight_column: str | None = None
    time_column: str | None = None
    item_features: str | None = None
    user_features: str | None = None

    def features(self) -> dict[str, rw.Features]:
        """Arguments of ``Recommender.fit``."""
        tables = {}
        for name in ("item_features", "user_features"):
            if (path := getattr(self, name)) is not None:
                with local_file(path, {"id": name}) as local:
                    tables[name] = rw.read_features(local)
        return tables

    def read(self, path: str, reading: RatingsOptions, duplicates: str) -> Any:
        """Ratings or interactions, as the file has them."""
        columns = _columns({"weight": self.weight_column, "time": self.time_column})
        given = reading.parameters() | columns
        with local_file(path, RATING_OPTIONS) as local:
            if self.events or self.at_least is not None:
                return rw.read_interactions(local, at_least=self.at_least, **given)
            return rw.read_feedback(local, duplicates=duplicates, **given)


def _columns(given: dict[str, str | None]) -> dict[str, Any]:
    return {
        role: int(column) if column.isdigit() else column
        for role, column in given.items()
        if column is not None
    }


# Parameters that errors name -> options of the same meaning.
ITEM_OPTIONS = {name: name for name in ("y", "qid", "docid", "drop", "one_hot", "against")}
ITEM_OPTIONS |= {"format": "read-as", "features": "feature", "decimal": "decimal"}
ITEM_OPTIONS |= {"grades": "grades", "weight": "weight-column", "write_as": "write-as"}
RATING_OPTIONS = {"format": "ratings-format", "separator": "ratings-format"}
RATING_OPTIONS |= {"user": "user-column", "item": "item-column", "value": "rating-column"}
RATING_OPTIONS |= {"duplicates": "duplicates", "weight": "weight-column", "time": "time-column"}
EXPORT_OPTIONS = {name: name for name in ("missing", "dialect", "constant", "check", "to")}
EXPORT_OPTIONS |= {name: name for name in ("feature_names", "feature_set", "allow_order_only")}
SERVE_OPTIONS = {name: name for name in ("host", "learn", "retention_days", "rate_limit")} | {
    "tokens": "token-file"
}


def in_options(text: str, names: dict[str, str] = ITEM_OPTIONS) -> str:
    """A message about parameters of a function, as one about options.

    >>> in_options("give qid='search term', one_hot=['color'] or format=...")
    "give --qid 'search term', --one-hot color or --read-as..."
    """

    def option(match: re.Match[str]) -> str:
        name = names[match[1]].replace("_", "-")
        if match[3] is not None:
            return f"--{name} {shlex.quote(match[3])}"
        return f"--{name}" + (" " if re.match(r"[\w-]", match.string[match.end() :]) else "")

    return re.sub(rf"\b({'|'.join(names)})=(?:True\b|\[?(['\"])(.*?)\2\]?)?", option, text)


@contextmanager
def translating_errors(names: dict[str, str]) -> Iterator[None]:
    """Errors of the library name parameters; those that leave the block name options."""
    try:
        yield
    except FileFormatError as error:
        parts = (error.path, error.line, error.column, error.reason, error.text)
        raise FileFormatError(*parts, in_options(error.fix, names)) from None
    except (DataError, ModelFileError, ParameterError) as error:
        raise type(error)(in_options(str(error), names)) from None


@contextmanager
def local_file(path: str, names: dict[str, str] = ITEM_OPTIONS) -> Iterator[str]:
    """A path that can be opened repeatedly: standard input and pipes are copied to a file first.

    Errors raised in the block name ``<stdin>``, and options instead of parameters.
    """
    is_pipe = os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode)
    if path not in ("-", STDIN) and not is_pipe:
        with translating_errors(names):
            yield path
        return
    shown = path if is_pipe else STDIN
    with tempfile.NamedTemporaryFile(prefix="rankwright-") as copy, translating_errors(names):
        with (
            open(path, "rb") if is_pipe else nullcontext(sys.stdin.buffer) as pipe,
            naming(copy.name),
        ):
            shutil.copyfileobj(pipe, copy)
            copy.flush()
        try:
            yield copy.name
        except FileFormatError as error:
            name = shown if error.path == copy.name else error.path
            parts = (error.line, error.column, error.reason, error.text, error.fix)
            raise FileFormatError(name, *parts) from None
        except (DataError, ModelFileError, ParameterError) as error:
            raise type(error)(str(error).replace(copy.name, shown)) from None


def refuse_with(engine: str, **options: Any) -> None:
    """Refuse options that are set although they are not used where workers read the files."""
    for name, value in options.items():
        if value:
            raise ParameterError(
                f"--{name.replace('_', '-')} with {engine}: not used where workers read the files. "
                "Leave it out, or use one machine."
            )


def refuse_two_pipes(*paths: str) -> None:
    """Standard input can be read only once."""
    if sum(path in ("-", STDIN) for path in paths) > 1:
        raise ParameterError("- is standard input: only one of the files can come from it.")


def load_system(path: str, *kinds: str) -> Any:
    """A model, a TREC run or scores, also from standard input."""
    from rankwright.persist.systems import load_system

    with local_file(path) as local:
        return load_system(local, kinds)


def parse_settings(settings: list[str], example: str = "--set n_estimators=200") -> dict[str, Any]:
    """``name=value`` words as a mapping of texts; ``example`` shows the option that has them."""
    option = example.partition(" ")[0]
    pairs: dict[str, Any] = {}
    for word in settings:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"{option} {word}: write name=value, such as {example}.")
        name = name.strip().replace("-", "_")
        if name in pairs:
            raise ParameterError(f"{option} {word}: {name} is given twice. Give it once.")
        pairs[name] = value.strip()
    return pairs


def parse_propensity(text: str | None) -> list[float] | None:
    """Numbers with commas."""
    try:
        return None if text is None else [float(word) for word in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"--propensity {text}: write numbers with commas, such as 1,0.6,0.4."
        ) from None


def read_log(path: str) -> rw.ImpressionLog:
    """A log of impressions from a file, a pipe, or the store of ``rankwright serve``."""
    with local_file(path) as local:
        with open(local, "rb") as file:
            is_store = file.read(15) == b"SQLite format 3"
        return rw.service.read_impressions(local) if is_store else rw.read_log(local)


def read_log_features(log: str, features: str | None, table: TableOptions, **more: Any) -> rw.Items:
    """The features of the items of a log, from a file of their own or from its other columns."""
    if features is not None:
        return table.read(features, graded=False, **more)
    with local_file(log, {"features": "features"}) as local:
        return rw.data.read_log_features(local)


def read_training_data(
    data: str,
    valid: str | None,
    table: TableOptions,
    ranker: Any,
    read: Callable[[str], rw.Items] | None = None,
) -> tuple[rw.Items, rw.Items | None]:
    """Training and validation items; missing values are refused if the ranker needs all."""
    from rankwright.data.io.items import first_missing
    from rankwright.data.validation.findings import click_findings

    with working(f"reading {data}"):
        items = (read or table.read)(data)
        other = None if valid is None else table.of_another_file().read(valid, like=items)
    note_items(items, data)
    for finding in click_findings(items, table.y):
        note(f"warning: {data}: {finding.reason}. Learn from the log itself with --clicks.")
    if ranker is None or ranker.__sklearn_tags__().input_tags.allow_nan:
        return items, other
    for path, some in ((data, items), (valid, other)):
        missing = None if some is None else first_missing(some)
        if missing is not None:
            raise DataError(
                f"{path}: {type(ranker).__name__} needs every value, and {missing}. Fill them, "
                "or use a ranker that learns from missing values, such as RankBoost."
            )
    return items, other


def note_missing_queries(items: rw.Items, path: str) -> None:
    """Say that a table without a column of queries is one long list."""
    if items.qid is None and items.feature_names is not None:
        note(
            f"{path}: no column is called qid, query, session or the like, so all items are taken "
            "as one list. Name the column of the query with --qid."
        )


def note_items(items: rw.Items, path: str) -> None:
    """Say what was read to train on; refuse a single grade."""
    note(f"{path}: {str(items).removeprefix('Items(').removesuffix(')')}")
    if items.bad_lines:
        first = items.bad_lines[0]
        note(f"{len(items.bad_lines)} bad lines left out, first line {first.line}: {first.reason}")
    note_missing_queries(items, path)
    if items.y.min() == items.y.max():
        raise DataError(
            f"{path}: every item has the grade {items.y[0]:g}, so there is no order to learn. "
            "Check that this is the column of the grades (--y)."
        )


def split_measures(measures: list[str]) -> list[str]:
    """Names of measures, given separately or with commas outside of parentheses.

    >>> split_measures(["NDCG@10,AP", "NDCG(gain=linear,discount=log2)@10"])
    ['NDCG@10', 'AP', 'NDCG(gain=linear,discount=log2)@10']
    """
    names = re.split(r",(?![^()]*\))", ",".join(measures))
    return [name.strip() for name in names if name.strip()]
