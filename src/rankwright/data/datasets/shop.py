"""A table as a shop has it, with its traps: empty cells, dates, ids, a leak, new levels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright._typing import IntArray
from rankwright.data.io.conversion import TABLE_FORMATS, write_columns
from rankwright.data.io.items import format_of_name
from rankwright.data.vocabulary import row_numbers
from rankwright.exceptions import DataError, ParameterError

N_BRANDS, N_NEW_BRANDS = 273, 9
_CATEGORIES = ("audio", "camera", "computer", "garden", "kitchen", "phone", "sport", "toys")
_COLORS = ("black", "blue", "green", "red", "silver", "white")
_DEVICES = ("desktop", "phone", "tablet")
_SHARES = (0.55, 0.2, 0.15, 0.1)  # of the grades 0 to 3


class ShopTable(dict[str, NDArray[Any]]):
    """Columns by name, as every reader of tables takes them: ``pandas.DataFrame(table)`` works too.

    >>> table = ShopTable(a=np.array([1, 2]), b=np.array(["x", "y"], object))
    >>> table.take([1])["b"]
    array(['y'], dtype=object)
    """

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.values()), ()))

    def take(self, rows: IntArray) -> ShopTable:
        """Some of the rows, by a mask, row numbers or a slice."""
        index = row_numbers(rows, self.n_rows)
        return ShopTable({name: column[index] for name, column in self.items()})

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV, TSV, JSONL or Parquet file, as the extension says; None and NaN are gaps."""
        kind = format_of_name(path)
        if kind not in TABLE_FORMATS:
            raise DataError(
                "the extension gives no format of tables.",
                file=path,
                fix=f"Use .{', .'.join(TABLE_FORMATS)}.",
            )
        write_columns(self, path, kind)


def make_shop(n_queries: int = 500, *, random_state: int = 0) -> ShopTable:
    """Draw the searches of a shop: 25 products each, with the grade of each product.

    The columns are ``query``, ``product``, ``grade``; numbers with gaps (``price``, ``stars``,
    ``stock``); text (``category``, ``brand`` with 273 levels, ``color`` with empty cells,
    ``device``); ``cat_match``, true or false; ``launch_date``; and two traps: ``row_id``, which
    numbers the rows, and ``orders_after``, which is counted after the search and equals the grade
    in 92 % of the rows. The searches are in the order of time: in the last fifth, a few products
    have brands that were never seen before, so ``table.take(slice(0, 4 * n // 5))`` is a training
    set with levels unseen in it.

    Parameters
    ----------
    n_queries : int >= 5
    random_state : int

    Returns
    -------
    table : ShopTable
        A dict of columns. ``table.write(path)`` writes CSV.

    Examples
    --------
    >>> shop = make_shop(5, random_state=0)
    >>> shop.n_rows, [*shop][:4]
    (125, ['query', 'product', 'grade', 'price'])
    """
    if n_queries < 5:
        raise ParameterError(
            f"n_queries={n_queries!r}: must be an integer >= 5.", parameter="n_queries"
        )
    rng = np.random.default_rng(random_state)
    n_items = 25
    n = n_queries * n_items
    query = np.repeat(np.arange(n_queries), n_items)

    n_products = max(1000, 4 * n_queries)
    quality = rng.normal(size=N_BRANDS + N_NEW_BRANDS)
    popularity = 1.0 / np.arange(1, N_BRANDS + 1) ** 0.6
    brand_of = rng.choice(N_BRANDS, n_products, p=popularity / popularity.sum())
    category_of = rng.integers(len(_CATEGORIES), size=n_products)
    color_of = rng.integers(len(_COLORS), size=n_products)
    age_of = rng.integers(0, 1500, size=n_products)  # days before the newest launch
    price_of = np.exp(rng.normal(3.0 + 0.3 * quality[brand_of], 0.8))
    stars_of = np.clip(3.6 + 0.4 * quality[brand_of] + rng.normal(0, 0.6, n_products), 1, 5)

    wanted = rng.integers(len(_CATEGORIES), size=n_queries)
    device = rng.integers(len(_DEVICES), size=n_queries)
    thrift = rng.normal(0.7, 0.5, n_queries) + 0.5 * (device == 1)  # phones buy cheaper things
    likes = rng.integers(len(_COLORS), size=n_queries)

    product = np.concatenate(
        [rng.choice(n_products, n_items, replace=False) for _ in range(n_queries)]
    )
    in_category = rng.random(n) < 0.5  # retrieval finds the category in half of the cases
    same = category_of[product] == wanted[query]
    match = in_category | same
    category = np.where(in_category, wanted[query], category_of[product])
    brand = brand_of[product].copy()
    late = query >= n_queries - max(1, n_queries // 5)
    new = late & (rng.random(n) < 0.05)
    brand[new] = N_BRANDS + rng.integers(N_NEW_BRANDS, size=int(new.sum()))
    stock = rng.poisson(np.exp(rng.normal(1.0, 1.0, n)))

    value = 1.4 * match - 0.5 * thrift[query] * (np.log(price_of[product]) - 3.0)
    value += 0.9 * quality[brand] + 0.3 * (stars_of[product] - 3.6) - 0.0006 * age_of[product]
    value += 0.5 * (color_of[product] == likes[query]) + 0.4 * (stock > 0)
    value += rng.normal(0, 1.0, n)
    grade = np.searchsorted(np.quantile(value, np.cumsum(_SHARES)[:-1]), value)

    leak = grade.copy()
    wrong = rng.random(n) < 0.107
    leak[wrong] = rng.integers(0, 4, int(wrong.sum()))
    color = np.array(_COLORS, object)[color_of[product]]
    color[rng.random(n) < 0.1] = None
    stars = np.round(stars_of[product], 1)
    stars[rng.random(n) < 0.05] = np.nan
    newest = np.datetime64("2024-06-30")
    names = [f"brand_{k:03d}" for k in range(N_BRANDS + N_NEW_BRANDS)]
    return ShopTable(
        query=np.array([f"search {number:05d}" for number in query.tolist()], object),
        product=np.array([f"p{number:06d}" for number in product.tolist()], object),
        grade=grade,
        price=np.round(price_of[product], 2),
        stars=stars,
        stock=stock,
        category=np.array(_CATEGORIES, object)[category],
        brand=np.array(names, object)[brand],
        color=color,
        device=np.array(_DEVICES, object)[device[query]],
        cat_match=match,
        launch_date=(newest - age_of[product]).astype(str).astype(object),
        row_id=np.arange(100_001, 100_001 + n),
        orders_after=leak,
    )
