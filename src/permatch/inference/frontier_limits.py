"""What the frontier refuses, and how it says so."""

import math

import numpy as np

from permatch._memory import LITTLE, available_memory
from permatch._types import IntArray
from permatch.errors import SizeLimitError
from permatch.inference._limits import is_worth_allowing
from permatch.inference._words import bytes_in_words, seconds_in_words
from permatch.kernels.frontier_plan import FrontierPlan
from permatch.problems import Structure


def check_width(structure: Structure, plan: FrontierPlan, max_width: int) -> None:
    """Refuse components that are wider than `max_width`."""
    if plan.widest > max_width:
        raise _too_wide(structure, plan, max_width)


def check_memory(plan: FrontierPlan, log2_bytes: float, n_jobs: int = 1) -> None:
    """Refuse what needs more than the memory available."""
    if log2_bytes <= math.log2(LITTLE):
        return
    left = math.log2(max(available_memory(), 1.0))
    if log2_bytes > left:
        fewer = "Use fewer threads (n_jobs), " if n_jobs > 1 else ""
        raise SizeLimitError(
            f"Frontier needs {bytes_in_words(log2_bytes)} of memory for components of "
            f"width {plan.widest}; {bytes_in_words(left)} are available. "
            f"{fewer or 'Use '}engine='auto', which also uses samplers, leave out edges "
            "that hardly matter, or fix known pairs."
        )


def _too_wide(structure: Structure, plan: FrontierPlan, max_width: int) -> SizeLimitError:
    c = int(plan.width.argmax())
    n, k = (int(sizes[c]) for sizes in structure.components.sizes)
    node = int(first_nodes(structure)[c])
    graph = int(structure.graph_of_left[node])
    name = "this graph" if structure.n_graphs == 1 else f"graph {graph}"
    width, is_known = int(plan.width[c]), plan.log2_cost[c] < np.inf
    cost, advice = "years and petabytes of memory", "or fix known pairs"
    costs = plan.log2_seconds[c], plan.log2_bytes[c]
    if is_known:
        cost = (
            f"{seconds_in_words(plan.log2_seconds[c])} on one thread and "
            f"{bytes_in_words(plan.log2_bytes[c])} of memory"
        )
    if is_known and is_worth_allowing(*costs):
        advice = (
            "fix known pairs, or raise the limit: "
            f"engine=permatch.Frontier(max_width={width})"
        )
    return SizeLimitError(
        f"Frontier handles components of width at most {max_width}; got "
        f"{'' if is_known else 'at least '}{width}. It would take {cost} for the "
        f"component of left node {node - int(structure.left_starts[graph])} of {name} "
        f"({n} x {k} nodes, {int(structure.components.n_edges[c])} edges). Use "
        "engine='auto', which also uses samplers, leave out edges that hardly matter, "
        f"{advice}."
    )


def first_nodes(structure: Structure) -> IntArray:
    """Return the first left node of every component."""
    found = structure.components
    return found.left_nodes[found.left_starts[:-1]]
