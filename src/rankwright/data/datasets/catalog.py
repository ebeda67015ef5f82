"""The public data sets that load_dataset knows: content, source and terms of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rankwright.data.datasets import loading
from rankwright.data.datasets.loading import Archive, find_folder
from rankwright.data.io.letor.reader import read_letor
from rankwright.data.io.ratings import read_ratings
from rankwright.data.io.tables import read_table
from rankwright.data.io.trec import read_judges
from rankwright.exceptions import ParameterError


@dataclass(frozen=True)
class Dataset:
    """One data set of the catalog."""

    about: str
    load: Callable[..., Any]  # of a DatasetFolder and the options
    files: tuple[str, ...]  # in the folder, each plain or gzipped
    address: str
    terms: str
    folder: str = ""  # if it is not the name of the data set
    archive: Archive | None = None
    options: tuple[str, ...] = ()


def _ratings_file(
    about: str, format: str, file: str, address: str, terms: str, **more: Any
) -> Dataset:
    load = partial(loading.load_file, read=read_ratings, file=file, format=format)
    return Dataset(about, load, (file,), address, terms, **more)


_GROUPLENS = "https://files.grouplens.org/datasets/movielens/"
_MOVIELENS_TERMS = (
    "research use with acknowledgement of GroupLens (Harper & Konstan 2015); no redistribution "
    "without permission, no commercial use"
)
_LETOR = (
    "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/"
)
_LETOR_TERMS = "research use under the agreement with Microsoft Research"
_UCI = "https://archive.ics.uci.edu"
_UCI_TERMS = "CC BY 4.0, cite the donors (UCI Machine Learning Repository)"
_FOLDS = tuple(f"Fold{k}/{part}.txt" for k in range(1, 6) for part in ("train", "vali", "test"))


def _ratings() -> dict[str, Dataset]:
    return {
        "movielens-1m": _ratings_file(
            "1,000,209 ratings of 3,706 films by 6,040 users, 1 to 5 stars",
            "movielens-1m",
            "ratings.dat",
            "https://grouplens.org/datasets/movielens/1m/",
            _MOVIELENS_TERMS,
            archive=Archive(_GROUPLENS + "ml-1m.zip", "c4d9eecfca2ab87c1945afe126590906"),
        ),
        "movielens-100k": _ratings_file(
            "100,000 ratings of 1,682 films by 943 users, 1 to 5 stars",
            "movielens-100k",
            "u.data",
            "https://grouplens.org/datasets/movielens/100k/",
            _MOVIELENS_TERMS,
            archive=Archive(_GROUPLENS + "ml-100k.zip", "0e33842e24a9c977be4e0107933c0723"),
        ),
        "jester": _ratings_file(
            "1,810,455 ratings of 100 jokes by 24,983 users, -10 to 10",
            "jester",
            "jester-data-1.csv",
            "https://eigentaste.berkeley.edu/dataset/ (part 1, saved as CSV)",
            "free for research; cite Goldberg et al., Information Retrieval 4(2), 2001",
        ),
        "book-crossing": _ratings_file(
            "433,671 explicit ratings of 185,973 books by 77,805 users, 1 to 10",
            "book-crossing",
            "BX-Book-Ratings.csv",
            "http://www2.informatik.uni-freiburg.de/~cziegler/BX/",
            "free for research; cite Ziegler et al., WWW 2005",
            options=("implicit",),
        ),
        "netflix-sample": Dataset(
            "109,065 training and 3,326 test ratings by 1,000 customers, 1 to 5 stars",
            partial(
                loading.load_pair,
                read=read_ratings,
                train="training.txt",
                test="testing.txt",
                format="netflix",
            ),
            ("training.txt", "testing.txt"),
            "withdrawn by Netflix in 2010; search for copies of this sample by the file names",
            "non-commercial research use (Netflix Prize 2006)",
        ),
    }


def _judgments() -> dict[str, Dataset]:
    return {
        "cystic-fibrosis": Dataset(
            "4,819 query-document pairs of 100 queries, each scored 0, 1, 2 by four judges",
            partial(loading.load_file, read=read_judges, file="cfquery"),
            ("cfquery",),
            "https://people.ischool.berkeley.edu/~hearst/irbook/cfc.html",
            "see its file copyright; cite Shaw, Wood, Wood & Tibbo, LISR 13, 1991",
        ),
        "trec9-ohsumed": Dataset(
            "7 runs over 63 topics of OHSUMED 1988-91, with qrels of 1 or 2",
            partial(loading.load_track, qrels="qrels.ohsu.88-91", runs="runs/*"),
            ("qrels.ohsu.88-91", "runs"),
            "https://trec.nist.gov/data/t9_filtering.html",
            "experimental use only; the data are incomplete and out of date (Hersh et al. 1994)",
        ),
        "trec-robust03": Dataset(
            "17 runs over the 100 topics of the TREC 2003 Robust track, with qrels of 0, 1, 2",
            partial(loading.load_track, qrels="qrels.robust2003.txt", runs="runs/input.*"),
            ("qrels.robust2003.txt", "runs"),
            "https://trec.nist.gov/data/t12_robust.html",
            "runs belong to their participants; research use (NIST)",
        ),
    }


def _letor() -> dict[str, Dataset]:
    letor4 = partial(Dataset, address=_LETOR + "letor-4-0/", terms=_LETOR_TERMS, options=("fold",))

    def in_parts(about: str, n_features: int, pattern: str) -> Dataset:
        load = partial(loading.load_letor_parts, n_features=n_features, pattern=pattern)
        return letor4(about, load, tuple(pattern.format(k) for k in range(1, 6)))

    return {
        "letor3-ohsumed": Dataset(
            "LETOR 3.0 OHSUMED: 106 queries, 16,140 documents, 45 features, grades 0 to 2",
            loading.load_ohsumed,
            tuple(f"QueryLevelNorm/{file}" for file in _FOLDS),
            _LETOR + "letor-3-0/",
            _LETOR_TERMS,
            options=("fold", "version"),
        ),
        "letor4-mq2008": letor4(
            "LETOR 4.0 MQ2008: 784 queries, 15,211 documents, 46 features, grades 0 to 2",
            partial(loading.load_letor_folds, n_features=46),
            _FOLDS,
        ),
        "letor4-mq2007-partial": in_parts(
            "LETOR 4.0 MQ2007, 59,135 of its 69,623 documents: 1,692 queries, 46 features",
            46,
            "S{}.partial.txt",
        ),
        "letor4-mq2007-agg": in_parts(
            "MQ2007 rank aggregation: 1,692 queries, 69,623 documents, positions in 21 lists",
            21,
            "A{}.txt",
        ),
        "letor4-mq2008-agg": in_parts(
            "MQ2008 rank aggregation: 784 queries, 15,211 documents, positions in 25 lists",
            25,
            "A{}.txt",
        ),
        "mslr-web-sample": Dataset(
            "MSLR-WEB, 5,000 lines of training and of test: 136 features, grades 0 to 4",
            partial(
                loading.load_pair,
                read=read_letor,
                train="msn1.fold1.train.5k.txt",
                test="msn1.fold1.test.5k.txt",
                n_features=136,
            ),
            ("msn1.fold1.train.5k.txt", "msn1.fold1.test.5k.txt"),
            "https://www.microsoft.com/en-us/research/project/mslr/",
            _LETOR_TERMS,
        ),
        "lightgbm-rank": Dataset(
            "LightGBM's example: 3,005 and 768 documents, 300 features, grades 0 to 4",
            partial(loading.load_grouped, n_features=300),
            ("rank.train", "rank.train.query", "rank.test", "rank.test.query"),
            "https://github.com/microsoft/LightGBM/tree/master/examples/lambdarank",
            "MIT license",
        ),
    }


def _table(about: str, folder: str, file: str, address: str, terms: str, **columns: Any) -> Dataset:
    load = partial(loading.load_file, read=read_table, file=file, **columns)
    return Dataset(about, load, (file,), address, terms, folder=f"ordinal/{folder}")


def _ordinal() -> dict[str, Dataset]:
    uci = partial(_table, folder="uci", address=_UCI, terms=_UCI_TERMS, y=-1)
    boston = {
        "address": "http://lib.stat.cmu.edu/datasets/boston",
        "terms": "StatLib; its column B is contested",
    }
    tables = {
        "uci-abalone": uci("4,177 abalones, 8 measures, rings", file="abalone.csv", one_hot=[0]),
        "uci-housing": uci(
            "506 districts of Boston, 13 features, value", file="housing.data", **boston
        ),
        "uci-machine-cpu": uci("209 computers, 6 features, performance", file="machine-cpu.csv"),
        "uci-winequality-red": uci(
            "1,599 red wines, 11 measures, quality", file="winequality-red.csv"
        ),
    }
    weka = partial(
        _table,
        folder="ben-david",
        y=-1,
        address="https://www.cs.waikato.ac.nz/ml/weka/datasets.html",
        terms="donated by Arie Ben-David, distributed with WEKA",
    )
    for name, about in {
        "ERA": "1,000 judgments of applicants, 4 features, ranks 1 to 9",
        "ESL": "488 judgments of applicants, 4 features, ranks 1 to 9",
        "LEV": "1,000 evaluations of lecturers, 4 features, ranks 0 to 4",
        "SWD": "1,000 assessments of risk, 10 features, ranks 2 to 5",
    }.items():
        tables[f"ben-david-{name.lower()}"] = weka(about, file=f"{name}.csv")
    binned = partial(
        _table,
        folder="equal-width",
        y="response",
        address="https://github.com/gagolews/ordinal-regression-data",
        terms="compiled by Cena and Gagolewski from Chu's benchmark and UCI",
    )
    for name, size in {
        "abalone": "4,177 rows, 10 ranks",
        "auto": "392 rows, 10 ranks",
        "bostonhousing": "506 rows, 5 ranks",
        "machine": "199 rows, 10 ranks",
        "stock": "950 rows, 5 ranks",
        "wisconsin_breast": "194 rows, 5 ranks",
    }.items():
        tables[f"equal-width-{name}"] = binned(
            f"{name}: {size} of equal width", file=f"{name}_ord.csv"
        )
    return tables


DATASETS: dict[str, Dataset] = {**_ratings(), **_judgments(), **_letor(), **_ordinal()}


def list_datasets() -> dict[str, str]:
    """List the names that :func:`load_dataset` accepts, with a one-line description of each.

    >>> list_datasets()["movielens-1m"]
    '1,000,209 ratings of 3,706 films by 6,040 users, 1 to 5 stars'
    """
    return {name: entry.about for name, entry in DATASETS.items()}


def load_dataset(name: str, **options: Any) -> Any:
    """Load a public data set by name.

    The files, gzipped or not, are read from the folder in the environment variable
    ``RANKWRIGHT_DATA``, or from the cache of the operating system. The MovieLens sets are
    downloaded; for other sets, the error gives the address, the terms of use and the layout.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    **options
        ``fold=1`` .. ``5`` for the LETOR sets (default: all queries together);
        ``version="null"`` or ``"min"`` for ``letor3-ohsumed`` (raw features, missing values as NaN
        or filled); ``implicit=True`` for ``book-crossing`` (keep ratings of 0).

    Returns
    -------
    data : Ratings, Judgments, Items, Partition or Track
        A :class:`Partition` has ``train``, ``vali`` (may be None) and ``test``; a :class:`Track`
        has ``runs`` (by name) and ``qrels``.

    Raises
    ------
    DatasetError
        The data set was not found and could not be downloaded; the message says how to get it.

    Examples
    --------
    >>> load_dataset("movielens-2m")
    Traceback (most recent call last):
    ...
    rankwright.exceptions.ParameterError: unknown data set 'movielens-2m'. Use one of ...
    """
    if name not in DATASETS:
        raise ParameterError(f"unknown data set {name!r}. Use one of {', '.join(DATASETS)}.")
    entry = DATASETS[name]
    for option in options:
        if option not in entry.options:
            known = f"the options {', '.join(entry.options)}" if entry.options else "no options"
            raise ParameterError(f"load_dataset({name!r}, {option}=...): {name} has {known}.")
    folder = entry.folder or name
    how_to_get = (
        f"Get it from: {entry.address}\n"
        f"Terms: {entry.terms}\n"
        f"Layout: a folder {folder} with {', '.join(entry.files)} (each plain or .gz), inside the "
        "folder that RANKWRIGHT_DATA names."
    )
    return entry.load(find_folder(folder, entry.files, entry.archive, how_to_get), **options)
