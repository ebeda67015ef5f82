"""``rankwright data``: which public data sets are known, and what is in one."""

from __future__ import annotations

from cyclopts import App
from rich.console import Console

from rankwright.data.datasets import list_datasets, load_dataset

__all__ = ["app"]

app = App(name="data", help="Known public data sets.")


@app.command(name="list")
def list_() -> None:
    """Name every data set that can be loaded."""
    for name in list_datasets():
        print(name)


@app.command
def show(name: str) -> None:
    """Load a data set (from RANKWRIGHT_DATA, the cache, or its publisher) and describe it.

    Parameters
    ----------
    name
        One of the names that `rankwright data list` prints.
    """
    Console().print(load_dataset(name))
