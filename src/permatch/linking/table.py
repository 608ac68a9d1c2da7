"""The pairs of a table, or of a part of one, ready to be linked at any constant."""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from permatch._parallel import Job
from permatch._progress import Stages
from permatch._types import FloatArray, IntArray
from permatch.decoding.bayes import LinkCosts
from permatch.linking.checks import Expected, check_capacity
from permatch.linking.decisions import WORDS, decide
from permatch.linking.links import Links, build_table, check_names
from permatch.linking.models import model_odds
from permatch.linking.odds import log_odds
from permatch.linking.pairs import PairRoles, ScoredPairs
from permatch.linking.solving import Answer, Solver
from permatch.problems import Problem, Structure

# Intervals that leave decisions open are asked to be narrower by this, down to a width.
_FINER, _FINEST = 0.1, 1e-7


@dataclass(frozen=True)
class Rules:
    """How pairs are linked: the arguments of `permatch.link`, checked."""

    roles: PairRoles
    model: Any
    unmatched: float
    expected: Expected
    costs: LinkCosts
    capacities: tuple[float, float]
    tol: float
    budget: float | None
    seed: int
    n_jobs: int

    @property
    def base(self) -> float:
        """The constant at which a pair by itself has the probability that it came with."""
        return 2.0 * self.unmatched

    @property
    def is_one_to_one(self) -> bool:
        """Whether no record may have two links."""
        return self.capacities == (1, 1)

    def solver(self, problem: Problem) -> Solver:
        """Return what solves a problem."""
        # Of the whole, not of its parts, is shown what goes on.
        job = Job(self.n_jobs, progress=False)
        return Solver(problem, self.tol, self.budget, self.seed, job)


@dataclass(frozen=True, eq=False)
class PairTable:
    """Pairs as a graph.

    Attributes
    ----------
    pairs : ScoredPairs
        The rows as read.
    rules : Rules
        How to link them.
    row_chances : ndarray of shape (n_rows,)
        The probability of every pair by itself.
    problem : Problem
        The pairs that may be linked.
    rows : ndarray of shape (n_edges,)
        The row of every edge of `problem`.
    """

    pairs: ScoredPairs
    rules: Rules
    row_chances: FloatArray
    problem: Problem
    rows: IntArray

    @classmethod
    def build(
        cls, pairs: ScoredPairs, rules: Rules, highest: float = -math.inf
    ) -> "PairTable":
        """Return the table of some pairs.

        `highest` is the largest finite log-odds of a table that they are a part of.
        """
        check_names(pairs.names)
        if rules.model is None:
            odds, chances = log_odds(pairs, highest)
        else:
            odds, chances = model_odds(rules.model, pairs.columns)
        problem, rows = _graph(pairs, odds, rules)
        return cls(pairs, rules, chances, problem, rows)

    @property
    def chances(self) -> FloatArray:
        """The probability of every edge by itself."""
        return self.row_chances[self.rows]

    @cached_property
    def solver(self) -> Solver:
        """Solves the problem at any constant."""
        return self.rules.solver(self.problem)

    @property
    def row_numbers(self) -> IntArray:
        """The numbers of the rows in the table that this is, or is a part of."""
        rows = self.pairs.columns.rows
        return np.arange(len(self.row_chances)) if rows is None else rows

    def link(self, offset: float, stages: Stages) -> tuple[Links, str]:
        """Return the links at a constant, and what to say if Ctrl-C has cut them short."""
        answer = self.solver.solve(offset)
        answer, decisions, remark = self._decide(answer, stages)
        return self._collect(answer, decisions, offset), remark

    def _decide(self, answer: Answer, stages: Stages) -> tuple[Answer, IntArray, str]:
        """Decide, narrowing intervals that leave decisions open while there is time."""
        costs, tol = self.rules.costs, self.rules.tol
        decided = decide(self.problem, answer, costs)
        is_interrupted = False
        try:
            while len(decided.undecided) and tol > _FINEST:
                tol *= _FINER
                stages.say(f"narrowing the intervals of {len(decided.undecided):,} pairs")
                more = self.solver.refine(decided.undecided, tol)
                if more is None:
                    break
                answer = more
                decided = decide(self.problem, answer, costs)
        except KeyboardInterrupt:  # what is decided stays
            is_interrupted = True
        remark = ""
        if is_interrupted or self.solver.is_interrupted:
            remark = (
                f"interrupted: intervals may be wider than asked for, and "
                f"{len(decided.undecided):,} pairs that more time might have decided are "
                "left for review."
            )
        return answer, decided.decisions, remark

    def _collect(self, answer: Answer, decisions: IntArray, offset: float) -> Links:
        """Put everything into the order of the rows."""
        n_rows, pairs = len(self.row_chances), self.pairs

        def spread(values: np.ndarray, missing: Any) -> np.ndarray:
            column = np.full(n_rows, missing, dtype=values.dtype)
            column[self.rows] = values
            return column

        left_ids, right_ids = pairs.ids
        words = np.array(WORDS, dtype=object)
        table = build_table(
            pairs.names,
            (left_ids[pairs.left], right_ids[pairs.right]),
            spread(answer.marginals, 0.0),
            self.row_chances,
            answer.left[pairs.left],
            answer.right[pairs.right],
            words[spread(decisions, 0)],
            spread(answer.is_exact, True),
            spread(answer.low, 0.0),
            spread(answer.high, 0.0),
        )
        return Links(table, offset, self.rules.costs, self.problem, self.rows)


def _graph(pairs: ScoredPairs, odds: FloatArray, rules: Rules) -> tuple[Problem, IntArray]:
    """Return the graph of all pairs that may be linked, and the row of every edge."""
    rows = np.arange(len(odds)) if pairs.order is None else pairs.order
    rows = rows[odds[rows] > -math.inf]
    n, k = (len(values) for _, values in pairs.columns.ids[1:])
    counts = np.bincount(pairs.left[rows], minlength=n)
    structure = Structure(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        pairs.right[rows].astype(np.int64),
        np.array([0, n]),
        np.array([0, k]),
    )
    scores = np.ascontiguousarray(odds[rows])
    nobody = np.full(n, rules.unmatched), np.full(k, rules.unmatched)
    room = [
        check_capacity(capacity, f"capacity_{side}", size)
        for capacity, side, size in zip(
            rules.capacities, ("left", "right"), (n, k), strict=True
        )
    ]
    return Problem(structure, scores, *nobody, *room), rows


def warn_if(remark: str, stacklevel: int = 3) -> None:
    """Warn, if there is something to say."""
    if remark:
        warnings.warn(remark, UserWarning, stacklevel=stacklevel)
