"""Boosted trees for links: of single pairs, and by the likelihood of all links together.

Both are trees of LightGBM with the same options.  Leaves and rounds are chosen by folds of
the training pairs, no record of a held-out pair being learned from: those of single pairs
by the log-loss of held-out pairs, those of links by their likelihood.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import permatch as pm
from permatch._types import FloatArray
from permatch.boosting.trees import Growth, Judge, grow_together
from permatch.inference import Bethe
from permatch.linking import split_entities
from reproduce.experiments.bibliographies import FEATURES, Candidates
from reproduce.experiments.matching_trees import EdgeLoss

N_FOLDS = 5
LEAF_COUNTS = (4, 8, 16)
LEARNING_RATE = 0.1
N_ROUNDS, PATIENCE = 300, 20

_OPTIONS = {
    "learning_rate": LEARNING_RATE,
    "min_data_in_leaf": 20,
    "seed": 0,
    "num_threads": 1,
}


@dataclass(frozen=True, eq=False)
class PairTrees:
    """Trees of single pairs, chosen by folds.

    Attributes
    ----------
    out_of_fold : ndarray of shape (n_train,)
        Probabilities of the training pairs by trees that did not see the left record.
    probability : ndarray of shape (n_test,)
        Probabilities of the test pairs.
    chosen : dict
        ``num_leaves``, ``n_rounds`` and their ``log_loss`` on held-out pairs.
    """

    out_of_fold: FloatArray
    probability: FloatArray
    chosen: dict[str, float]


def pair_trees(train: Candidates, test: Candidates, seed: int) -> PairTrees:
    """Grow trees by the logistic loss of single pairs, leaves and rounds by folds."""
    is_link = train.is_link.astype(np.float64)
    of_left, of_right = split_entities(train.left, train.right, is_link, N_FOLDS, seed)
    folds = [
        ((of_left != k) & (of_right != k), (of_left == k) & (of_right == k))
        for k in range(N_FOLDS)
    ]
    best: tuple[float, int, int, FloatArray] | None = None
    for num_leaves in LEAF_COUNTS:
        options = _OPTIONS | {"num_leaves": num_leaves}
        losses = [EdgeLoss(is_link[own]) for own, _ in folds]
        growths = [
            Growth(train.features[own], loss, options, train.features[held_out])
            for (own, held_out), loss in zip(folds, losses, strict=True)
        ]
        judges = [
            _judge(loss, is_link[held_out])
            for (_, held_out), loss in zip(folds, losses, strict=True)
        ]
        grown = grow_together(growths, judges, N_ROUNDS, PATIENCE)
        if grown.is_interrupted:
            raise KeyboardInterrupt
        if best is None or -grown.best_score < best[0]:
            # A pair between two folds counts by that of its left record.
            p = np.empty(len(train))
            for k, (growth, loss) in enumerate(zip(growths, losses, strict=True)):
                own = of_left == k
                trees = growth.trees(grown.best_round)
                p[own] = loss.probability(trees.predict(train.features[own]))
            best = -grown.best_score, num_leaves, grown.best_round, p
    assert best is not None
    log_loss, num_leaves, n_rounds, out_of_fold = best
    loss = EdgeLoss(is_link)
    growth = Growth(train.features, loss, _OPTIONS | {"num_leaves": num_leaves})
    grow_together([growth], None, n_rounds, PATIENCE)
    probability = loss.probability(growth.trees().predict(test.features))
    chosen = {"num_leaves": num_leaves, "n_rounds": n_rounds, "log_loss": log_loss}
    return PairTrees(out_of_fold, probability, chosen)


def _judge(loss: EdgeLoss, is_link: FloatArray) -> Judge:
    """Return a judge of the scores of held-out pairs: minus their mean log-loss."""

    def judge(scores: FloatArray) -> float:
        log_odds = scores + loss.constant
        return -float(np.mean(np.logaddexp(0.0, log_odds) - is_link * log_odds))

    return judge


def boosted_links(train: Candidates, seed: int) -> Any:
    """Return `BoostedMatchingCV` of all links together, for `pm.link`."""
    rows, i = np.unique(train.left, return_inverse=True)
    columns, j = np.unique(train.right, return_inverse=True)
    sizes = {"n_left": len(rows), "n_right": len(columns)}
    graph = pm.BipartiteGraph.from_edges(i, j, train.features, **sizes)
    matching = np.full(len(rows), -1)
    matching[i[train.is_link]] = j[train.is_link]
    model = pm.BoostedMatchingCV(
        leaf_counts=LEAF_COUNTS,
        n_rounds=N_ROUNDS,
        learning_rate=LEARNING_RATE,
        patience=PATIENCE,
        cv=N_FOLDS,
        random_state=seed,
        # The folds of a table this wide cannot be solved exactly.
        engine=Bethe(),
        unmatched="any",
    )
    return model.fit([graph], [matching], feature_names=list(FEATURES))
