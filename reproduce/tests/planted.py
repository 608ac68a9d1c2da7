"""Lists with planted relevance, and one small model of every rival."""

import numpy as np

from reproduce.rivals import (
    CCRF,
    AdaRank,
    FRank,
    IsoRank,
    ListNet,
    QBRank,
    RankBoost,
    RankSVM,
    SortNet,
    StructRank,
)


def planted(seed=0, n_queries=12, length=10, n_features=3, n_grades=3, noise=0.4):
    """Return documents, grades and query ids; the first feature says most."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * length, n_features))
    hidden = 1.5 * X[:, 0] + 0.7 * X[:, 1] + noise * rng.normal(size=len(X))
    y = np.digitize(hidden, np.linspace(-0.4, 1.4, n_grades - 1))
    return X, y, np.repeat(np.arange(n_queries), length)


def alike(y, qid, seed=0):
    """Return similarities that follow the grades, by query."""
    rng = np.random.default_rng(seed)
    found = {}
    for query in np.unique(qid):
        values = y[qid == query] + 0.5 * rng.normal(size=(qid == query).sum())
        found[query] = np.exp(-np.abs(np.subtract.outer(values, values)))
    return found


_X, _y, _qid = planted()

#: A model of every rival that learns the planted lists in a fraction of a second.
RIVALS = {
    "RankBoost": RankBoost(n_rounds=30),
    "RankSVM": RankSVM(alpha=1e-3),
    "FRank": FRank(n_rounds=30),
    "ListNet": ListNet(alpha=1e-3),
    "AdaRank-MAP": AdaRank(measure="MAP", is_reusing=False),
    "AdaRank-NDCG": AdaRank(measure="NDCG@5", n_rounds=10),
    "QBRank": QBRank(n_rounds=15, learning_rate=0.3, min_samples_leaf=5),
    "IsoRank": IsoRank(n_rounds=15, learning_rate=0.3, min_samples_leaf=5),
    "SortNet": SortNet(n_rounds=3, n_hidden=3),
    "StructRank": StructRank(alpha=1e-3),
    "C-CRF": CCRF(similarity=alike(_y, _qid)),
}
#: Those that learn in rounds, and those whose scores depend on the whole list.
IN_ROUNDS = [name for name, model in RIVALS.items() if hasattr(model, "n_rounds")]
OF_LISTS = ["SortNet", "C-CRF"]
