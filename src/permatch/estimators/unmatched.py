"""How many nodes a fitted model expects to stay unmatched, in numbers and in words."""

from typing import Any

import numpy as np

from permatch.graphs import BipartiteGraph
from permatch.inference import find_engine
from permatch.labels import KnownEdges


def expected_unmatched(
    model: Any, graphs: list[BipartiteGraph], known: list[KnownEdges]
) -> tuple[float, float]:
    """Return how many left and right nodes of its training graphs are expected unmatched.

    The intercept of staying unmatched is not penalised, so that at the optimum of the
    likelihood as many links are expected as there are: complete labels tell the number.
    """
    n, k = sum(g.n_left for g in graphs), sum(g.n_right for g in graphs)
    if all(one.is_complete for one in known) and model.is_converged_:
        n_links = float(sum(one.is_match.sum() for one in known))
        return n - n_links, k - n_links
    result = model._score(graphs).infer(find_engine(model.engine), model.n_jobs)
    return (
        float(sum(np.sum(own) for own in result.unmatched_left)),
        float(sum(np.sum(own) for own in result.unmatched_right)),
    )


def unmatched_in_words(
    expected: tuple[float, float], n_nodes: tuple[int, int], noun: str
) -> str:
    """Say how many are expected to have no partner, as a sentence."""
    sides = [
        f"{total:,} {side} {noun}{'s' * (total != 1)} {number:,.0f} ({number / total:.0%})"
        for side, number, total in zip(("left", "right"), expected, n_nodes, strict=True)
    ]
    sides = [side.replace("%)", " %)") for side in sides]
    return f"Of {sides[0]} and of {sides[1]} are expected to have no partner."
