"""The distribution over the matchings of one graph."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from permatch._layout import read_only
from permatch._types import FloatArray, IntArray, Seed
from permatch._validation import check_count, check_jobs, check_matchings, check_rng
from permatch.conditioned import Conditioned
from permatch.decoding.bayes import LinkCosts, bayes_assignment
from permatch.decoding.kbest import KBest, k_best_matchings
from permatch.errors import InvalidGraphError, ScoreShapeError
from permatch.inference import AbstractEngine, Diagnostics, find_engine, require_marginals
from permatch.known import Known, check_known
from permatch.problems import Problem
from permatch.scores import Unmatched, check_problem, settled_scores


class MatchingDistribution:
    """The distribution over the matchings of one graph.

    ``p(matching) ∝ exp(sum of the scores of its edges and of its unmatched nodes)``, over
    all sets of allowed edges in which no node has two partners and every node that must be
    matched has one.

    Inference runs on first use and is cached.  The object is immutable: conditioning
    returns a new one.

    If the engine is not exact (`is_exact`), the log-partition and the marginals are
    estimates with reported errors, and so is everything computed from them: probabilities,
    entropy, divergences, the Bayes matching.  The mode, the k best matchings, ratios of
    probabilities and samples are exact at any size; for the one exception see `sample`.

    Parameters
    ----------
    scores : array of shape (n, k), sparse array or EdgeScores
        Log-weight of each edge; ``-inf``, or no entry, forbids an edge.
    engine : str or engine object
        Computes the log-partition and the marginals.
    unmatched_left, unmatched_right : number, array or None
        Score of staying unmatched, of all nodes of a side or of each; ``-inf``: must be
        matched.  None: every node must be matched, except that on the larger side of an
        unequal graph it is 0.  On a square graph a node can only stay unmatched if one of
        the other side may too.
    given : mapping from left to right node, or Known, optional
        What is known: pairs that match (-1 for a left node without a partner), and with
        `Known` also pairs that do not match and right nodes without a partner.  The
        distribution is conditioned on it, and inference costs only as much as the rest.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Examples
    --------
    Two customers, two accounts.  a1-b1 is the best single pair, but it leaves a2 with an
    account that hardly fits.

    >>> import numpy as np
    >>> import permatch as pm
    >>> p = np.array([[0.95, 0.94], [0.93, 0.01]])
    >>> d = pm.MatchingDistribution(np.log(p / (1 - p)))
    >>> d.mode()
    array([1, 0])
    >>> d.marginals.round(3)
    array([[0.001, 0.999],
           [0.999, 0.001]])

    Two tracks and three detections, of which all may be false alarms.

    >>> edges = pm.EdgeScores([0, 0, 1], [0, 1, 1], [2.0, 1.0, 0.5], n_right=3)
    >>> d = pm.MatchingDistribution(edges, "frontier", unmatched_left=0, unmatched_right=0)
    >>> d.mode(), d.bayes_matching()
    (array([0, 1]), array([0, 1]))
    >>> d.marginals.round(2), d.unmatched_left.round(2)
    (array([0.78, 0.11, 0.55]), array([0.11, 0.45]))
    """

    def __init__(
        self,
        scores: Any,
        engine: str | AbstractEngine = "auto",
        *,
        unmatched_left: Unmatched = None,
        unmatched_right: Unmatched = None,
        given: Mapping[int, int] | Known | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self._problem, self._layout = check_problem(scores, unmatched_left, unmatched_right)
        if self._layout.kind != "one":
            raise ScoreShapeError(
                "scores must be one graph: an array of shape (n, k), a sparse array or "
                f"EdgeScores; got {self._problem.structure.n_graphs} graphs. For a stack "
                "or a list of graphs use permatch.infer."
            )
        self._scores = settled_scores(scores)
        self._engine = find_engine(engine)
        self._n_jobs = check_jobs(n_jobs)
        self._known = check_known(given, self._problem)

    # ---- what was asked

    @property
    def n_left(self) -> int:
        """Number of left nodes."""
        return self._problem.structure.n_left

    @property
    def n_right(self) -> int:
        """Number of right nodes."""
        return self._problem.structure.n_right

    @property
    def size(self) -> int:
        """Nodes of the larger side; nodes per side if they are equal."""
        return max(self.n_left, self.n_right)

    @property
    def scores(self) -> Any:
        """The scores as they were given; an array is a read-only copy."""
        return self._scores

    @property
    def problem(self) -> Problem:
        """The allowed edges, sorted, with their scores and those of staying unmatched."""
        return self._problem

    @property
    def given(self) -> Known:
        """What is known of the matching."""
        return self._known

    @property
    def engine(self) -> AbstractEngine:
        """The engine that computes the log-partition and the marginals."""
        return self._engine

    # ---- inference

    @property
    def log_partition(self) -> float:
        """Log of the total weight of all matchings that agree with what is given."""
        return self._core.offset + self._core.log_partition

    @cached_property
    def marginals(self) -> Any:
        """Probability of every edge, in the form of the scores.

        With the probabilities of staying unmatched, rows and columns sum to one.
        """
        require_marginals(self._engine)
        return self._lay(self._core.result.marginals)

    @cached_property
    def unmatched_left(self) -> FloatArray:
        """Probability of every left node of staying unmatched, (n_left,)."""
        require_marginals(self._engine)
        return read_only(self._core.result.unmatched_left)

    @cached_property
    def unmatched_right(self) -> FloatArray:
        """Probability of every right node of staying unmatched, (n_right,)."""
        require_marginals(self._engine)
        return read_only(self._core.result.unmatched_right)

    @cached_property
    def entropy(self) -> float:
        """Entropy of the matching in nats, ``-E log p``; 0 if only one is possible."""
        return self._core.entropy

    @property
    def is_exact(self) -> bool:
        """Whether the log-partition and marginals are exact up to rounding."""
        return self._core.result.is_exact

    @property
    def log_partition_error(self) -> float | None:
        """Standard error of the log-partition, or a bound; 0 if exact, None if unknown."""
        if self.is_exact:
            return 0.0
        error = self._core.result.log_partition_error
        return None if error is None or np.isnan(error[0]) else float(error[0])

    @cached_property
    def marginal_errors(self) -> Any:
        """Standard errors of the marginals, in their form; 0 if exact, None if unknown."""
        errors = np.zeros(self._core.problem.structure.n_edges)
        if not self.is_exact:
            found = self._core.result.marginal_errors
            if found is None or np.isnan(found).all():
                return None
            errors = np.where(self._core.support[0], found, 0.0)
        return self._lay(errors)

    @property
    def marginal_bounds(self) -> Any:
        """Lower and upper ends of the marginals that hold for certain, if known.

        A pair in the form of the marginals, or None: `PathTree` computes them.
        """
        return self._ends("marginal_bounds", self._lay)

    @property
    def unmatched_left_bounds(self) -> Any:
        """Lower and upper ends of `unmatched_left` that hold for certain, or None."""
        return self._ends("unmatched_left_bounds", read_only)

    @property
    def unmatched_right_bounds(self) -> Any:
        """Lower and upper ends of `unmatched_right` that hold for certain, or None."""
        return self._ends("unmatched_right_bounds", read_only)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """The engine used, why, and its own measure of error.

        Intervals of its ``parts`` count from the score of the best matching of the part.
        """
        return self._core.result.diagnostics.shifted(self._core.offset)

    # ---- questions

    def log_prob(self, matching: ArrayLike) -> Any:
        """Return the log-probability of a matching, or of each matching of a stack.

        Parameters
        ----------
        matching : array of shape (n_left,) or (r, n_left)
            ``matching[i]`` is the right node of left node i, counted from 0; -1: unmatched.

        Returns
        -------
        float or ndarray of shape (r,)
            ``-inf`` for matchings that use a forbidden edge, contradict what is given, or
            leave a node unmatched that must be matched.
        """
        matchings = check_matchings(matching, self.n_left, self.n_right)
        log_probs = self._core.log_probs(matchings)
        return float(log_probs[0]) if np.ndim(matching) == 1 else log_probs

    def sample(self, n: int, rng: Seed = None) -> IntArray:
        """Draw matchings, independent and exact with all engines but one.

        Components that are narrow (see `Frontier`) are drawn from exact tables, and so are
        squares of up to 24 open rows whose nodes must all be matched.  Larger ones of that
        kind, whatever the engine, are split where blocks share less than 1e-12 of the mass,
        and large blocks are sampled by exact rejection; `SizeLimitError` if hardly any draw
        would be accepted, and if nodes of a wide component may stay unmatched.  The
        exception is ``engine="swap_chain"`` on squares of more than 24 open rows and on
        such wide components: its samples are states of one Markov chain, approximate and
        dependent.

        Parameters
        ----------
        n : int
            Number of matchings.
        rng : int, numpy.random.Generator or None
            Seed or generator; None uses fresh entropy.

        Returns
        -------
        ndarray of shape (n, n_left)
            One matching per row; -1: unmatched.

        Notes
        -----
        The first call fills tables; later ones take about a microsecond per sample.  Beyond
        24 rows of a dense square, tables take up to a second, and the cost of a sample is
        that of rejected draws, exponential in size and spread: for normal scores of spread
        1 about 3 ms at m = 30, 10 ms at m = 50 and 0.1 s at m = 80; at spread 2 about 0.5 s
        at m = 50.  At most 1e8 draws are made, or 1e11 / m^2 if that is less (minutes);
        `SizeLimitError` when that is not enough.
        """
        n = check_count(n, "n", 0)
        return self._core.samples.sample(n, check_rng(rng), self._n_jobs)

    def mode(self) -> IntArray:
        """Return the likeliest matching, (n_left,): a maximum-weight assignment."""
        return self._core.best.matching.astype(np.intp)

    def bayes_matching(self, costs: LinkCosts | None = None) -> IntArray:
        """Return the matching with the fewest expected errors, or the least expected cost.

        Without `costs` it maximises the expected number of left nodes that are treated
        rightly: matched to their partner, or left unmatched if they have none.  It need not
        be the likeliest matching.

        Parameters
        ----------
        costs : LinkCosts, optional
            What missed, false and wrong links cost, and leaving a node to a person.

        Returns
        -------
        ndarray of shape (n_left,)
            -1: unmatched, ``pm.ABSTAINED`` (-2): left to a person.
        """
        require_marginals(self._engine)
        found = self._core.result
        matching = bayes_assignment(
            self._core.problem, found.marginals, found.unmatched_left, costs
        )
        return matching.astype(np.intp)

    def k_best(self, k: int) -> KBest:
        """Return the `k` likeliest matchings, best first.

        Parameters
        ----------
        k : int
            Number of matchings; fewer are returned if fewer exist.

        Returns
        -------
        KBest
            ``matchings`` (r, n_left) and their total ``scores`` (r,), including what is
            given.
        """
        return k_best_matchings(self._core.problem, k, self._core.best)

    def kl(self, other: "MatchingDistribution") -> float:
        """Return the Kullback-Leibler divergence from `other` to this one, in nats.

        Parameters
        ----------
        other : MatchingDistribution
            A distribution over matchings of the same nodes.

        Returns
        -------
        float
            ``E[log p - log q]`` under this distribution p; ``inf`` if `other` rules out a
            matching that this one allows.
        """
        shape = self.n_left, self.n_right
        is_one = isinstance(other, MatchingDistribution)
        if not is_one or (other.n_left, other.n_right) != shape:
            got = f"{other.n_left} x {other.n_right}" if is_one else type(other)
            raise InvalidGraphError(
                f"other must be a MatchingDistribution of {shape[0]} x {shape[1]} nodes; "
                f"got {got}."
            )
        return self._core.divergence(other._core)

    def condition(self, given: Mapping[int, int] | Known) -> "MatchingDistribution":
        """Return the distribution given more.

        Parameters
        ----------
        given : mapping from left to right node, or Known
            What is known in addition to what was already given.

        Returns
        -------
        MatchingDistribution
            Same scores, engine and threads.
        """
        more = check_known(given, self._problem)
        new = object.__new__(MatchingDistribution)
        for name in ("_problem", "_layout", "_scores", "_engine", "_n_jobs"):
            setattr(new, name, getattr(self, name))
        new._known = self._known.joined(more)
        return new

    def __repr__(self) -> str:
        n, k = self.n_left, self.n_right
        parts = [
            f"size={n}" if n == k else f"size={n} x {k}",
            f"edges={self._problem.structure.n_edges}",
            f"engine={self._engine.name!r}",
        ]
        if self._known:
            parts.append(f"given={self._known.short}")
        if "result" in self._core.__dict__:
            parts.append(f"log_partition={self.log_partition:.6g}")
            if self._engine.has_marginals:
                parts.append(f"entropy={self.entropy:.4g} nats")
        else:
            parts.append("not inferred yet")
        return f"MatchingDistribution({', '.join(parts)})"

    # ---- the part left open by what is given

    @cached_property
    def _core(self) -> Conditioned:
        return Conditioned.build(self._problem, self._known, self._engine, self._n_jobs)

    def _lay(self, values: FloatArray) -> Any:
        """Return values on the edges left open in the form of the scores."""
        return read_only(self._layout.edges(self._core.on_all_edges(values)))

    def _ends(self, name: str, lay: Any) -> Any:
        ends = getattr(self._core.result, name)
        return None if ends is None else (lay(ends[0]), lay(ends[1]))
