"""The matching with the least expected loss: an assignment on marginals."""

import math
import numbers
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.assignment import best_assignment
from permatch.decoding.lap import best_matching, is_one_square
from permatch.errors import InvalidOptionError, ScoreTypeError
from permatch.problems import Problem
from permatch.scores import Unmatched, check_problem

#: In place of a partner: the decision is left to a person.
ABSTAINED = -2


@dataclass(frozen=True)
class LinkCosts:
    """What wrong decisions about a left node cost.

    Parameters
    ----------
    missed : float
        No link is declared, but the node has a partner.
    false : float
        A link is declared, but the node has no partner.
    wrong : float
        A link is declared, but the node's partner is another one.
    abstain : float, optional
        The node is left to a person, who knows; its entry of the matching is
        ``pm.ABSTAINED``, -2.  None: every node is decided.

    Notes
    -----
    Right decisions cost nothing.  With ``missed = false = 1`` and ``wrong = 2`` a wrong
    link counts as a false and a missed one.  Cheaper abstention leaves more to a person:
    none if `abstain` is at least `missed`.

    References
    ----------
    M. Sadinle, "Bayesian estimation of bipartite matchings for record linkage", Journal of
    the American Statistical Association 112 (2017).

    Examples
    --------
    Two records may be the same person, at 60 %.

    >>> import permatch as pm
    >>> chances = {"unmatched_left": 0.4, "unmatched_right": 0.4}
    >>> pm.bayes_matching([[0.6]], **chances)
    array([0])
    >>> pm.bayes_matching([[0.6]], **chances, costs=pm.LinkCosts(false=3.0))
    array([-1])
    >>> pm.bayes_matching([[0.6]], **chances, costs=pm.LinkCosts(false=3.0, abstain=0.1))
    array([-2])
    """

    missed: float = 1.0
    false: float = 1.0
    wrong: float = 2.0
    abstain: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            cost = getattr(self, field.name)
            if field.name == "abstain" and cost is None:
                continue
            is_number = isinstance(cost, numbers.Real) and not isinstance(cost, bool)
            if not (is_number and 0.0 <= float(cost) < math.inf):
                raise InvalidOptionError(
                    f"{field.name} of LinkCosts must be a number of at least 0"
                    f"{', or None' if field.name == 'abstain' else ''}; got {cost!r}."
                )


def bayes_assignment(
    problem: Problem,
    marginals: FloatArray,
    unmatched_left: FloatArray,
    costs: LinkCosts | None = None,
) -> IntArray:
    """Return the matching with the least expected loss of every graph of a problem.

    Parameters
    ----------
    problem : Problem
        The allowed edges, and the nodes that must be matched; its scores are not used.
    marginals : ndarray of shape (n_edges,)
        Probability of every edge.
    unmatched_left : ndarray of shape (n_left,)
        Probability of every left node of staying unmatched.
    costs : LinkCosts, optional
        Default: every left node with another partner than the true one, or with one where
        it has none, counts as one error, and only matchings that the problem allows are
        considered.  With costs, any node may be left without a link.

    Returns
    -------
    ndarray of shape (n_left,)
        Right nodes numbered as in the problem, -1 for unmatched, `ABSTAINED` where the
        decision is left to a person.
    """
    if costs is None:
        gains = replace(
            problem,
            scores=marginals,
            unmatched_left=np.where(
                problem.unmatched_left > -np.inf, unmatched_left, -np.inf
            ),
            unmatched_right=np.where(problem.unmatched_right > -np.inf, 0.0, -np.inf),
        )
        return best_assignment(gains).matching
    if not isinstance(costs, LinkCosts):
        raise InvalidOptionError(
            f"costs must be permatch.LinkCosts(...) or None; got {costs!r}."
        )
    alone = unmatched_left[problem.structure.left]
    elsewhere = np.maximum(1.0 - alone - marginals, 0.0)
    no_link = costs.missed * (1.0 - unmatched_left)
    abstain = math.inf if costs.abstain is None else costs.abstain
    losses = replace(
        problem,
        scores=-(costs.false * alone + costs.wrong * elsewhere),
        unmatched_left=-np.minimum(no_link, abstain),
        unmatched_right=np.zeros(problem.structure.n_right),
    )
    matching = best_assignment(losses).matching
    matching[(matching < 0) & (abstain < no_link)] = ABSTAINED
    return matching


def bayes_matching(
    marginals: Any,
    allowed: BoolArray | None = None,
    *,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    costs: LinkCosts | None = None,
) -> Any:
    """Return the matching with the fewest expected errors, or the least expected cost.

    The expected number of left nodes with a wrong partner is ``n - sum(marginals[i,
    matching[i]])``, where a node rightly left unmatched counts as right; so the best choice
    is the assignment that collects the most probability.  It need not be the most probable
    matching; without `allowed` it may use an edge of probability zero.

    Parameters
    ----------
    marginals : array (n, k), sparse array, EdgeScores, stack (b, n, k) or list of these
        Probability of each edge.
    allowed : ndarray of shape (n, k), optional
        False where an edge must not be used; for a single array of marginals.
    unmatched_left, unmatched_right : number, array, None, or a list of these
        Probability of each node of staying unmatched.  None: every node must be matched,
        except that on the larger side of an unequal graph some stay unmatched.
    costs : LinkCosts, optional
        What to count instead of errors; any node may then be left without a link, or left
        to a person.

    Returns
    -------
    matching : ndarray of shape (n,), stack (b, n) or list, like `marginals`
        Left node i is matched to right node ``matching[i]``; -1: unmatched, ``ABSTAINED``
        (-2): left to a person.

    Notes
    -----
    O(m^3) for dense squares, else shortest augmenting paths on edges: see `best_matching`.

    Examples
    --------
    >>> import numpy as np
    >>> bayes_matching(np.array([[0.4, 0.6], [0.6, 0.4]]))
    array([1, 0])
    >>> bayes_matching([[0.3, 0.1]], unmatched_left=0.6, unmatched_right=[0.7, 0.9])
    array([-1])
    """
    refuse_masked(marginals, "marginals", ScoreTypeError)
    refuse_masked(allowed, "allowed", ScoreTypeError)
    if allowed is not None:
        marginals = np.where(allowed, marginals, -np.inf)
    is_perfect = costs is None and unmatched_left is None and unmatched_right is None
    if is_perfect and is_one_square(marginals):
        return best_matching(marginals)
    problem, layout = check_problem(marginals, unmatched_left, unmatched_right)
    structure = problem.structure
    if unmatched_left is None:
        sums = np.bincount(structure.left, problem.scores, structure.n_left)
        alone = np.maximum(1.0 - sums, 0.0)
    else:
        alone = problem.unmatched_left
    return layout.matchings(bayes_assignment(problem, problem.scores, alone, costs))
