"""Scorers: what they compute, and which values they refuse to be made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from rankwright.data.queries import Queries
from rankwright.exceptions import DataError
from rankwright.persist.codec import KINDS
from rankwright.scoring.kernel import Kernel, KernelExpansion
from rankwright.scoring.linear import Additive, Linear
from rankwright.scoring.network import Network
from rankwright.scoring.ordinal import Ordinal, Prototypes, Votes
from rankwright.scoring.transforms import Affine, QueryScale

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(7, 3)), RNG.normal(size=(4, 3))
ONE_LIST = Queries.from_ids(None, 7)


def test_the_table_of_kinds_names_each_by_its_own_kind() -> None:
    assert all(cls.kind == kind for kind, cls in KINDS.items())


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_kernels_equal_those_of_scikit_learn(wrap: Callable[[np.ndarray], object]) -> None:
    found = Kernel("rbf", gamma=0.7).block(wrap(A), B)
    np.testing.assert_allclose(found, rbf_kernel(A, B, gamma=0.7), rtol=1e-12)
    found = Kernel("poly", gamma=0.7, degree=3, coef0=0.2).block(wrap(A), B)
    np.testing.assert_allclose(found, polynomial_kernel(A, B, 3, 0.7, 0.2), rtol=1e-12)
    np.testing.assert_allclose(Kernel("linear").block(wrap(A), B), A @ B.T, rtol=1e-12)


@pytest.mark.parametrize("name", ["linear", "poly", "rbf"])
def test_the_diagonal_is_that_of_the_block(name: str) -> None:
    kernel = Kernel(name, gamma=0.3)
    np.testing.assert_allclose(kernel.diagonal(A), np.diag(kernel.block(A, A)), rtol=1e-12)


def test_an_expansion_is_the_sum_of_its_kernels() -> None:
    kernel, coef = Kernel("rbf", gamma=0.5), np.array([1.0, -2.0, 0.5, 3.0])
    scorer = KernelExpansion(kernel, B, coef, intercept=0.25)
    wanted = [
        sum(c * np.exp(-0.5 * ((a - b) ** 2).sum()) for c, b in zip(coef, B, strict=True))
        for a in A
    ]
    np.testing.assert_allclose(scorer.decision_function(A), np.array(wanted) + 0.25, rtol=1e-12)
    np.testing.assert_allclose(
        scorer.decision_function(sparse.csr_array(A)), scorer.decision_function(A), rtol=1e-12
    )


def test_affine_scales_sparse_rows_but_does_not_shift_them() -> None:
    scale = np.array([1.0, 2.0, 3.0])
    rows = Affine(factor=scale).transform(sparse.csr_array(A), ONE_LIST)
    np.testing.assert_allclose(rows.toarray(), A * scale)
    with pytest.raises(DataError, match="toarray"):
        Affine(shift=scale).transform(sparse.csr_array(A), ONE_LIST)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Linear(np.array([np.nan])),
        lambda: Linear(np.ones((2, 2))),
        lambda: Linear(np.ones(2), np.inf),
        lambda: Linear(np.ones(2, dtype=np.float32)),
        lambda: Ordinal(Linear(np.ones(1)), np.array([1.0, 0.0]), np.arange(3.0)),
        lambda: Ordinal(Linear(np.ones(1)), np.array([0.0]), np.arange(3.0)),
        lambda: Ordinal(Linear(np.ones(1)), np.array([0.0]), np.array([2.0, 1.0])),
        lambda: Kernel("import os"),
        lambda: Kernel("rbf", gamma=-1.0),
        lambda: Kernel("poly", degree=10**9),
        lambda: KernelExpansion(Kernel("rbf"), B, np.ones(3)),
        lambda: KernelExpansion(Kernel("rbf"), B * np.nan, np.ones(4)),
        lambda: Affine(np.ones(2), np.ones(3)),
        lambda: QueryScale(3, "__class__"),
        lambda: QueryScale(0, "minmax"),
    ],
)
def test_values_that_contradict_each_other_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(DataError):
        build()


NAN, GRADES = np.nan, np.arange(2.0)
FAULTS: dict[str, Callable[[], object]] = {
    "prototypes: coef: 2 of 4 values are NaN; a model holds finite values only": (
        lambda: Prototypes(np.array([[NAN, 0.0], [1.0, NAN]]), GRADES)
    ),
    "prototypes: classes has shape (3,); it needs (2,)": (
        lambda: Prototypes(np.ones((2, 2)), np.arange(3.0))
    ),
    "linear: intercept: it is infinite; a model holds finite values only": (
        lambda: Linear(np.ones(2), np.inf)
    ),
    "ordinal: thresholds: 1 is followed by 0; the values must ascend": (
        lambda: Ordinal(Linear(np.ones(1)), np.array([1.0, 0.0]), np.arange(3.0))
    ),
    "votes: votes: value 1 is -1; it must be >= 0": (
        lambda: Votes(np.ones((2, 1)), np.ones((2, 1)), np.array([1.0, -1.0]), GRADES)
    ),
    "network: weights has shape (3,); it needs (4,)": (
        lambda: Network(np.array([2, 1, 1]), np.ones(3))
    ),
    "additive: feature: value 0 is 5; it must be from 0 to 1": (
        lambda: Additive(2, np.array([5]), np.array([0, 0]), np.zeros(0), np.ones(1), np.ones(1))
    ),
    "affine: divisor: 1 of its values are 0": (
        lambda: Affine(divisor=np.array([1.0, 0.0]))
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault, build", FAULTS.items(), ids=FAULTS.keys())
def test_an_error_says_which_array_is_wrong_and_how(
    fault: str, build: Callable[[], object]
) -> None:
    with pytest.raises(DataError) as caught:
        build()
    assert str(caught.value) == f"{fault}."
