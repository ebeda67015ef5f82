"""``rankwright data``: which public data sets are known, and what is in one."""

from __future__ import annotations

from typing import Any

from cyclopts import App

import rankwright as rw
from rankwright.cli.console import note, print_json
from rankwright.exceptions import ParameterError

app = App(name="data", help="Known public data sets.")


@app.command(name="list")
def list_(*, json: bool = False) -> None:
    """Name every data set that can be loaded.

    Parameters
    ----------
    json
        JSON instead of lines.
    """
    sets = rw.list_datasets()
    if json:
        print_json(sets)
        return
    width = max(map(len, sets))
    for name, about in sets.items():
        print(f"{name:{width}}  {about}")


@app.command
def show(
    name: str,
    /,
    *,
    fold: int | None = None,
    json: bool = False,
) -> None:
    """Load a data set (from RANKWRIGHT_DATA, the cache, or its publisher) and describe it.

    Parameters
    ----------
    name
        One of the names that `rankwright data list` prints.
    fold
        For the LETOR sets: one of the folds, 1 to 5.
    json
        JSON instead of a line.
    """
    found = rw.load_dataset(name, **({} if fold is None else {"fold": fold}))
    if json:
        print_json({"name": name, "about": rw.list_datasets()[name], "content": str(found)})
    else:
        print(found)


@app.command
def write(
    name: str,
    target: str,
    /,
    *,
    fold: int | None = None,
    part: str = "train",
    json: bool = False,
) -> None:
    """Write a data set of graded items as a file, or a set of ratings as CSV.

    Parameters
    ----------
    name
        One of the names that `rankwright data list` prints.
    target
        The new file; its ending tells the format (.letor, .csv, .jsonl, .parquet, with or
        without .gz).
    fold
        For the LETOR sets: one of the folds, 1 to 5.
    part
        With a fold: train, vali or test.
    json
        JSON instead of a remark.
    """
    found: Any = rw.load_dataset(name, **({} if fold is None else {"fold": fold}))
    if fold is not None:
        found = getattr(found, part, None)
    if isinstance(found, rw.Items):
        from rankwright.cli.convert import write_items

        write_items(found, target)
    elif isinstance(found, rw.Ratings):
        _write_ratings(found, target)
    else:
        raise ParameterError(f"{name}: only graded items and ratings can be written as a file.")
    if json:
        print_json({"name": name, "target": target, "n_rows": len(found)})
    else:
        note(f"{target}: {len(found):,} rows")


def _write_ratings(ratings: rw.Ratings, target: str) -> None:
    from rankwright.cli.files.pipes import write_text

    users, items = ratings.users[ratings.user].tolist(), ratings.items[ratings.item].tolist()
    rows = zip(users, items, ratings.value.tolist(), strict=True)
    lines = (f"{user},{item},{value:g}\n" for user, item, value in rows)
    write_text(["user,item,value\n", *lines], target)
