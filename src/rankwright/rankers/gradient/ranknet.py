"""RankNet: a small network trained on the order of pairs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from rankwright._typing import FloatArray, IntArray, Matrix, MatrixLike, RandomState, SparseMatrix
from rankwright.exceptions import DegenerateDataWarning
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.losses import loss_names, weighting_names
from rankwright.feedback.pair_losses import Batch, QueryPairs, all_batches
from rankwright.feedback.pairs import Pairs
from rankwright.metrics.evaluation import evaluate
from rankwright.rankers import schema
from rankwright.rankers.base import Ranker
from rankwright.rankers.early_stopping import EARLY_STOPPING, EarlyStopping, EvalSet, Validation
from rankwright.rankers.kernels import dense
from rankwright.scoring.base import Scorer
from rankwright.scoring.network import Network, n_weights, unpack_layers


class TanhNetwork:
    """A network of tanh layers whose weights are one flat array (see ``scoring/network.py``).

    Sparse inputs stay sparse: the network reads them minus ``center``, a number for each column.
    """

    def __init__(self, layers: list[int], rng: np.random.Generator, center: Any = None) -> None:
        self.layers, self._center = layers, center
        self.weights = np.zeros(n_weights(layers))
        for table, _ in unpack_layers(layers, self.weights):
            bound = np.sqrt(6.0 / sum(table.shape))  # Glorot: signals neither fade nor grow
            table[:] = rng.uniform(-bound, bound, table.shape)

    def forward(self, X: MatrixLike) -> tuple[FloatArray, list[Any]]:
        """The scores, and the input of each layer."""
        values = [X]
        layers = unpack_layers(self.layers, self.weights)
        for table, offset in layers[:-1]:
            values.append(np.tanh(self._product(values[-1], table) + offset))
        return np.asarray(self._product(values[-1], layers[-1][0])[:, 0]), values

    def _product(self, values: Any, table: FloatArray) -> FloatArray:
        product = np.asarray(values @ table)
        return product if isinstance(values, np.ndarray) else product - self._center @ table

    def gradient(self, values: list[Any], slope: FloatArray) -> FloatArray:
        """The derivative of a loss by the weights, from its slope by the scores."""
        gradient = np.zeros_like(self.weights)
        parts = unpack_layers(self.layers, gradient)
        layers = unpack_layers(self.layers, self.weights)
        back = slope[:, None]
        for i in range(len(layers) - 1, -1, -1):
            table, offset = parts[i]
            table[:] = values[i].T @ back
            if not isinstance(values[i], np.ndarray):
                table -= np.outer(self._center, back.sum(axis=0))
            if len(offset):
                offset[:] = back.sum(axis=0)
            if i:
                back = (back @ layers[i][0].T) * (1.0 - values[i] ** 2)
        return gradient

    def folded(self, shift: FloatArray, scale: FloatArray) -> FloatArray:
        """Weights that give on rows X the scores of these weights on (X - shift) / scale."""
        weights = self.weights.copy()
        table, offset = unpack_layers(self.layers, weights)[0]
        table /= scale[:, None]
        if len(offset):
            offset -= shift @ table
        return weights


class Adam:
    """Steps scaled by running means of the gradient and of its square (Kingma and Ba 2015)."""

    def __init__(self, n: int, rate: float) -> None:
        self.rate, self.t = rate, 0
        self.mean, self.square = np.zeros(n), np.zeros(n)

    def step(self, gradient: FloatArray) -> FloatArray:
        """What to add to the weights."""
        self.t += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.001 * (gradient**2 - self.square)
        mean, square = self.mean / (1 - 0.9**self.t), self.square / (1 - 0.999**self.t)
        return np.asarray(-self.rate * mean / (np.sqrt(square) + 1e-8))


PATIENCE = 10  # epochs without improvement before "auto" stops
ROWS = 1 << 16  # rows made dense at a time
MANY_COLUMNS = 10_000  # of a sparse matrix, above which its rows are not made dense
FAR_FROM_ZERO = 1e6  # deviations; subtracting such a mean afterwards would cost six digits
MANY_PAIRS = 10**9  # weighted by NDCG, about 5 s an epoch
_SIZE = schema.at_least(1)


class RankNet(Ranker):
    r"""Neural network trained on the probability that each pair is correctly ordered.

    With :math:`P_{ij} = 1 / (1 + e^{-(s_i - s_j)})`, a pair (i above j) costs :math:`-\log P_{ij}`
    ("logistic") or :math:`1 - \sqrt{P_{ij}}` ("fidelity", bounded, so that outliers cannot
    dominate). The slopes of all pairs of a query are added up per row before one back-propagation,
    so a query of n rows costs n passes through the network, not one per pair; and sums over its
    pairs take about O(n log n). Features are standardized inside the model. ``weighting="NDCG"``
    multiplies the slope of a pair by the change of NDCG if its rows were swapped in the current
    order (LambdaRank).

    Pairs with a ``confidence`` :math:`P^*` other than 1 (ties: 1/2) cost :math:`-P^* \log P_{ij} -
    (1 - P^*) \log(1 - P_{ij})`, or :math:`1 - \sqrt{P^* P_{ij}} - \sqrt{(1 - P^*)(1 - P_{ij})}`.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default (10,)
        Units of each tanh layer; () gives a linear model.
    loss : "logistic" or "fidelity", default "logistic"
    weighting : None or "NDCG", default None
        ``"NDCG"`` takes time proportional to the number of pairs.
    learning_rate : float > 0, default 0.01
        Step size of Adam.
    alpha : float >= 0, default 1e-4
        Weight of half the squared norm of the weights, which is added to the mean pair loss.
    max_iter : int, default 100
        Maximum number of passes over all queries.
    batch_size : int, default 16
        Number of queries per step.
    early_stopping : "auto", bool, int, EarlyStopping or None, default "auto"
        Keep the best epoch on the ``eval_set`` of ``fit`` or, without it, on held-out queries. An
        int is the ``n_iter_no_change`` of an :class:`EarlyStopping`. "auto" is 10 with an
        ``eval_set``; without it, a tenth of the queries (none if there are fewer than ten) is
        held out, and training stops when their loss has not improved for ten epochs.
    random_state : int, RandomState or None
    normalize : None or "query", default None
        ``"query"`` scales each feature to 0 .. 1 within its query, also in scoring, which then
        needs ``qid``; it is saved with the model.

    Attributes
    ----------
    layers_ : (n_layers,) array, units of each layer, the features first
    weights_ : (n_weights,) array, laid out as in ``scoring/network.py``
    train_losses_ : (``n_iter_``,) array, mean pair loss of each epoch
    validation_ : (``n_iter_``,) array or None, the measure on the validation queries by epoch
        ("auto" without an ``eval_set``: their mean pair loss, or 1 - NDCG with
        ``weighting="NDCG"``)
    n_iter_ : int, the number of epochs run
    best_iteration_ : int, the epoch kept

    References
    ----------
    C. Burges et al. (2005), Learning to rank using gradient descent. ICML.
    C. Burges, R. Ragno, Q. Le (2006), Learning to rank with nonsmooth cost functions. NIPS.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]  # good in the middle: no linear order
    >>> model = RankNet(random_state=0, max_iter=300).fit(X, [0, 1, 1, 0])
    >>> sorted(model.rank(X)[[1, 2]].tolist())
    [1, 2]
    """

    _usual_grid: ClassVar = {"learning_rate": "0.01,0.03,0.1"}
    _family: ClassVar = "gradient"
    _scores_as: ClassVar = "network"
    _constraints: ClassVar = {
        "hidden_layer_sizes": schema.Constraint(
            "a sequence of integers >= 1",
            lambda value: isinstance(value, list | tuple) and all(map(_SIZE.test, value)),
        ),
        "loss": schema.one_of(*loss_names("logistic", "fidelity")),
        "weighting": schema.optional(schema.one_of(*weighting_names("NDCG"))),
        "learning_rate": schema.positive(),
        "alpha": schema.number(0.0),
        "max_iter": schema.at_least(1),
        "batch_size": schema.at_least(1),
        "early_stopping": schema.either(schema.one_of("auto"), EARLY_STOPPING),
        "random_state": schema.random_state(),
        "normalize": schema.optional(schema.one_of("query")),
    }
    _learned: ClassVar = {
        "layers_": schema.integers("n_layers", low=1),
        "weights_": schema.floats("n_weights"),
        "train_losses_": schema.floats("n_epochs"),
        "validation_": schema.floats("n_epochs", optional=True),
        "n_iter_": schema.integer(low=0),
        "best_iteration_": schema.integer(low=0),
    }
    _iterative: ClassVar = True
    _takes: ClassVar = (Grades, Pairs)
    _uses_confidence: ClassVar = True
    _sums: ClassVar = True

    def __init__(
        self,
        *,
        hidden_layer_sizes: Sequence[int] = (10,),
        loss: str = "logistic",
        weighting: str | None = None,
        learning_rate: float = 0.01,
        alpha: float = 1e-4,
        max_iter: int = 100,
        batch_size: int = 16,
        early_stopping: EarlyStopping | bool | int | str | None = "auto",
        random_state: RandomState = None,
        normalize: str | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.loss = loss
        self.weighting = weighting
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.normalize = normalize

    def _with_validation(
        self, X: Matrix, feedback: Feedback, eval_set: EvalSet | None
    ) -> tuple[Feedback, Validation | None]:
        if self.early_stopping != "auto":
            return super()._with_validation(X, feedback, eval_set)
        if eval_set is None:
            return feedback, None  # the epochs hold out queries, or pairs, themselves
        return feedback, Validation(eval_set, EarlyStopping(n_iter_no_change=PATIENCE))

    def _fit(self, X: Matrix, feedback: Feedback, validation: Validation | None = None) -> None:
        if self.weighting is not None and feedback.n_pairs > MANY_PAIRS:
            warnings.warn(
                f"RankNet(weighting={self.weighting!r}) enumerates all {feedback.n_pairs:.3g} "
                "pairs in every epoch: weights by NDCG do not factorize. Cut long lists, use "
                "weighting=None, or LambdaMART(weighting='NDCG@30').",
                DegenerateDataWarning,
                stacklevel=4,
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        weight = feedback.row_weight if isinstance(feedback, Grades) else np.ones(X.shape[0])
        standardization = _Standardization.of(X, weight)
        layers = [X.shape[1], *(int(size) for size in self.hidden_layer_sizes), 1]
        net = TanhNetwork(layers, rng, standardization.center)
        training = _Training(self, X, standardization, net)
        training.run(all_batches(feedback, self.weighting, X), rng, validation)
        net.weights = training.best_weights
        self.layers_ = np.array(layers)
        self.weights_ = net.folded(standardization.shift, standardization.scale)
        self.train_losses_ = np.array(training.train_losses, dtype=np.float64)
        curve = validation.curve if validation else training.held_out_losses
        self.validation_ = np.array(curve) if curve else None
        self.n_iter_ = len(training.train_losses)
        self.best_iteration_ = training.best_epoch

    def _may_drop_columns(self) -> bool:
        return True

    def _widen(self, used: IntArray) -> None:
        layers = [self.n_features_in_, *self.layers_[1:].tolist()]
        wide = np.zeros(n_weights(layers))
        old = unpack_layers(self.layers_.tolist(), self.weights_)
        for number, (table, offset) in enumerate(unpack_layers(layers, wide)):
            table[slice(None) if number else used] = old[number][0]
            offset[:] = old[number][1]
        self.layers_, self.weights_ = np.array(layers), wide

    def _score_kinds(self) -> frozenset[str]:
        hidden = len(self.hidden_layer_sizes)
        return super()._score_kinds() if hidden else frozenset({"linear"})

    def _scorer(self) -> Scorer:
        return Network(self.layers_, self.weights_)


class _Training:
    """The epochs of one fit."""

    def __init__(
        self, model: RankNet, X: Matrix, standardization: _Standardization, net: TanhNetwork
    ) -> None:
        self.model, self.X, self.net = model, X, net
        self._standardized = standardization.apply
        self.best_weights, self.best_epoch = net.weights, 0
        self.train_losses: list[float] = []
        self.held_out_losses: list[float] = []

    def run(
        self, batches: list[Batch], rng: np.random.Generator, validation: Validation | None
    ) -> None:
        """Train until early stopping or ``max_iter``; without pairs every score is equal."""
        if not batches:
            self.best_weights = np.zeros_like(self.net.weights)
            return
        held_out: list[Batch] = []
        if validation is None and self.model.early_stopping == "auto":
            batches, held_out = _hold_out(batches, rng)
        mass = sum(batch.total_weight for batch in batches)
        adam = Adam(len(self.net.weights), float(self.model.learning_rate))
        for epoch in range(1, self.model.max_iter + 1):
            self.train_losses.append(self._epoch(batches, mass, adam, rng))
            stop, improved = False, True
            if validation is not None:
                stop = validation.update(self._scores(validation.X))
                improved = validation.n_kept(epoch) == epoch
            elif held_out:
                self.held_out_losses.append(self._held_out_loss(held_out))
                improved = self.held_out_losses[-1] <= min(self.held_out_losses)
                stop = not improved and epoch - self.best_epoch >= PATIENCE
            if improved:  # each step makes new weights, so these stay as they are
                self.best_weights, self.best_epoch = self.net.weights, epoch
            if stop:
                break

    def _epoch(
        self, batches: list[Batch], mass: float, adam: Adam, rng: np.random.Generator
    ) -> float:
        """One pass over all queries; returns the mean pair loss of its steps."""
        model = self.model
        steps = [(b, units) for b in batches for units in _cut(b.n_units, model.batch_size, rng)]
        total_loss = total_weight = 0.0
        for batch, units in (steps[i] for i in rng.permutation(len(steps))):
            part = batch if len(units) == batch.n_units else batch.take(units)
            scores, values = self.net.forward(self._standardized(self.X[part.rows]))
            loss, weight, slope = part.sums(scores, model.loss, model.weighting)
            # Weights by NDCG are shares already: the mean is over their own sum.
            scale = len(steps) / mass if model.weighting is None else 1.0 / max(weight, 1e-300)
            gradient = scale * self.net.gradient(values, slope) + model.alpha * self.net.weights
            self.net.weights = self.net.weights + adam.step(gradient)
            total_loss, total_weight = total_loss + loss, total_weight + weight
        return total_loss / max(total_weight, 1e-300)

    def _held_out_loss(self, held_out: list[Batch]) -> float:
        """The mean pair loss, or 1 - NDCG with ``weighting="NDCG"``."""
        scored = [(batch, self._scores(self.X[batch.rows])) for batch in held_out]
        if self.model.weighting == "NDCG":
            losses = [
                1.0 - float(evaluate(scores, batch.grade, batch.group, "NDCG")["NDCG"])
                for batch, scores in scored
                if isinstance(batch, QueryPairs)
            ]
            return float(np.mean(losses))
        sums = [batch.sums(scores, self.model.loss) for batch, scores in scored]
        return sum(loss for loss, _, _ in sums) / sum(weight for _, weight, _ in sums)

    def _scores(self, X: Matrix) -> FloatArray:
        return self.net.forward(self._standardized(X))[0]


def _hold_out(batches: list[Batch], rng: np.random.Generator) -> tuple[list[Batch], list[Batch]]:
    """The batches without a tenth of their queries, and these queries."""
    train, held_out = [], []
    for batch in batches:
        n_held_out = int(0.1 * batch.n_units)
        if n_held_out == 0:
            train.append(batch)
            continue
        order = rng.permutation(batch.n_units)
        held_out.append(batch.take(np.sort(order[:n_held_out])))
        train.append(batch.take(np.sort(order[n_held_out:])))
    return train, held_out


def _cut(n: int, size: int, rng: np.random.Generator) -> list[Any]:
    """The numbers 0 .. n - 1 in random runs of ``size``; in order if one run holds them all."""
    if n <= size:
        return [np.arange(n)]
    order = rng.permutation(n)
    return [order[start : start + size] for start in range(0, n, size)]


class _Standardization(NamedTuple):
    """Columns with mean 0 and deviation 1.

    Sparse rows of many columns are only scaled and stay sparse; the network subtracts ``center``.
    """

    shift: FloatArray
    scale: FloatArray
    center: FloatArray | None = None

    @classmethod
    def of(cls, X: Matrix, weight: FloatArray) -> _Standardization:
        total = weight.sum()
        share = weight / total if total > 0 else np.full(len(weight), 1.0 / len(weight))
        mean = np.asarray(X.T @ share).ravel()
        if isinstance(X, np.ndarray) or X.shape[1] <= MANY_COLUMNS:
            return cls(mean, _deviation(X, share, mean))
        scale = _sparse_deviation(X, share, mean)
        center = mean / scale
        if (np.abs(center) <= FAR_FROM_ZERO).all():
            return cls(mean, scale, center)
        farthest = mean[np.argmax(np.abs(center))]
        warnings.warn(
            f"RankNet makes sparse rows of {X.shape[1]:,} columns dense, batch by batch: the mean "
            f"{farthest:.3g} of a column is more than {FAR_FROM_ZERO:g} times its deviation, and "
            "digits would be lost without that. Subtract the mean from the column.",
            DegenerateDataWarning,
            stacklevel=5,
        )
        return cls(mean, _deviation(X, share, mean))

    def apply(self, X: Any) -> Any:
        if self.center is None:
            return (dense(X) - self.shift) / self.scale
        return type(X)((X.data / self.scale[X.indices], X.indices, X.indptr), shape=X.shape)


def _deviation(X: Matrix, share: FloatArray, mean: FloatArray) -> FloatArray:
    """The weighted deviation of each column, in blocks of rows; 1 for a constant column."""
    square = np.zeros(X.shape[1])
    for start in range(0, X.shape[0], ROWS):
        rows = slice(start, start + ROWS)
        square += share[rows] @ np.square(dense(X[rows]) - mean)
    return _positive(np.sqrt(square), mean)


def _sparse_deviation(X: SparseMatrix, share: FloatArray, mean: FloatArray) -> FloatArray:
    """As ``_deviation``, in time proportional to the stored values."""
    X = X.copy()
    X.sum_duplicates()
    n_columns, by_value = X.shape[1], np.repeat(share, np.diff(X.indptr))
    square = np.bincount(X.indices, by_value * np.square(X.data - mean[X.indices]), n_columns)
    # Shares that should add up to 1 do so up to rounding, which a square root would magnify.
    is_full = np.bincount(X.indices, by_value > 0, n_columns) == np.count_nonzero(share)
    zeros = np.where(is_full, 0.0, 1.0 - np.bincount(X.indices, by_value, n_columns))
    return _positive(np.sqrt(square + np.maximum(zeros, 0.0) * np.square(mean)), mean)


def _positive(deviation: FloatArray, mean: FloatArray) -> FloatArray:
    return np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)
