"""The rankers that the contract is checked on: every public one, in its main variants.

A variant that shares no code path with the default deserves its own line.
"""

from __future__ import annotations

import rankwright as rw

INSTANCES = [
    rw.RidgeRanker(),
    rw.RidgeRanker(alpha=1.0, center=False),
    rw.RidgeRanker(solution="basic", fit_intercept=False),
    rw.RankSVM(),
    rw.RankSVM(loss="hinge"),
    rw.RankSVM(kernel="rbf"),
    rw.RankBoost(),
    rw.RankBoost(criterion="z", cumulative=True, max_bins=None, n_estimators=20),
    rw.RankBoost(estimator="value", criterion="newton", n_estimators=20),
    rw.RankBoost(estimator=rw.TreeRanking(min_samples_leaf=1), n_estimators=20),
    rw.RankBoost(weighting="NDCG", n_estimators=20),
    rw.RankBoost(weighting="NDCG", estimator=rw.TreeRanking(min_samples_leaf=1), n_estimators=20),
    rw.LambdaMART(n_estimators=20, min_samples_leaf=1),
    rw.LambdaMART(tree="leafwise", weighting="NDCG@30", n_estimators=20, min_samples_leaf=1),
    rw.LambdaMART(loss="xendcg", n_estimators=20, min_samples_leaf=1, random_state=0),
    rw.LambdaMART(
        loss="exponential",
        weighting=None,
        categorical_features=[0],
        n_estimators=10,
        min_samples_leaf=1,
    ),
    rw.AdaBoostRanker(),
    rw.RankNet(max_iter=40, learning_rate=0.03, random_state=0),
    rw.RankNet(
        hidden_layer_sizes=(), loss="fidelity", max_iter=40, learning_rate=0.1, random_state=0
    ),
    rw.LargeMarginOrdinal(),
    rw.OrdinalSVM(),
    rw.OrdinalSVM(margins="sum"),
    rw.OrdinalSVM(kernel="rbf"),
    rw.ProportionalOdds(),
    rw.ProportionalOdds(kernel="rbf"),
    rw.FRank(n_estimators=20),
    rw.FRank(n_estimators=20, cumulative="signed", max_bins=None),
    rw.FRank(n_estimators=5, choice="full"),
    rw.MPRank(),
    rw.MPRank(kernel="rbf"),
    rw.MPRankCV(),
    rw.SVRank(),
    rw.SVRank(power=2, kernel="rbf"),
    rw.KeepRank(),
    rw.KeepRank(levels="ordinal", kernel="poly", gamma=1.0, shuffle=True, random_state=0),
    rw.OnlineKeepRank(),
    rw.OnlineKeepRank(levels="ordinal", budget=30, average=False),
    rw.PRank(),
    rw.PRank(average=True),
    rw.PRank(update="romma"),
    rw.PRank(update="mira"),
    rw.PRank(update="alma", average=True),
    rw.KernelPRank(),
    rw.KernelPRank(kernel="poly", degree=2),
    rw.KernelPRank(gamma=0.5, budget=20),
    rw.KernelPRank(kernel="poly", budget=15, budget_rule="smallest"),
    rw.KernelPRank(gamma=0.5, average=True, budget=20),
    rw.BayesPoint(n_estimators=10, random_state=0),
    rw.BayesPoint(estimator=rw.KernelPRank(gamma=0.5), n_estimators=5, random_state=0),
    rw.BayesianPRank(),
    rw.BayesianPRank(covariance="diagonal", degree=2),
    rw.BayesianPRank(covariance="low_rank", n_directions=2),
    rw.VotedPRank(),
    rw.VotedPRank(kernel="rbf", gamma=0.5, budget=20, max_rules=10),
    rw.OAPBPM(n_estimators=20, random_state=0),
    rw.OAPBPM(estimator=rw.PRank(update="romma"), n_estimators=10, random_state=0),
    rw.OAPBPM(estimator=rw.PRank(update="mira"), n_estimators=10, random_state=0),
    rw.OAPVoting(estimator=rw.PRank(update="alma"), n_estimators=10, random_state=0),
    rw.OAPBPM(estimator=rw.KernelPRank(), n_estimators=10, random_state=0),
    rw.OAPBagging(n_estimators=20, sampling="poisson", random_state=0),
    rw.OAPVoting(n_estimators=20, random_state=0),
    rw.OAPVoting(
        estimator=rw.KernelPRank(budget=20), n_estimators=10, count="correct", random_state=0
    ),
    rw.RankEnsemble([rw.RankSVM(), rw.LambdaMART(n_estimators=10, min_samples_leaf=1)]),
    rw.RankEnsemble(
        [("a", rw.RankBoost(n_estimators=9)), ("b", rw.RankBoost(n_estimators=5))], weights=[1, 3]
    ),
    rw.RankEnsemble(
        [rw.RankSVM(kernel="rbf"), rw.RankEnsemble([rw.RidgeRanker(), rw.RankNet(random_state=0)])]
    ),
    rw.WidrowHoff(),
    rw.MulticlassPerceptron(),
    rw.VSIM(),
    rw.VSIM(over="rated"),
    rw.VSIM(unseen="zero"),
    rw.NearestNeighbor(),
    rw.KNN(n_neighbors=2),
    rw.KNN(n_neighbors=2, shrinkage=5.0),
]

# With their default parameters but for the seed, where the lines above are of a smaller size.
DEFAULTS = [
    rw.LambdaMART(),
    rw.RankNet(random_state=0),
    rw.FRank(),
    rw.BayesPoint(random_state=0),
    rw.OAPBPM(random_state=0),
    rw.OAPBagging(random_state=0),
    rw.OAPVoting(random_state=0),
    rw.KNN(),
]
