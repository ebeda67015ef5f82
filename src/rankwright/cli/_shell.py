"""What every verb shares: options, the data that they name, notes and results.

Results go to standard output or to a file, notes to standard error. A field of a group of options
is called as the parameter of the library that it sets; errors speak of options.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from os.path import isfile
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

import rankwright as rw
from rankwright.data.io.files import STDIN, check_outputs, naming, write_lines
from rankwright.exceptions import Message, ParameterError, Setting

if TYPE_CHECKING:
    from cyclopts import Token

    from rankwright.data.behavior.impressions import ImpressionLog
    from rankwright.data.behavior.interactions import Interactions
    from rankwright.data.behavior.ratings import Ratings
    from rankwright.data.items import Items
    from rankwright.features.judged import TextCollection

option_names: dict[str, str] = {}  # parameters of the library -> options of the verb that runs

# Control characters but tab and newline, and those that turn the direction of text around.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escape_controls(text: str) -> str:
    """Text from data that cannot command a terminal."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def note(text: str) -> None:
    """Print a line to standard error; pipes carry results only."""
    from rankwright.runtime import progress

    progress.say(escape_controls(text))


def note_content(path: str, content: Items | Ratings | Interactions | ImpressionLog) -> None:
    """Say what was read from a file."""
    note(f"{path}: {content.facts()}")


def to_json(content: object) -> str:
    """A result as JSON; NaN and infinite values become null, other objects are as they print."""
    return json.dumps(_plain(content), indent=1, ensure_ascii=False, default=repr) + "\n"


