"""What parameters of LightGBM, XGBoost, CatBoost and of recommenders are called here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Self, TypeVar

from rankwright.exceptions import UnknownParameterError

F = TypeVar("F", bound=Callable[..., Any])

# Ours may belong to another class than the one that was called: then it is shown with its class.
OURS = {
    "num_leaves": "max_leaf_nodes",
    "max_leaves": "max_leaf_nodes",
    "num_iterations": "n_estimators",
    "num_boost_round": "n_estimators",
    "num_round": "n_estimators",
    "num_trees": "n_estimators",
    "iterations": "n_estimators",
    "eta": "learning_rate",
    "shrinkage_rate": "learning_rate",
    "depth": "max_depth",
    "min_child_samples": "min_samples_leaf",
    "min_data_in_leaf": "min_samples_leaf",
    "min_child_weight": "min_samples_leaf",
    "gamma": "min_split_gain",
    "min_split_loss": "min_split_gain",
    "min_gain_to_split": "min_split_gain",
    "reg_lambda": "l2_regularization",
    "lambda_l2": "l2_regularization",
    "l2_leaf_reg": "l2_regularization",
    "max_bin": "max_bins",
    "border_count": "max_bins",
    "objective": "loss",
    "loss_function": "loss",
    "lambdarank_truncation_level": "weighting",
    "lambdarank_num_pair_per_sample": "weighting",
    "bagging_fraction": "subsample",
    "feature_fraction": "colsample_bytree",
    "feature_fraction_bynode": "colsample_bynode",
    "rsm": "colsample_bynode",
    "monotone_constraints": "monotonic_cst",
    "interaction_constraints": "interaction_cst",
    "categorical_feature": "categorical_features",
    "cat_features": "categorical_features",
    "early_stopping_rounds": "early_stopping",
    "od_wait": "early_stopping",
    "num_threads": "n_jobs",
    "nthread": "n_jobs",
    "thread_count": "n_jobs",
    "seed": "random_state",
    "random_seed": "random_state",
}
# Of implicit, LensKit, Surprise, RecTools and LightFM; used where the class has ours.
RECOMMENDERS = {
    "factors": "n_factors",
    "no_components": "n_factors",
    "features": "n_factors",
    "embedding_size": "n_factors",
    "regularization": "l2_regularization",
    "reg": "l2_regularization",
    "iterations": "max_iter",
    "epochs": "max_iter",
    "n_epochs": "max_iter",
    "K": "n_neighbors",
    "k": "n_neighbors",
    "max_nbrs": "n_neighbors",
    "shrink": "shrinkage",
    "lambd": "l2_regularization",
    "l2": "l2_regularization",
    "filter_items": "exclude",
    "filter_already_liked_items": "exclude",
    "filter_viewed": "exclude",
    "items_to_recommend": "filter",
    "items": "filter",
    "models": "experts",
    "algo": "experts",
}
LISTS = {"N": "n", "k": "n", "top_k": "n", "topk": "n"}  # where a method makes lists
ADVICE = {
    "group": "Give the query of each row as qid: qid=np.repeat(np.arange(len(group)), group).",
    "group_id": "It is called qid here, one id per row, in any order.",
    "eval_group": "Give the query of each validation row as eval_qid.",
    "position": "Clicks with positions are an ImpressionLog: see learn_from_log in the guide.",
    "feature_name": "Pass X as a data frame; its columns are the names of the features.",
    "feature_names": "Pass X as a data frame; its columns are the names of the features.",
    "eval_metric": "Name the measure in EarlyStopping(measure=...), given as early_stopping.",
    "eval_at": "Name the measure in EarlyStopping(measure='NDCG@10'), given as early_stopping.",
    "eval_names": "There is one eval_set; its measure is in validation_.",
    "init_model": "Use fit_more, or warm_start=True.",
    "xgb_model": "Use fit_more, or warm_start=True.",
    "base_margin": "It is called init_score here.",
    "reg_alpha": "There is no L1 term; l2_regularization is the L2 term.",
    "lambda_l1": "There is no L1 term; l2_regularization is the L2 term.",
    "boosting_type": "Trees are grown by gradient boosting only; see subsample for sampling.",
    "booster": "LambdaMART grows trees only; RankSVM and others are linear.",
    "tree_method": "Trees are always grown on histograms.",
    "bagging_by_query": "subsample always draws whole queries.",
    "bagging_freq": "subsample draws new queries for every tree.",
    "grow_policy": "Use tree='leafwise' (Lossguide) or tree='symmetric' (SymmetricTree).",
    "lambdarank_norm": "Weights are always normalized by query.",
    "metric": "Name the measure in EarlyStopping(measure=...), given as early_stopping.",
    "device": "Training runs on the CPU.",
    "device_type": "Training runs on the CPU.",
    "task_type": "Training runs on the CPU.",
    "enable_categorical": "Name the columns in categorical_features.",
    "verbosity": "Use verbose=0 or 1.",
    "silent": "Use verbose=0.",
}


def unknown_parameter(owner: str, name: str, known: Iterable[str]) -> UnknownParameterError:
    """The error for an unknown parameter, with the one that was probably meant.

    >>> print(unknown_parameter("LambdaMART", "num_leaves", ["max_leaf_nodes", "loss"]))
    LambdaMART has no parameter num_leaves. It is called max_leaf_nodes here.
    """
    names = [other for other in known if other not in ("self", "X", "y")]
    fix = f"Its parameters are {', '.join(names)}." if names else "It takes none."
    if close := difflib.get_close_matches(name, names, n=1, cutoff=0.75):
        fix = f"Did you mean {close[0]}?"
    if name in ADVICE:
        fix = ADVICE[name]
    elif found := [t[name] for t in (RECOMMENDERS, LISTS) if t.get(name) in names]:
        fix = f"It is called {found[0]} here."
    elif name in OURS:
        ours = OURS[name]
        fix = f"It is called {ours} here" + ("." if ours in names else ", on LambdaMART.")
    return UnknownParameterError(f"{owner} has no parameter {name}.", parameter=name, fix=fix)


def check_keywords(cls: type, keywords: Iterable[str]) -> None:
    """Raise an UnknownParameterError if the constructor lacks one of these parameters."""
    given = tuple(keywords)
    if not given:
        return
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    known = signature.parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
        return
    for name in given:
        if name not in known:
            raise unknown_parameter(cls.__name__, name, known)


class ExplainsParameters:
    """Base class of estimators whose constructors raise an UnknownParameterError.

    ``__new__`` stands here, and not beside ``__init__``: of the two, ``inspect.signature`` shows
    the one of the class that comes first among the bases.
    """

    def __new__(cls, *values: Any, **parameters: Any) -> Self:
        check_keywords(cls, parameters)
        return super().__new__(cls)


def explains_names(method: F) -> F:
    """Decorate a method: arguments that it does not have raise an UnknownParameterError."""
    known = inspect.signature(method).parameters

    @wraps(method)
    def checked(self: Any, *values: Any, **arguments: Any) -> Any:
        for name in arguments:
            if name not in known:
                raise unknown_parameter(f"{type(self).__name__}.{method.__name__}", name, known)
        return method(self, *values, **arguments)

    return checked  # type: ignore[return-value]
