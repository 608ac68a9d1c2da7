"""Boosting of small regression trees, as QBRank and IsoRank share it.

Every round fits a tree to where the scores are to move, and adds a part of it.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from permatch._types import FloatArray
from permatch._validation import check_count
from permatch.estimators.checks import check_number
from permatch.queries import QueryRows, QuerySet
from reproduce.rivals.base import Rival, added_up

#: From scores to where they are to move, and how much that matters, by document.
Aim = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(eq=False, repr=False, kw_only=True)
class TreeBoosting(Rival):
    """A sum of regression trees.

    Subclasses say in `_aim` where the scores are to move.

    Parameters
    ----------
    learning_rate : float
        The part of every tree that is added, above 0.
    max_leaf_nodes, min_samples_leaf : int
        Leaves of a tree at most, and documents of a leaf at least.
    margin : float
        By how much more a document is to score than another, per grade between them.
    random_state : int
        Decides between splits that are equally good.
    n_rounds, qid, scaling, verbose
        As in `Rival`.

    Attributes
    ----------
    members_ : list of DecisionTreeRegressor
        The trees.
    """

    learning_rate: float = 0.1
    max_leaf_nodes: int = 8
    min_samples_leaf: int = 30
    margin: float = 1.0
    random_state: int = 0
    n_rounds: int = 200

    @abstractmethod
    def _aim(self, queries: QuerySet) -> Aim:
        """Return the function from scores to how they are to move."""

    def _learn(self, queries: QuerySet) -> Iterator[DecisionTreeRegressor]:
        rate = check_number(self.learning_rate, "learning_rate", is_zero_allowed=False)
        check_number(self.margin, "margin", is_zero_allowed=False)
        options: dict[str, Any] = {
            "max_leaf_nodes": check_count(self.max_leaf_nodes, "max_leaf_nodes", 2),
            "min_samples_leaf": check_count(self.min_samples_leaf, "min_samples_leaf", 1),
            "random_state": check_count(self.random_state, "random_state", 0),
        }
        documents = queries.documents.astype(np.float32)  # which trees would do each time
        aim = self._aim(queries)
        scores = np.zeros(queries.n_documents)
        while True:
            moves, weights = aim(scores)
            if not moves.any():
                return
            tree = DecisionTreeRegressor(**options)
            tree.fit(documents, moves, sample_weight=weights)
            yield tree
            scores += rate * tree.predict(documents)

    def _stages(self, documents: FloatArray, rows: QueryRows) -> Iterator[FloatArray]:
        own = documents.astype(np.float32)
        parts = (self.learning_rate * tree.predict(own) for tree in self.members_)
        return added_up(parts, len(documents))