def answer(json: bool, text: object, content: Mapping[str, Any], output: str | None = None) -> None:
    """Write a result: the text, or its content as JSON."""
    write_result([to_json(content) if json else f"{text}\n"], output)


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def command(*words: str) -> str:
    """A command, ready to be copied; without words this call."""
    return shlex.join(["rankwright", *(words or sys.argv[1:])])


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what takes time while it runs, then its seconds in a line."""
    from rankwright.runtime import progress

    start = time.perf_counter()
    with progress.task(what):
        yield
    note(f"{what}: {time.perf_counter() - start:.1f} s")


def check_targets(*inputs: str | None, **outputs: str | None) -> None:
    """Refuse outputs, by option, that cannot be written or would replace what is read."""
    from rankwright.data.io.items import group_file

    for option, path in outputs.items():
        if path in ("-", STDIN):
            raise ParameterError(f"--{option} -: it is written to a file only. Give its name.")
    named = [(option if option == "TARGET" else f"--{option}", p) for option, p in outputs.items()]
    groups = [group_file(path) for path in inputs if path is not None and isfile(path)]
    check_outputs([*inputs, *groups], named)


def write_ranking(
    rows: Iterable[Any], path: str | None, run_name: str | None, about: dict[str, Any] | None
) -> None:
    """Write ordered lists: as JSON with ``about``, as a TREC run with a name, else as a table."""
    from rankwright.data.io.trec import ranking_lines, ranking_lists

    content = None if about is None else to_json({**about, "queries": ranking_lists(rows)})
    write_result(ranking_lines(rows, run_name) if content is None else [content], path)


def write_result(lines: Iterable[str], path: str | None = None) -> None:
    """Write lines to standard output, or to a file that appears when complete."""
    if path is None:
        with naming("standard output"):
            sys.stdout.writelines(lines)
            sys.stdout.flush()
        return
    write_lines(path, lines)
    note(f"written: {path}")


def _check_run_name(type_: object, name: str) -> None:
    if name.split() != [name]:
        raise ValueError("The name of a TREC run has no blanks.")


def _numbers(type_: object, tokens: Sequence[Token]) -> list[float]:
    try:
        return [float(word) for word in split(token.value for token in tokens)]
    except ValueError:
        raise ValueError("write numbers with commas, such as 1,0.6,0.4") from None


def _to_stdout(type_: object, tokens: Sequence[Token]) -> str | None:
    return None if tokens[0].value == STDIN else str(tokens[0].value)


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
OrStdout = Annotated[str | None, Parameter(converter=_to_stdout)]
Output = Annotated[OrStdout, _option("A file instead of standard output.", alias="-o")]
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lt=65536))]
Propensity = Annotated[
    list[float] | None,
    _option("Chance that a position is examined: 1,0.6,0.4; else estimated.", converter=_numbers),
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
        format: The format, if it is not detected.
        y: Column of the grade, by name or position from 0; by default grade, label, rating, ...
        qid: Column of the query; by default qid, query, query id, session, ...
        docid: Column of the id; by default docid, document, id, item, product, url, ...
        features: A column to use as a feature; may be repeated. By default all others.
        drop: A column that is not a feature; may be repeated.
        one_hot: A column to read as text, such as a number of a category; may be repeated.
        kinds: What a column is: --kind size=text, number, boolean, date, codes or drop; may be
            repeated. By default it is found out.
        weight: Column of the training weight of each item.
        decimal: The decimal point of a CSV file.
        on_bad_line: What to do with a malformed line of a LETOR file: stop (error), or skip it.
        group: LightGBM's file of query sizes, for LETOR without qid; by default DATA.query, .group.
    """

    format: Annotated[Format | None, Parameter(name="--read-as")] = None
    y: str | None = None
    qid: str | None = None
    docid: str | None = None
    features: Annotated[list[str], Parameter(name="--feature")] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    one_hot: list[str] = field(default_factory=list)
    kinds: Annotated[list[str], Parameter(name="--kind")] = field(default_factory=list)
    weight: Annotated[str | None, Parameter(name="--weight-column")] = None
    decimal: Literal[".", ","] = "."
    on_bad_line: Literal["error", "skip"] = "error"
    group: str | None = None

    def parameters(self, path: str) -> dict[str, Any]:
        """The parameters of ``read_items`` for this file."""
        from rankwright.data.columns import parse_kinds
        from rankwright.data.io.items import group_file

        group = self.group
        if group is None and (group := group_file(path)) is not None:
            note(f"{path}: the number of lines of each query is read from {group}")
        kinds = parse_kinds(self.kinds) or None
        return asdict(self) | {"group": group, "kinds": kinds, "verbose": False}

    def kind(self, path: str) -> str:
        """What a file holds; with options for a table, items whatever its columns are called."""
        from rankwright.data.io.items import detect_kind

        return detect_kind(path, self.format, by_columns=self == type(self)())

    def read(self, path: str, **more: Any) -> rw.Items:
        return rw.read_items(path, **self.parameters(path), **more)

    def for_workers(self, engine: str, used: Iterable[str] = (), **unused: Any) -> dict[str, Any]:
        """The parameters (by default all but ``group``) with which workers read; refuse others."""
        options = asdict(self)
        used = set(used) or options.keys() - {"group"}
        changed = {name for name, value in options.items() if value != vars(type(self)())[name]}
        unused |= dict.fromkeys(changed - used, True)
        refuse(UNREAD.format(engine), {option_names[name]: value for name, value in unused.items()})
        return {name: options[name] for name in used}

    def columns(self) -> list[str]:
        """The options that say how to read the columns: the next command needs them too."""
        names = ("y", "qid", "docid", "grades")
        given = {f"--{name}": getattr(self, name, None) for name in names}
        given |= {"--decimal": self.decimal} if self.decimal != "." else {}
        return [word for name, column in given.items() if column for word in (name, column)]


@Parameter(name="*", group=Group("Features from texts", sort_key=11))
@dataclass(frozen=True)
class TextOptions:
    """Features from texts: DATA then has the columns query, document and grade.

    Args:
        documents: The fields of documents, by id: JSONL, CSV, TSV or Parquet.
        queries: Lines with a query id, a tab and the text; or JSONL or CSV with id and fields.
    """

    documents: str | None = None
    queries: str | None = None

    def collection(self) -> TextCollection | None:
        """The documents and queries, if there are any."""
        if self.documents is None:
            if self.queries is not None:
                raise ParameterError("--queries are texts of a collection: give its --documents.")
            return None
        from rankwright.features.judged import TextCollection

        with working(f"reading {self.documents}"):
            return TextCollection(self.documents, self.queries)


