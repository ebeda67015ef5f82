"""LambdaMART: gradient-boosted trees trained on pairs or lists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_monotonic_cst, check_is_fitted

from rankwright._typing import BoolArray, FloatArray, IntArray, Matrix, MatrixLike, RandomState
from rankwright.data.columns import Encoding, Rules, fit_encoding
from rankwright.data.inputs import columns_of, columns_of_dicts
from rankwright.data.vocabulary import Hashes, mix
from rankwright.exceptions import ParameterError
from rankwright.feedback.base import Feedback, Grades
from rankwright.feedback.losses import loss_names
from rankwright.feedback.pair_weights import pointers
from rankwright.rankers import schema
from rankwright.rankers.boosting.binning import QuantileBins
from rankwright.rankers.boosting.categories import Folds, LevelCodes, fold_keys
from rankwright.rankers.boosting.ensemble import LEARNED, gain_shares, tree_attributes, trees_of
from rankwright.rankers.boosting.grower import Grower, Tree, TreeOptions
from rankwright.rankers.boosting.pair_losses import (
    LISTWISE,
    WEIGHTING,
    ExponentialGradients,
    Gradients,
    PairWeights,
    gradients_of,
    query_keys,
)
from rankwright.rankers.boosting.training import (
    CALLBACKS,
    FROM_ZERO,
    BoostedRanker,
    Round,
    Start,
)
from rankwright.rankers.checks import feature_number
from rankwright.rankers.early_stopping import EARLY_STOPPING, EarlyStopping, Validation
from rankwright.rankers.schema import floats, integer, real
from rankwright.runtime import Team, progress
from rankwright.scoring.trees import Trees


def _all_in(values: object, choices: tuple[int, ...]) -> bool:
    if isinstance(values, dict):
        values = list(values.values())
    array = np.asarray(values)
    return array.ndim == 1 and array.dtype.kind in "if" and bool(np.isin(array, choices).all())


def _holds_text(column: NDArray[Any]) -> bool:
    return column.dtype.kind in "OUT" and any(isinstance(cell, str) for cell in column)


def _are_features(values: object) -> bool:
    if isinstance(values, str | dict) or not np.iterable(values):
        return False
    return all(
        isinstance(v, str | np.bool_) or schema.number().test(v) or v in (True, False)
        for v in values
    )


def _are_gains(values: object) -> bool:
    if isinstance(values, str | dict) or not np.iterable(values):
        return False
    gains = np.asarray(values)
    is_vector = gains.ndim == 1 and len(gains) >= 2 and gains.dtype.kind in "iuf"
    return is_vector and bool(
        np.isfinite(gains).all() and gains[0] >= 0 and (np.diff(gains) >= 0).all()
    )


FEATURES = schema.Constraint("a list of features or a mask", _are_features)

LEAVES, SYMMETRIC_DEPTH = 31, 6  # of a tree, if neither max_leaf_nodes nor max_depth is given


class LambdaMART(BoostedRanker):
    r"""Gradient-boosted trees for ranking, with losses of lists or of weighted pairs.

    Each round grows a tree on the gradient of a loss: by default the squared error of the grades
    within each query. With ``weighting="NDCG@30"`` it is LambdaMART as published: each pair of rows
    of a query with different grades has a loss, a function of the difference of its scores, and a
    weight, the change of NDCG if the two rows were swapped. Splits maximize the second-order
    decrease of the loss; a leaf takes one Newton step, times the learning rate. Trees are symmetric
    by default: all leaves of a level have the same split, which generalizes better on small and
    middle data and is faster to train.

    Missing values (NaN) go to the side with the higher gain. Gradients are summed as integers, so
    the model is the same bit for bit with any number of threads.

    Parameters
    ----------
    n_estimators : int >= 1, default 300
        Number of trees.
    learning_rate : float, 0 < rate <= 1, or "auto"
        What each tree is multiplied by. ``"auto"``, the default, takes a lower rate for fewer
        training rows: .05 (rows / 10,000) ** .25, between .02 and .1.
    tree : "symmetric" or "leafwise", default "symmetric"
        How trees grow: level by level, with one split for all leaves of a level (as CatBoost), or
        leaf by leaf, best split first (as LightGBM). A leaf of a symmetric tree that the split of
        its level would leave with a child below ``min_samples_leaf`` rows is not split by
        it.
    max_leaf_nodes : int >= 2 or None, default None
        The maximum number of leaves. None: 31 for leaf-wise trees; symmetric trees have
        ``max_depth`` levels. A symmetric tree has at most log2(``max_leaf_nodes``) levels.
    max_depth : int >= 1 or None, default None
        The maximum number of splits from the root to a leaf. None: 6 for symmetric trees if
        ``max_leaf_nodes`` is None too, no limit for leaf-wise ones.
    min_samples_leaf : int >= 1, default 20
        Minimum number of rows in a leaf.
    min_split_gain : float >= 0, default 0.0
        Split only if the gain is at least this, in the unit of ``node_gain_``; of a symmetric tree,
        the sum of the gains of a level. Gains shrink from round to round, so this also ends
        training.
    l2_regularization : float >= 0, default 1.0
        Added to the Hessian of a leaf, counted in rows of average Hessian.
    max_bins : int from 2 to 255, default 255
        Maximum number of bins per feature.
    loss : str, default "auto"
        ``"auto"`` is ``"query_rmse"``, or ``"logistic"`` if ``weighting`` or ``label_gain`` is
        given.

        Losses of lists: ``"query_rmse"``, the squared error of the grades after each query's own
        shift of the scores, in which all rows count the same (CatBoost's QueryRMSE); ``"xendcg"``,
        the cross entropy between the softmax of the scores and of randomized gains
        (LightGBM's rank_xendcg).

        Losses of pairs, functions of the difference of two scores: ``"logistic"`` as in RankNet,
        ``"exponential"`` (RankBoost), ``"fidelity"`` (FRank), ``"squared_hinge"`` (RankSVM),
        ``"smooth_hinge"`` (a hinge that is linear for misordered pairs, so that wrong grades pull
        less) and ``"squared"`` (MPRank).
    weighting : str or None, default "auto"
        What a pair counts: ``"auto"`` is ``"NDCG@30"``. None: all the same.
        ``"grade_difference"``: by its difference of grades.
        ``"NDCG"``, ``"AP"``, ``"ERR"`` or ``"RR"``: by the change of the measure if its rows were
        swapped; with a truncation level, as in ``"NDCG@30"``, only pairs with a row among
        the first 30 count.
    label_gain : list of float or None, default None
        What NDCG counts for the grades 0, 1, 2, ..., never decreasing; None: 2^grade - 1. Only with
        a weighting by NDCG. Measures have the gain 2^grade - 1 all the same.
    subsample : float, 0 < share <= 1, default 1.0
        The share of the queries that each tree is grown on, drawn at random.
    colsample_bytree : float, 0 < share <= 1, default 1.0
        The share of the features that each tree may use, drawn at random.
    colsample_bynode : float, 0 < share <= 1, default 1.0
        The share of these that each split may use, drawn at random; for symmetric trees, that of
        each level.
    monotonic_cst : array of -1, 0 and 1 per feature, dict {feature name: -1, 0 or 1}, or None
        1: the score never decreases as the feature grows; -1: it never increases.
    categorical_features : bool mask, feature numbers, feature names, or None
        Features whose values are categories: numbers, or columns of text or of a ``category`` type,
        whose levels are stored with the model. Up to four levels are split one against the rest.
        More are put in the order of a statistic, for each tree: the gradient of their rows
        over the Hessian, in which the rows of a query do not count for the query itself. So levels
        of few rows are not learned by heart. Levels that training did not have have the statistic
        0, and missing values a side of their own.
    cat_smooth : float >= 0, default 10.0
        How far the statistic of a level is shrunk towards 0: a level with this many rows counts
        half.
    cat_l2 : float >= 0, default 10.0
        Added to the Hessian of both sides, counted in rows, where a split of levels in order is
        compared with others. Higher values prefer other features.
    max_cat_levels : int >= 1 or None, default None
        The most levels of a feature, by number of rows, that are told apart; rarer ones count as
        levels that training did not have. None: all.
    interaction_cst : "pairwise", "no_interactions", a list of sets of features, or None
        Which features may occur together in a branch of a tree. Features in none of the sets form
        one more set.
    early_stopping : bool, int, EarlyStopping or None, default None
        Keep the rounds up to the best one on the ``eval_set`` of ``fit`` or, without it, on
        held-out queries. An int is the ``n_iter_no_change`` of an :class:`EarlyStopping`.
    warm_start : bool, default False
        Whether ``fit`` continues from the trees of the last ``fit`` until there are
        ``n_estimators``. See also :meth:`fit_more`.
    callbacks : list of functions, optional
        Each is called with a ``Round`` after every round; a true return value ends training.
    verbose : int, default 0
        1 shows a progress bar if standard error is a terminal; 0 is silent.
    n_jobs : int >= 1, -1 or None, default None
        The number of threads; None and -1: one per CPU, or ``RANKWRIGHT_THREADS``.
    random_state : int, RandomState or None
        Seeds the sampling of queries and features, and the random gains of ``loss="xendcg"``.

    Attributes
    ----------
    alpha_, ``root_`` : (n_trees,) arrays
        The weight of each tree (the learning rate), and its first node.
    node_feature_, ``node_threshold_``, ``node_default_``, ``node_low_``, ``node_high_``,
    ``node_value_``, ``node_gain_``, ``node_cover_`` : (n_nodes,) arrays
        The nodes of all trees: the feature (-1 for a leaf), the value that rows exceed that go to
        ``node_high_``, whether missing values go there, the children, the value of a leaf, the gain
        of the split, and the number of training rows.
    node_set_, ``node_set_ptr_``, ``node_set_bits_``, ``node_level_ptr_``, ``node_level_`` : arrays
        The categories that go to ``node_high_``, as sets of bits, or None without any. Node n has
        the set s = ``node_set_[n]``, -1 for a threshold; its bytes are ``node_set_bits_`` from
        ``node_set_ptr_[s]`` on, with a bit for each of the known values of the feature f, which are
        ``node_level_`` from ``node_level_ptr_[f]`` on.
    feature_importances_ : (n_features,) array
        The share of each feature in the gain of all splits.
    learning_rate_ : float
        The learning rate that was used.
    training_bound_ : float or None
        With ``loss="exponential"`` and weights that do not depend on the order, the mean
        exponential loss of the training pairs, an upper bound on the share that is misordered
        (RankBoost's Theorem 1).
    validation_ : (n_rounds_tried,) array or None
        The measure on the validation queries after each round.
    best_iteration_ : int
        The number of trees: fewer than ``n_estimators`` if no split lowers the loss any more, or no
        gradient is left.

    References
    ----------
    C. J. C. Burges: From RankNet to LambdaRank to LambdaMART: an overview. MSR-TR-2010-82.
    Q. Wu, C. J. C. Burges, K. M. Svore, J. Gao: Adapting boosting for information retrieval
    measures. Information Retrieval 13, 2010.
    S. Bruch: An alternative cross entropy loss for learning-to-rank. WWW 2021.
    L. Prokhorenkova, G. Gusev, A. Vorobev, A. V. Dorogush, A. Gulin: CatBoost: unbiased boosting
    with categorical features. NeurIPS 2018 (symmetric trees).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(30), 20)
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)         # no single feature says anything
    >>> model = LambdaMART(n_estimators=30).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) > 0.95
    True
    >>> model.fit_more(10).best_iteration_
    40
    """

    _shard_fit: ClassVar = "rankwright.distributed.lambdamart:fit"
    _constraints: ClassVar = {
        "n_estimators": schema.at_least(1),
        "learning_rate": schema.either(schema.one_of("auto"), schema.between(1e-6, 1.0)),
        "tree": schema.one_of("leafwise", "symmetric"),
        "max_leaf_nodes": schema.optional(schema.at_least(2)),
        "max_depth": schema.optional(schema.at_least(1)),
        "min_samples_leaf": schema.at_least(1),
        "min_split_gain": schema.number(0.0),
        "l2_regularization": schema.number(0.0),
        "max_bins": schema.Constraint(
            "an integer from 2 to 255", lambda v: schema.at_least(2).test(v) and v <= 255
        ),
        "loss": schema.one_of(
            "auto",
            *loss_names(
                "logistic", "exponential", "fidelity", "squared_hinge", "smooth_hinge", "squared"
            ),
            *LISTWISE,
        ),
        "weighting": schema.either(schema.one_of("auto"), WEIGHTING),
        "label_gain": schema.optional(
            schema.Constraint("a list of gains >= 0 that never decrease", _are_gains)
        ),
        "subsample": schema.positive(1.0),
        "colsample_bytree": schema.positive(1.0),
        "colsample_bynode": schema.positive(1.0),
        "monotonic_cst": schema.optional(
            schema.Constraint("-1, 0 or 1 for each feature", lambda v: _all_in(v, (-1, 0, 1)))
        ),
        "categorical_features": schema.optional(FEATURES),
        "cat_smooth": schema.number(0.0),
        "cat_l2": schema.number(0.0),
        "max_cat_levels": schema.optional(schema.at_least(1)),
        "interaction_cst": schema.optional(
            schema.one_of("pairwise", "no_interactions"),
            schema.Constraint(
                "a list of sets of features",
                lambda v: not isinstance(v, str) and np.iterable(v) and all(map(FEATURES.test, v)),
            ),
        ),
        "early_stopping": EARLY_STOPPING,
        "warm_start": schema.boolean(),
        "callbacks": CALLBACKS,
        "verbose": schema.either(schema.at_least(0), schema.boolean()),
        "n_jobs": schema.optional(schema.one_of(-1), schema.at_least(1)),
        "random_state": schema.random_state(),
    }
    _learned: ClassVar = {
        **{name: rule for name, rule in LEARNED.items() if name == "alpha_" or "node" in name},
        "root_": LEARNED["root_"],
        "feature_importances_": floats("n_features", low=0.0, high=1.0),
        "learning_rate_": real(low=0.0),
        "training_bound_": real(low=0.0, optional=True),
        "validation_": floats("n_rounds_tried", optional=True),
        "best_iteration_": integer(low=0),
    }
    validation_: FloatArray | None
    _iterative: ClassVar = True
    _takes: ClassVar = (Grades,)
    _abstains: ClassVar = True

    encoding_: Encoding | None = None  # stored by files beside the model, as for a pipeline
    training_bound_: float | None
    node_level_ptr_: IntArray | None

    def __init__(
        self,
        *,
        n_estimators: int = 300,
        learning_rate: float | str = "auto",
        tree: str = "symmetric",
        max_leaf_nodes: int | None = None,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_split_gain: float = 0.0,
        l2_regularization: float = 1.0,
        max_bins: int = 255,
        loss: str = "auto",
        weighting: str | None = "auto",
        label_gain: Sequence[float] | FloatArray | None = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        monotonic_cst: ArrayLike | Mapping[str, int] | None = None,
        categorical_features: ArrayLike | str | None = None,
        cat_smooth: float = 10.0,
        cat_l2: float = 10.0,
        max_cat_levels: int | None = None,
        interaction_cst: Sequence[Iterable[int | str]] | str | None = None,
        early_stopping: EarlyStopping | bool | int | None = None,
        warm_start: bool = False,
        callbacks: Sequence[Callable[..., object]] | None = None,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.tree = tree
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_split_gain = min_split_gain
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.loss = loss
        self.weighting = weighting
        self.label_gain = label_gain
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bynode = colsample_bynode
        self.monotonic_cst = monotonic_cst
        self.categorical_features = categorical_features
        self.cat_smooth = cat_smooth
        self.cat_l2 = cat_l2
        self.max_cat_levels = max_cat_levels
        self.interaction_cst = interaction_cst
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit_more(
        self,
        n_more: int,
        X: MatrixLike | None = None,
        y: Any = None,
        *,
        init_score: ArrayLike | None = None,
        eval_init_score: ArrayLike | None = None,
        **arguments: Any,
    ) -> Self:
        """Train ``n_more`` additional trees.

        Without ``X``, training continues on the rows of the last ``fit`` (the object keeps a
        reference to them until it is copied or saved). ``arguments`` are as in ``fit``.
        """
        check_is_fitted(self)
        schema.at_least(1).check("fit_more", "n_more", n_more)
        if X is not None and self.encoding_ is not None:
            raise ParameterError(
                "LambdaMART.fit_more: this model numbers the levels of text, and other rows may "
                "have new ones. Set warm_start=True, raise n_estimators, and call fit."
            )
        if X is not None:
            start = Start(init_score, eval_init_score, n_more)
            return self._fit_grades(X, y, start=start, **arguments)
        if not hasattr(self, "_seen"):
            raise ParameterError(
                "LambdaMART.fit_more: this model was loaded or copied, and has no training "
                "rows. Pass fit_more(n, X, y, qid=qid)."
            )
        rows, feedback, validation, start = self._seen
        self._train(rows, feedback, validation, start=replace(start, n_more=n_more))
        return self

    def truncate(self, n_estimators: int) -> Self:
        """Keep the first ``n_estimators`` trees only, as if ``fit`` had been given that number.

        ``training_bound_`` becomes None, since it depends on the training rows.
        """
        check_is_fitted(self)
        schema.at_least(0).check("truncate", "n_estimators", n_estimators)
        if n_estimators < len(self.alpha_):
            self._keep_trees(trees_of(self).first(n_estimators))
            self.training_bound_ = None
            self.__dict__.pop("_seen", None)
        return self

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_seen"}

    def _validated(self, X: MatrixLike, *y: ArrayLike, reset: bool = True) -> Any:
        """Rows as for every ranker; the levels of categorical columns of text are numbered."""
        columns: Mapping[str, Any] | None = None
        if self.categorical_features is not None and hasattr(type(X), "columns"):
            columns = columns_of(X)
        elif self.encoding_ is not None and not reset:
            columns = columns_of_dicts(X)
        if reset:
            encoding = None if columns is None else self._number_levels(columns)
            self.__dict__.pop("encoding_", None)
            if encoding is not None:
                self.encoding_ = encoding
        if columns is None or self.encoding_ is None:
            return super()._validated(X, *y, reset=reset)
        self.encoding_.warn_of_unknown(columns)
        rows = super()._validated(self.encoding_.encode(columns), *y, reset=reset)
        if reset:
            self.feature_names_in_ = np.array(self.encoding_.feature_names, dtype=object)
        return rows

    def _number_levels(self, columns: Mapping[str, Any]) -> Encoding | None:
        """The levels of the categorical columns that hold text; None if none does.

        With ``warm_start``, the levels that the trees know keep their numbers.
        """
        self.feature_names_in_ = names = np.array(list(columns), dtype=object)
        is_text = np.array([_holds_text(columns[name]) for name in names])
        is_category = self._feature_mask(len(names))
        if not (is_text & is_category).any():
            return None
        if (is_text > is_category).any():
            raise self._not_numeric(names[is_text > is_category][0])
        kinds = dict(zip(names, np.where(is_text, "codes", "number").tolist(), strict=True))
        encoding, _ = fit_encoding(columns, Rules(kinds, max_levels=sys.maxsize))
        if not (self.warm_start and self.encoding_):
            return encoding
        known = {column.name: column.levels for column in self.encoding_.columns}
        return Encoding(
            tuple(
                msgspec.structs.replace(
                    c, levels=tuple(dict.fromkeys((*known.get(c.name, ()), *c.levels)))
                )
                for c in encoding.columns
            )
        )

    def _train(
        self, X: Matrix, feedback: Feedback, validation: Validation | None, **arguments: Any
    ) -> None:
        start = arguments.get("start", FROM_ZERO)
        self._seen = X, feedback, validation, start
        if start.n_more:  # the trees there are know all columns
            self._fit(X, feedback, validation, start)
        else:
            super()._train(X, feedback, validation, start=start)

    def _narrowed(self, used: IntArray) -> Self:
        narrow = super()._narrowed(used)
        narrow.categorical_features = self._feature_mask(self.n_features_in_)[used]
        return narrow

    def _widen(self, used: IntArray) -> None:
        super()._widen(used)
        if self.node_level_ptr_ is not None:
            sizes = np.zeros(self.n_features_in_, np.int64)
            sizes[used] = np.diff(self.node_level_ptr_)
            self.node_level_ptr_ = pointers(sizes)

    def _fit(
        self,
        X: Matrix,
        feedback: Any,
        validation: Validation | None = None,
        start: Start = FROM_ZERO,
    ) -> None:
        first = self._first_scores(start, X.shape[0], validation)
        known, n_known, n_new = self._resumed(validation, start.n_more)
        with Team(None if self.n_jobs in (None, -1) else self.n_jobs) as pool:
            weights = self._pair_weights()
            losses = gradients_of(feedback, X, self._loss, weights, pool)
            self.learning_rate_ = self._rate(len(losses.rows))
            trees: list[Tree] = []
            if len(losses.rows):
                trees = self._boost(X, feedback, losses, first, validation, pool, known, n_new)
            kept = validation.n_kept(n_known + len(trees)) - n_known if validation else len(trees)
            self._keep(known, trees[: max(kept, 0)], X.shape[1])
            self.training_bound_ = None
            if isinstance(losses, ExponentialGradients):
                scores = first + self._scorer().decision_function(X)
                self.training_bound_ = losses.bound(scores[losses.rows])
        self.validation_ = np.array(validation.curve) if validation else None

    @property
    def _loss(self) -> str:
        if self.loss != "auto":
            return str(self.loss)
        pairs = self.weighting != "auto" or self.label_gain is not None
        return "logistic" if pairs else "query_rmse"

    def _pair_weights(self) -> PairWeights:
        """What pairs count; None, as all the same, where the loss has no pairs."""
        if self._loss not in LISTWISE:
            weighting = "NDCG@30" if self.weighting == "auto" else self.weighting
            return PairWeights.parse(weighting, self.label_gain)
        if self.label_gain is not None:
            raise ParameterError(
                f"LambdaMART(loss={self.loss!r}, label_gain=...): this loss has no gains. Leave "
                "label_gain out, or weight pairs by weighting='NDCG@30'."
            )
        if self.weighting not in ("auto", None):
            raise ParameterError(
                f"LambdaMART(loss={self.loss!r}, weighting={self.weighting!r}): this loss has no "
                "pairs to weight. Leave weighting out, or choose a loss of pairs, as 'logistic'."
            )
        return PairWeights(None)

    def _rate(self, n_rows: int) -> float:
        """The learning rate for so many rows."""
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        return float(np.clip(0.05 * (max(n_rows, 1) / 10_000) ** 0.25, 0.02, 0.1))

    def _resumed(
        self, validation: Validation | None, more: int | None
    ) -> tuple[Trees | None, int, int]:
        """The trees to start from, how many these are, and how many to add."""
        known = trees_of(self) if (more or self.warm_start) and hasattr(self, "alpha_") else None
        n_known = len(known.root) if known else 0
        n_new = more or self.n_estimators - n_known
        if n_new < 0:
            raise ParameterError(
                f"LambdaMART(warm_start=True, n_estimators={self.n_estimators}).fit: the model "
                f"already has {n_known} trees. Set n_estimators to {n_known} or more."
            )
        if known and validation:
            curve = np.zeros(0) if self.validation_ is None else self.validation_[:n_known]
            validation.resume(known.decision_function(validation.X), curve)
        return known, n_known, n_new

    def _boost(
        self,
        X: Matrix,
        feedback: Grades,
        losses: Gradients,
        start: FloatArray,
        validation: Validation | None,
        pool: Team,
        known: Trees | None,
        n_new: int,
    ) -> list[Tree]:
        """The trees of ``n_new`` rounds after those that are known."""
        categorical = self._feature_mask(X.shape[1])
        monotone = self._monotone(categorical)
        learn = QuantileBins.learn
        bins = learn(
            X, losses.rows, losses.count, self.max_bins, categorical, pool, self.max_cat_levels
        )
        coded, folds = LevelCodes.of(bins, X, losses.rows, pool), None
        if coded.levels:
            n_queries = len(np.unique(feedback.queries.codes[losses.rows]))
            folds = Folds.of(fold_keys(feedback, [X], losses.rows, categorical, n_queries))
        keys = query_keys(feedback, losses.rows) if self.subsample < 1.0 else None
        binned, options = bins.coded(coded.codes, monotone), self._tree_options(X.shape[1])
        grower = Grower(
            binned, losses.count, bins.name_split, options, pool, levels=coded, folds=folds
        )
        held_out = LevelCodes.of(bins, validation.X, None, pool) if validation else None
        n_known = len(known.root) if known else 0
        scores, start = np.zeros(len(losses.rows)), start[losses.rows]
        if known:
            scores = known.decision_function(X)[losses.rows]

        def grow(draw: TreeDraw) -> Tree:
            rows = None
            if draw.queries is not None and keys is not None:
                rows = draw.queries.rows(keys)
            gradients = losses.at(start + scores, draw.seed)
            return grower.grow(*gradients, rows, draw.features, draw.seed, draw.number)

        def add(tree: Tree, draw: TreeDraw) -> None:
            if draw.queries is None and not coded.levels:
                grower.add_values(tree.alpha, scores)
            else:
                coded.add(tree, scores)

        draws = self._draws(keys, X.shape[1], n_known, n_new)
        return self._rounds(grow, add, draws, n_known, n_new, validation, held_out)

    def _rounds(
        self,
        grow: Callable[[Any], Tree],
        add: Callable[[Tree, Any], None],
        draws: Iterable[Any],
        n_known: int,
        n_new: int,
        validation: Validation | None,
        held_out: LevelCodes | None,
    ) -> list[Tree]:
        """Grow trees and add them to the scores until one of several ends comes."""
        trees: list[Tree] = []
        title, active = type(self).__name__, bool(self.verbose)
        with progress.task(title, n_new, unit="trees", active=active) as work:
            for draw in draws:
                tree = grow(draw)
                if len(tree.nodes) == 1:
                    break
                tree.alpha = self.learning_rate_
                trees.append(tree)
                add(tree, draw)
                stop, value = False, None
                if validation is not None and held_out is not None:
                    added = np.zeros(validation.X.shape[0])
                    held_out.add(tree, added)
                    stop, value = validation.add(added), validation.curve[-1]
                number = n_known + len(trees)
                work.update(len(trees), "" if value is None else f"validation {value:.4f}")
                report = Round(number, tree, None, None, value)
                stop = sum(bool(call(report)) for call in self.callbacks or []) > 0 or stop
                if stop:
                    break
        return trees

    def _draws(
        self, keys: Hashes | None, n_features: int, first: int, n: int
    ) -> Iterator[TreeDraw]:
        """The queries and the features of each tree; None for all. A draw depends on its number.

        ``keys`` are hashes of queries, so neither the order of rows nor where they are matters.
        """
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        distinct = None if keys is None else np.unique(keys)
        for number in range(first, first + n):
            rng = np.random.default_rng([seed, number])
            queries = features = None
            if distinct is not None:
                size = max(1, round(self.subsample * len(distinct)))
                salt = np.uint64(rng.integers(2**63))
                limit = np.partition(mix(distinct ^ salt), size - 1)[size - 1]
                queries = QueryDraw(salt, limit)
            if self.colsample_bytree < 1.0:
                features = np.zeros(n_features, bool)
                size = max(1, round(self.colsample_bytree * n_features))
                features[rng.permutation(n_features)[:size]] = True
            yield TreeDraw(number, queries, features, int(rng.integers(2**62)))

    def _may_drop_columns(self) -> bool:
        by_column = self.monotonic_cst is not None or self.interaction_cst is not None
        draws = min(self.colsample_bytree, self.colsample_bynode) < 1.0 or self._loss == "xendcg"
        return not by_column and not draws and not self.warm_start

    def _columns_to_keep(self, n_features: int) -> IntArray:
        return np.flatnonzero(self._feature_mask(n_features))

    def _fewest_values(self) -> int:  # the leaf without the zeros would be too small
        return self.min_samples_leaf

    def _tree_options(self, n_features: int) -> TreeOptions:
        leaves, depth, symmetric = self.max_leaf_nodes, self.max_depth, self.tree == "symmetric"
        if symmetric:
            depth = SYMMETRIC_DEPTH if depth is None and leaves is None else depth
            most = None if leaves is None else leaves.bit_length() - 1
            depth = min(d for d in (depth, most) if d is not None)
            leaves = 2**depth
        return TreeOptions(
            LEAVES if leaves is None else leaves,
            self.min_samples_leaf,
            self.l2_regularization,
            interactions=self._interactions(n_features),
            max_depth=depth,
            min_split_gain=self.min_split_gain,
            symmetric=symmetric,
            colsample_bynode=self.colsample_bynode,
            cat_smooth=self.cat_smooth,
            cat_l2=self.cat_l2,
            max_bins=self.max_bins,
        )

    def _keep(self, known: Trees | None, trees: list[Tree], n_features: int) -> None:
        weights = [tree.alpha for tree in trees]
        new = Trees.from_nodes(n_features, [tree.nodes for tree in trees], weights)
        self._keep_trees(known.joined(new) if known else new)

    def _keep_trees(self, trees: Trees) -> None:
        self.alpha_ = trees.weight
        for name, value in tree_attributes(trees).items():
            setattr(self, name, value)
        self.feature_importances_ = gain_shares(trees)
        self.best_iteration_ = len(trees.root)

    def _feature_mask(self, n_features: int) -> BoolArray:
        """Which features are categorical."""
        given, mask = self.categorical_features, np.zeros(n_features, bool)
        if given is None:
            return mask
        names = list(getattr(self, "feature_names_in_", []))
        values = np.atleast_1d(np.asarray(given))
        if values.dtype.kind == "b" and values.shape == (n_features,):
            return np.asarray(values)
        if values.dtype.kind == "b":
            raise ParameterError(
                f"LambdaMART(categorical_features=...): a mask of {values.size} values, but X has "
                f"{n_features} features."
            )
        where = "LambdaMART(categorical_features=...)"
        mask[[feature_number(where, value, names, n_features) for value in values.tolist()]] = True
        return mask

    def _monotone(self, categorical: BoolArray) -> Any:
        try:
            monotone = _check_monotonic_cst(self, self.monotonic_cst)
        except ValueError as error:
            raise ParameterError(f"LambdaMART(monotonic_cst=...): {error}") from None
        if both := np.flatnonzero((monotone != 0) & categorical).tolist():
            raise ParameterError(
                f"LambdaMART: feature {both[0]} is categorical and monotone. Categories have no "
                "order: set its monotonic_cst to 0."
            )
        return monotone

    def _interactions(self, n_features: int) -> tuple[frozenset[int], ...]:
        given, every = self.interaction_cst, range(n_features)
        if given is None:
            return ()
        if isinstance(given, str) and given in ("no_interactions", "pairwise"):
            size = 1 if given == "no_interactions" else min(2, n_features)
            return tuple(frozenset(group) for group in combinations(every, size))
        names = list(getattr(self, "feature_names_in_", []))
        where = "LambdaMART(interaction_cst=...)"
        groups = [
            frozenset(feature_number(where, f, names, n_features) for f in group) for group in given
        ]
        rest = frozenset(every) - frozenset().union(*groups)
        return (*groups, rest) if rest else tuple(groups)


class QueryDraw(NamedTuple):
    """Some of all queries: those whose salted hashes are up to a limit."""

    salt: Any
    limit: Any

    def rows(self, keys: Hashes) -> NDArray[np.int32]:
        """The rows of these queries, given the hashes of the queries of rows."""
        return np.flatnonzero(mix(keys ^ self.salt) <= self.limit).astype(np.int32)


class TreeDraw(NamedTuple):
    """The number of a tree, and what is drawn for it: queries and features (None: all), a seed."""

    number: int
    queries: QueryDraw | None
    features: BoolArray | None
    seed: int
