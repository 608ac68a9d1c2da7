"""Inference by definition: sum over every matching.  The oracle of all tests."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from permatch._parallel import check_stopped
from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import enough_memory
from permatch.errors import SizeLimitError
from permatch.inference.answer import Diagnostics, InferenceResult
from permatch.inference.base import AbstractEngine, Job, check_feasible
from permatch.inference.components import Assembly, no_matching
from permatch.problems import Problem

# Rows whose matchings are listed at once.
_ROWS_AT_ONCE = 9
# Partial matchings that are listed at most, and right nodes that fit into a mask.
_MOST_MATCHINGS, _MOST_RIGHT = 2_000_000, 62


@lru_cache(maxsize=2)
def all_matchings(size: int) -> IntArray:
    """Return every matching of `size` nodes, (size!, size), in lexicographic order."""
    n_matchings = math.factorial(size)
    # Tuples of pointers first, then the table.
    n_bytes = float(n_matchings) * (16 * size + 64) if size < 100 else math.inf
    with enough_memory(f"the list of all matchings of {size} nodes", n_bytes):
        listed = np.array(list(permutations(range(size))), dtype=np.intp)
    table = listed.reshape(n_matchings, size)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, kw_only=True)
class Enumeration(AbstractEngine):
    """Log-partition and marginals by listing all m! matchings.

    Defines what every other engine computes.

    Parameters
    ----------
    max_size : int
        Largest graph accepted; 9! is 362,880 matchings.

    Notes
    -----
    O(m m!) time; the 9! matchings of nine rows are held in memory.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.Enumeration().infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> round(float(np.exp(result.log_partition)), 9), result.is_exact  # 3 * 2 + 1 * 2
    (8.0, True)
    >>> result.marginals.round(2).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    max_size: int = 9
    name = "enumeration"
    is_always_exact = True
    counts_links = True

    def log2_seconds(self, size: int) -> float:
        """Estimate log2 of the seconds one graph takes on one thread."""
        return math.lgamma(size + 1) / math.log(2.0) + math.log2(size + 1) + math.log2(1e-8)

    def log2_bytes(self, size: int) -> float:
        """Estimate log2 of the bytes one graph needs."""
        n_rows = min(size, _ROWS_AT_ONCE)
        return math.lgamma(n_rows + 1) / math.log(2.0) + math.log2(size + 4) + 5.0

    def _infer_stack(
        self, scores: FloatArray, members: IntArray, job: Job
    ) -> InferenceResult:
        n_graphs, size = scores.shape[:2]
        # -inf in a row of -inf: keep it, rather than make a NaN of it
        tops = scores.max(axis=2, initial=-np.inf, keepdims=True)
        tops[np.isneginf(tops)] = 0.0
        shifted = scores - tops
        log_partitions = np.empty(n_graphs)
        marginals = np.empty_like(scores)

        def solve(g: int) -> None:
            total, masses, best = _add_up(shifted[g])
            if total == 0.0:
                log_partitions[g] = -np.inf
                return
            # The best matching's own scores, summed exactly: shifts leave no trace.
            terms = [*scores[g][np.arange(size), best], math.log(total)]
            log_partitions[g] = math.fsum(terms)
            marginals[g] = np.minimum(masses / total, 1.0)

        job.run(solve, n_graphs)
        check_feasible(log_partitions, scores, members)
        diagnostics = Diagnostics(self.name, "asked for", size, n_graphs)
        return InferenceResult(log_partitions, marginals, True, diagnostics)

    def _infer_links(self, problem: Problem, job: Job) -> InferenceResult:
        return self._infer_problem(problem, job)

    def _infer_problem(self, problem: Problem, job: Job) -> InferenceResult:
        whole = Assembly(problem)
        for c in range(len(problem.structure.components)):
            part = problem.select(np.array([c]))
            answer = _solve_component(part.problem)
            if answer is None:
                raise no_matching(problem, c)
            whole.add(part, answer)
        return whole.result(self.name, "asked for")


def _solve_component(problem: Problem) -> InferenceResult | None:
    """Sum over all matchings of one component; None if there is none."""
    structure = problem.structure
    if problem.has_capacities:
        is_used, is_free = _list_links(problem)
    else:
        chosen = list_matchings(problem)  # edges, -1 for unmatched
        is_used = np.zeros((len(chosen), structure.n_edges + 1), dtype=bool)
        np.put_along_axis(is_used, chosen, True, axis=1)  # the last column: unmatched
        is_used = is_used[:, :-1]
        is_taken = np.zeros((len(chosen), structure.n_right), dtype=bool)
        rows, edges = np.nonzero(is_used)
        is_taken[rows, structure.right[edges]] = True
        is_free = np.hstack([chosen < 0, ~is_taken])
    if not len(is_used):
        return None
    prices = np.concatenate([problem.unmatched_left, problem.unmatched_right])
    terms = np.where(is_used, problem.scores, 0.0).sum(axis=1)
    terms += np.where(is_free, prices, 0.0).sum(axis=1)
    best = int(terms.argmax())
    weights = np.exp(terms - terms[best])
    total = weights.sum()
    # The best matching's own scores, summed exactly.
    own = [*problem.scores[is_used[best]], *prices[is_free[best]], math.log(total)]
    free = np.minimum(weights @ is_free / total, 1.0)
    return InferenceResult(
        np.array([math.fsum(own)]),
        np.minimum(weights @ is_used / total, 1.0),
        True,
        Diagnostics("enumeration", "asked for", structure.n_left),
        unmatched_left=free[: structure.n_left],
        unmatched_right=free[structure.n_left :],
    )


