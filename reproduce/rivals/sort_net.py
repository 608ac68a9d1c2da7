"""SortNet-style: a network that compares two documents, trained on what it sorts wrongly.

The network has twin hidden units, so that its output for the exchanged pair is the one for
the opposite order (`comparator.py`).  It is trained by squared error to 1 for a better
document before a worse one, and 0 for the reverse.

It starts from some random pairs.  A round trains on the pairs it has, sorts every training
list by the comparator, and adds the comparisons that the sort made and got wrong.

The comparator need not be transitive, so a list is ranked by the mean of N(x, y) - N(y, x)
over all y in it, not by a sort, whose result would depend on the algorithm.

References
----------
L. Rigutini, T. Papini, M. Maggini and F. Scarselli, "SortNet: learning to rank by a
neural-based sorting algorithm", LR4IR 2008, arXiv:2311.01864.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cmp_to_key

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch._validation import check_count, check_rng
from permatch.estimators.checks import check_number
from permatch.optimizers import minimize
from permatch.queries import QueryRows, QuerySet
from reproduce.rivals.base import Rival
from reproduce.rivals.comparator import Comparator, SquaredError


@dataclass(eq=False, repr=False, kw_only=True)
class SortNet(Rival):
    """Train a comparator on the pairs that it sorts wrongly.

    Parameters
    ----------
    n_hidden : int
        Hidden units, not counting their twins.
    decay : float
        Half of it times the squares of all weights is added to the mean squared error.
    n_start : int
        Random pairs of different grade that each query begins with.
    n_steps : int
        Steps of L-BFGS per round.
    random_state : int
        Of the first pairs and weights.
    n_rounds, qid, scaling, verbose
        As in `Rival`.

    Attributes
    ----------
    members_ : list of Comparator
        The network after each round; the last one counts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=40), [0.0, 1.0])
    >>> model = SortNet(n_hidden=2, n_rounds=5).fit(X, y, group=[8] * 5)
    >>> model.score(X, y, group=[8] * 5) > 0.9
    True
    """

    n_hidden: int = 10
    decay: float = 1e-4
    n_start: int = 20
    n_steps: int = 30
    n_rounds: int = 10
    random_state: int = 0

    def _learn(self, queries: QuerySet) -> Iterator[Comparator]:
        n_hidden = check_count(self.n_hidden, "n_hidden", 1)
        n_steps = check_count(self.n_steps, "n_steps", 1)
        decay = check_number(self.decay, "decay")
        rng = check_rng(check_count(self.random_state, "random_state", 0))
        n_weights = n_hidden * (2 * queries.n_features + 3) + 1
        weights = 0.3 * rng.normal(size=n_weights)
        known = _first_pairs(queries, check_count(self.n_start, "n_start", 1), rng)
        while True:
            loss = SquaredError(queries.documents, np.array(sorted(known)).T, decay)
            weights = minimize(
                loss.value_and_grad, weights, tol=1e-6, max_iter=n_steps
            ).coef
            network = Comparator.from_vector(weights, queries.n_features)
            yield network
            mistakes = _mistakes(queries, network)
            if mistakes <= known:
                return
            known |= mistakes

    def _stages(self, documents: FloatArray, rows: QueryRows) -> Iterator[FloatArray]:
        for network in self.members_:
            scores = np.empty(len(documents))
            for first, last in zip(rows.starts[:-1], rows.starts[1:], strict=True):
                prefers = network.prefers(documents[first:last])
                scores[first:last] = (prefers - prefers.T).mean(axis=1)
            yield scores


def _first_pairs(
    queries: QuerySet, n_pairs: int, rng: np.random.Generator
) -> set[tuple[int, int]]:
    """Return random pairs of different grade, better first, from every query."""
    found: set[tuple[int, int]] = set()
    for first, last in zip(queries.starts[:-1], queries.starts[1:], strict=True):
        grades = queries.grades[first:last]
        pairs = first + np.argwhere(grades[:, None] > grades)
        chosen = rng.choice(len(pairs), min(n_pairs, len(pairs)), replace=False)
        found.update((int(better), int(worse)) for better, worse in pairs[chosen])
    return found


def _mistakes(queries: QuerySet, network: Comparator) -> set[tuple[int, int]]:
    """Return the pairs, better first, that a sort of the lists compares wrongly."""
    found: set[tuple[int, int]] = set()
    for first, last in zip(queries.starts[:-1], queries.starts[1:], strict=True):
        prefers = network.prefers(queries.documents[first:last])
        is_before = prefers > prefers.T
        better, worse = np.array(compared(is_before)).T
        grades = queries.grades[first:last]
        is_swapped = grades[better] < grades[worse]
        better, worse = np.where(is_swapped, (worse, better), (better, worse))
        is_wrong = (grades[better] > grades[worse]) & ~is_before[better, worse]
        pairs = first + np.column_stack([better, worse])[is_wrong]
        found.update((int(i), int(j)) for i, j in pairs)
    return found


def compared(is_before: BoolArray) -> list[tuple[int, int]]:
    """Return the comparisons that a sort makes, in their order.

    Parameters
    ----------
    is_before : ndarray of shape (n, n)
        Whether one is to come before the other; neither means equal.

    Examples
    --------
    >>> compared(np.triu(np.ones((3, 3), dtype=bool), 1))  # in order already
    [(1, 0), (2, 1)]
    """
    made = []
    answers = is_before.tolist()

    def compare(i: int, j: int) -> int:
        made.append((i, j))
        return answers[j][i] - answers[i][j]

    sorted(range(len(answers)), key=cmp_to_key(compare))
    return made