@dataclass(frozen=True)
class GradedOptions(TableOptions):
    """How to read the data.

    Args:
        grades: The grades of text labels: --grades "Exact=3,Irrelevant=0".
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
        events: Read ratings as events; a table without a column of ratings is always read so.
        at_least: Read only ratings of this value or more, as events.
        weight: Column of the weight of an event; by default weight, count, quantity, plays, ...
        time: Column of the time of an event; by default time, timestamp, date, ...
        event: Column of the type of an event; by default event, event_type, action, ...
        event_weight: The weight of a type of events: --event-weight purchase=5; repeat it for each
            type. 0 drops the events of a type, and a negative weight is a dislike.
        item_features: A table of titles, numbers and categories of items, also of new ones.
        user_features: A table that describes the users.
    """

    events: bool = False
    at_least: float | None = None
    weight: Annotated[str | None, Parameter(name="--weight-column")] = None
    time: Annotated[str | None, Parameter(name="--time-column")] = None
    event: Annotated[str | None, Parameter(name="--event-column")] = None
    event_weight: list[str] = field(default_factory=list)
    item_features: str | None = None
    user_features: str | None = None

    def weights(self) -> dict[str, float] | None:
        """The weights of types of events, or None."""
        pairs = [word.rpartition("=") for word in self.event_weight]
        try:
            return {name: float(text) for name, _, text in pairs} or None
        except ValueError:
            raise ParameterError("--event-weight: write TYPE=WEIGHT, such as view=1.") from None

    def features(self) -> dict[str, Any]:
        """Arguments of ``Recommender.fit``."""
        paths = {"item_features": self.item_features, "user_features": self.user_features}
        return {name: rw.read_attributes(path) for name, path in paths.items() if path is not None}

    def read(self, path: str, reading: RatingsOptions, duplicates: str) -> Any:
        """Ratings or interactions, as the file has them."""
        given = reading.parameters(weight=self.weight, time=self.time, event=self.event)
        how: dict[str, Any] = {"events": self.events, "at_least": self.at_least}
        return rw.read_feedback(path, duplicates=duplicates, **how, **given)


def spelled(text: str, **names: str) -> str:
    """A message with the options of this command in the place of parameters.

    >>> spelled(Message("give ", Setting("qid", "search term"), " or ", Setting("one_hot", ["a"])),
    ...         qid="--qid", one_hot="--one-hot")
    "give --qid 'search term' or --one-hot a"
    """
    options = option_names | names

    def option(setting: Setting) -> str:
        if setting.parameter not in options:
            return str(setting)
        values = setting.value if isinstance(setting.value, list) else [setting.value]
        given = [value for value in values if value is not ... and value is not True]
        if isinstance(setting.value, dict):
            given = [f"{name}={value}" for name, value in setting.value.items()]
        words = [f"{value:g}" if isinstance(value, float) else str(value) for value in given]
        return " ".join([options[setting.parameter], *map(shlex.quote, words)])

    return text.spelled(option) if isinstance(text, Message) else text


def refuse(reason: str, options: dict[str, Any]) -> None:
    """Refuse options that are set although they are not used here."""
    for name, value in options.items():
        if value:
            raise ParameterError(f"{name} {reason}")


def split(words: Iterable[str]) -> list[str]:
    """Words that were given separately or with commas."""
    return [part.strip() for word in words for part in word.split(",")]


def read_log_features(log: str, features: str | None, table: TableOptions, **more: Any) -> rw.Items:
    """The features of the items of a log, from a file of their own or from its other columns."""
    if features is None:
        from rankwright.service.learning.labels import read_impression_features

        return read_impression_features(log)
    return table.read(features, graded=False, **more)


def note_about(items: rw.Items, path: str, y: str | None = None) -> None:
    """Print what a user should know about items before they are used."""
    from rankwright.data.columns import KINDS
    from rankwright.data.io.items import is_plain
    from rankwright.data.validation import reading_notes

    roles = [f"{r.kind} is {r.name} ({r.why})" for r in items.read if r.kind not in KINDS]
    if len(roles) < len(items.read) and not is_plain(items):
        note(spelled(items.reading))
    elif roles:
        note(f"{path}: {', '.join(roles)}")
    for text in reading_notes(items, y):
        note(f"{path}: {spelled(text)}")