def list_matchings(problem: Problem) -> IntArray:
    """Return every matching of a small graph.

    Parameters
    ----------
    problem : Problem
        One graph.

    Returns
    -------
    ndarray of shape (n, n_left)
        The edge of every left node, -1 for unmatched; only matchings that leave no node
        unmatched that must be matched.
    """
    structure = problem.structure
    if structure.n_right > _MOST_RIGHT:
        raise SizeLimitError(
            f"Enumeration handles components of at most {_MOST_RIGHT} right nodes, got "
            f"{structure.n_right}. Use engine='auto'."
        )
    chosen = np.zeros((1, 0), dtype=np.intp)
    taken = np.zeros(1, dtype=np.int64)
    for i in range(structure.n_left):
        check_stopped()
        pieces, masks = [], []
        if problem.unmatched_left[i] > -np.inf:
            pieces.append(np.insert(chosen, i, -1, axis=1))
            masks.append(taken)
        for e in range(structure.starts[i], structure.starts[i + 1]):
            bit = 1 << int(structure.right[e])
            is_open = taken & bit == 0
            pieces.append(np.insert(chosen[is_open], i, e, axis=1))
            masks.append(taken[is_open] | bit)
        if sum(map(len, pieces)) > _MOST_MATCHINGS:
            raise SizeLimitError(
                f"Enumeration lists at most {_MOST_MATCHINGS} matchings of a component; "
                f"this one of {structure.n_left} x {structure.n_right} nodes has more. Use "
                "engine='auto'."
            )
        if not pieces:
            return np.zeros((0, structure.n_left), dtype=np.intp)
        chosen, taken = np.concatenate(pieces), np.concatenate(masks)
    must = sum(1 << int(j) for j in np.nonzero(problem.unmatched_right == -np.inf)[0])
    return chosen[taken & must == must]


def _list_links(problem: Problem) -> tuple[BoolArray, BoolArray]:
    """Return every set of links that capacities allow, and the nodes that each leaves free.

    Sets (n, n_edges) of edges, and nodes (n, n_left + n_right); only sets that leave no
    node unmatched that must be matched.
    """
    structure = problem.structure
    ends = np.column_stack([structure.left, structure.right + structure.n_left])
    room = [
        np.ones(n, np.int64) if own is None else np.minimum(own, structure.n_edges)
        for own, n in (
            (problem.capacity_left, structure.n_left),
            (problem.capacity_right, structure.n_right),
        )
    ]
    is_used = np.zeros((1, 0), dtype=bool)
    left = np.concatenate(room)[None]  # room of every node for further links
    for pair in ends:
        check_stopped()
        (able,) = np.nonzero((left[:, pair] > 0).all(axis=1))
        if len(left) + len(able) > _MOST_MATCHINGS:
            raise SizeLimitError(
                f"Enumeration lists at most {_MOST_MATCHINGS} sets of links; this "
                f"component of {structure.n_left} x {structure.n_right} nodes has more. "
                "Use engine='frontier', which counts links without listing them."
            )
        more = left[able]
        more[:, pair] -= 1
        left = np.concatenate([left, more])
        is_used = np.concatenate([is_used, is_used[able]])
        is_used = np.column_stack([is_used, np.arange(len(left)) >= len(left) - len(able)])
    is_free = left == np.concatenate(room)
    prices = np.concatenate([problem.unmatched_left, problem.unmatched_right])
    is_allowed = ~is_free[:, prices == -np.inf].any(axis=1)
    return is_used[is_allowed], is_free[is_allowed]


def _blocks(size: int) -> Iterator[IntArray]:
    """Yield all matchings in order, those with the same first rows at once."""
    n_rows = min(size, _ROWS_AT_ONCE)
    rest = all_matchings(n_rows)
    if n_rows == size:
        yield rest
        return
    for begin in permutations(range(size), size - n_rows):
        block = np.empty((len(rest), size), dtype=np.intp)
        block[:, : size - n_rows] = begin
        block[:, size - n_rows :] = np.setdiff1d(np.arange(size), begin)[rest]
        check_stopped()
        yield block


def _add_up(scores: FloatArray) -> tuple[float, FloatArray, IntArray]:
    """Return the weight of all matchings, those with each edge (m, m), and the best.

    Weights are relative to that of the best matching; 0 if there is none.
    """
    size = len(scores)
    rows = np.arange(size)
    best, total, masses = -np.inf, 0.0, np.zeros_like(scores)
    matching = rows
    for block in _blocks(size):
        totals = scores[rows, block].sum(axis=1)
        leader = int(totals.argmax())
        if totals[leader] == -np.inf:
            continue
        if totals[leader] > best:
            factor = math.exp(best - totals[leader])
            total *= factor
            masses *= factor
            best, matching = float(totals[leader]), block[leader]
        weights = np.exp(totals - best)
        total += float(weights.sum())
        for i in rows:
            masses[i] += np.bincount(block[:, i], weights, minlength=size)
    return total, masses, matching
