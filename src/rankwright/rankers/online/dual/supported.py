"""What a ranker needs to live on support rows: shown in blocks, kept within a budget."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from rankwright.exceptions import DataError
from rankwright.feedback import Feedback
from rankwright.rankers.base import FloatArray
from rankwright.rankers.gram import Gram, dense
from rankwright.rankers.online.base import OnlineRanker
from rankwright.rankers.online.dual.stretch import Stretch
from rankwright.rankers.online.room import with_room
from rankwright.rankers.online.rows import IntArray

__all__ = ["SupportedRanker"]

BLOCK = 256


class SupportedRanker(OnlineRanker):
    """An online ranker that may be a sum of kernels over rows of the stream.

    It is one when ``_gram()`` gives a kernel; ``_duals`` names the attribute that holds its
    coefficients, one row for each support row.
    """

    _duals: ClassVar[str]

    support_: IntArray
    support_vectors_: FloatArray

    @abstractmethod
    def _gram(self) -> Gram | None:
        """The kernel of the sum, or None where the ranker is kept as weights."""

    @abstractmethod
    def _walk(self, stretch: Stretch, grade: IntArray, asked: bool) -> tuple[Any, int, int]:
        """Show a stretch of rows: the predictions before (if asked), mistakes, skips."""

    def _begin_support(self, n_features: int, *n_members: int) -> None:
        self.support_vectors_ = np.zeros((0, n_features))
        self.support_ = np.zeros(0, np.int64)
        self.__dict__[self._duals] = np.zeros((0, *n_members))

    def _show_all(self, X: Any, grade: IntArray, order: IntArray, asked: bool, first: int) -> Any:
        gram = self._gram()
        if gram is None:
            return super()._show_all(X, grade, order, asked, first)
        if gram.is_precomputed and first + X.shape[0] > X.shape[1]:
            raise DataError(
                f"kernel='precomputed': the stream has {first + X.shape[0]} rows and X has "
                f"{X.shape[1]} columns. X[i, j] is the kernel of rows i and j of the stream."
            )
        answers = []
        for start in range(0, len(order), BLOCK):
            chosen = order[start : start + BLOCK]
            old = self._writable(*self._support_names)
            stretch = Stretch(gram, old, dense(X[chosen]), first + chosen)
            answer, mistakes, skipped = self._walk(stretch, grade[chosen], asked)
            self._keep(stretch)
            self._count(len(chosen), mistakes, skipped)
            answers.append(answer)
        return np.concatenate(answers)

    @property
    def _support_names(self) -> tuple[str, ...]:
        return ("support_vectors_", "support_", self._duals)

    def _keep(self, stretch: Stretch) -> None:
        """Take over the support after a stretch; rows that stayed where they were stay there."""
        size, same = stretch.size, stretch.n_unmoved
        for name, values in zip(self._support_names, stretch.support(same), strict=True):
            table = with_room(self.__dict__[name][:same], size) if same else values
            if same:
                table[same:size] = values
            self.__dict__[name] = table[:size]
        self.__dict__[self._duals][:] = stretch.dual[:size]

    def _fit(self, X: Any, feedback: Feedback) -> None:
        gram = self._gram()
        if gram is not None and gram.is_precomputed and X.shape[0] != X.shape[1]:
            raise DataError(
                f"kernel='precomputed' needs a square X at training, found {X.shape}: "
                "X[i, j] is the kernel of rows i and j."
            )
        super()._fit(X, feedback)
