"""TableEncoder: tables with text, booleans, dates and gaps become rows of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwright._typing import MatrixLike, TableLike
from rankwright.data.columns import (
    MAX_LEVELS,
    Encoding,
    Read,
    Rules,
    fit_encoding,
    reading_table,
)
from rankwright.data.inputs import columns_of, columns_of_dicts
from rankwright.exceptions import DataError, Message, ParameterError


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table as it comes: numbers, booleans, dates and text, each with missing cells.

    It is the first step of a :class:`~rankwright.RankPipeline`. What it learns (levels, the newest
    date, which columns are left out) is stored in the model file, and new rows are encoded in the
    same way by ``predict``, ``serve`` and :func:`~rankwright.load_scorer`.

    A number or a boolean is one feature, with NaN for a missing value. A date becomes its age in
    days and, if the dates span some weeks or years, its weekday and its month. Text becomes a
    feature of 0 and 1 for each level, and missing is a level of its own. Constant columns, ids and
    free text are left out. ``reading_`` says what was done with each column.

    Parameters
    ----------
    kinds : dict of str to str, or None
        What a column is: ``"number"``, ``"boolean"``, ``"date"``, ``"text"``, ``"codes"`` or
        ``"drop"``. It always wins; other columns are found out. ``"codes"`` is text as one feature,
        the number of the level, for the ``categorical_features`` of LambdaMART.
    max_levels : int >= 1, default 300
        The most levels of a column. Rarer ones, and levels that training did not have, count as
        missing.
    reference : str or None, default None
        A column of dates from which ages are counted, such as the day of the search; None counts
        from the newest date in training.
    fill : bool, default False
        Whether to replace missing numbers, booleans and dates by their median, and add a feature
        that says where, for rankers that need every value.

    Attributes
    ----------
    encoding_ : Encoding
        How each column is encoded.
    reading_ : Message
        The table "column, read as, why".
    feature_names_in_ : (n_columns,) array of str
        The columns of the training table.
    n_features_in_ : int

    Examples
    --------
    >>> import rankwright as rw
    >>> rows = {"price": [9.5, 3.0, 7.0], "color": ["red", None, "blue"]}
    >>> rows["sale"] = [True, False, None]
    >>> encoder = TableEncoder().fit(rows)
    >>> list(encoder.get_feature_names_out())
    ['price', 'color=blue', 'color=red', 'color=(missing)', 'sale']
    >>> encoder.transform([{"price": 1, "color": "red", "sale": None}])
    array([[ 1.,  0.,  1.,  0., nan]])
    >>> ranker = rw.LambdaMART(n_estimators=5, min_samples_leaf=1)
    >>> model = rw.RankPipeline([("encode", TableEncoder()), ("rank", ranker)])
    >>> model.fit(rows, [1, 0, 1]).rank(rows).tolist()
    [1, 3, 2]
    """

    encoding_: Encoding
    reading_: Message
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        max_levels: int = MAX_LEVELS,
        reference: str | None = None,
        fill: bool = False,
    ) -> None:
        self.kinds = kinds
        self.max_levels = max_levels
        self.reference = reference
        self.fill = fill

    @classmethod
    def of(cls, encoding: Encoding, read: tuple[Read, ...] = ()) -> Self:
        """A fitted encoder, from the encoding of items that were read from a table."""
        encoder = cls()
        encoder._set(encoding, list(encoding.sources))
        encoder.reading_ = reading_table(read)
        return encoder

    def fit(self, X: TableLike, y: ArrayLike | None = None) -> Self:
        """Find out what each column is, and learn its levels and dates.

        Parameters
        ----------
        X : a data frame (pandas, polars, pyarrow, DuckDB ...), a dict of columns or a list of dicts
        """
        if not (isinstance(self.max_levels, int) and self.max_levels >= 1):
            raise ParameterError(
                f"TableEncoder(max_levels={self.max_levels!r}): give an integer >= 1.",
                parameter="max_levels",
            )
        table = _table(X)
        rules = Rules(
            kinds=self.kinds or {},
            max_levels=self.max_levels,
            reference=self.reference,
            fill=bool(self.fill),
        )
        encoding, read = fit_encoding(table, rules)
        if not encoding.columns:
            raise DataError(
                "TableEncoder: no column is left to learn from.",
                fix=f"Say what a column is, with kinds=.\n{reading_table(read)}",
            )
        self._set(encoding, list(table))
        self.reading_ = reading_table(read)
        return self

    def _set(self, encoding: Encoding, names: list[str]) -> None:
        self.encoding_ = encoding
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)

    def transform(self, X: Any) -> Any:
        """Encode a table as training was encoded.

        Columns are found by name, in any order; others are ignored. Levels that training did not
        have count as missing, with an UnknownLevelWarning. An array of numbers with a column per
        feature is encoded already (``Items.X``), and is returned as it is.
        """
        check_is_fitted(self, "encoding_")
        if isinstance(X, np.ndarray) or hasattr(X, "tocsr"):
            if X.ndim == 2 and X.shape[1] == self.encoding_.n_features and X.dtype.kind in "fiu":
                return X
            raise DataError(
                f"TableEncoder: X is an array of shape {X.shape}, without the names of its "
                f"columns. Give a data frame with {', '.join(self.encoding_.sources[:10])}."
            )
        table = _table(X)
        self.encoding_.warn_of_unknown(table)
        return self.encoding_.encode(table)

    def unknown_levels(self, X: MatrixLike) -> dict[str, dict[str, int]]:
        """The levels of text that training did not have, by column, with their numbers of cells."""
        return self.encoding_.unknown_levels(_table(X))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """The names of the features."""
        check_is_fitted(self, "encoding_")
        return np.array(self.encoding_.feature_names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _table(X: Any) -> Mapping[str, Any]:
    given = columns_of_dicts(X)
    if given is not None:
        return given
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "tocsr"):
        raise DataError(
            "TableEncoder: X has no names of columns. Give a data frame, a dict of columns or a "
            "list of dicts; an array of numbers needs no encoder."
        )
    return columns_of(X)
