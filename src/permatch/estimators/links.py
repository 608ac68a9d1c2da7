"""A table of links, with what is to be expected of taking them."""

import numpy as np

from permatch._types import FloatArray
from permatch.errors import InvalidOptionError
from permatch.graphs import BipartiteGraph


def link_table(
    graphs: list[BipartiteGraph],
    marginals: list[FloatArray],
    threshold: float | None = None,
) -> dict[str, np.ndarray]:
    """Return the edges of all graphs, the most probable first.

    Of the links with at least some probability, as many are expected to be right as their
    probabilities sum to; the precision is this per link taken, the recall per link that
    there is, also in expectation.

    Parameters
    ----------
    graphs : list of BipartiteGraph
        The graphs.
    marginals : list of ndarray of shape (n_edges,)
        The probability of every edge.
    threshold : float, optional
        Leave out edges with a smaller probability.

    Returns
    -------
    dict of ndarray
        Columns ``graph``, ``left``, ``right``, ``probability``, ``precision``, ``recall``.
    """
    is_number = isinstance(threshold, int | float | np.integer | np.floating)
    is_number = is_number and not isinstance(threshold, bool)
    if threshold is not None and not (is_number and 0.0 <= threshold <= 1.0):
        raise InvalidOptionError(
            f"threshold must be a probability between 0 and 1, or None; got {threshold!r}."
        )
    counts = [graph.n_edges for graph in graphs]
    columns = {
        "graph": np.repeat(np.arange(len(graphs)), counts),
        "left": np.concatenate([graph.structure.left for graph in graphs]),
        "right": np.concatenate([graph.structure.right for graph in graphs]),
        "probability": np.concatenate(marginals),
    }
    order = np.argsort(-columns["probability"], kind="stable")
    probability = columns["probability"][order]
    total = probability.sum()
    if threshold is not None:
        order = order[: np.searchsorted(-probability, -threshold, side="right")]
        probability = probability[: len(order)]
    # Links of equal probability are taken together.
    n_taken = np.searchsorted(-probability, -probability, side="right")
    n_right = np.concatenate([[0.0], np.cumsum(probability)])[n_taken]
    table = {name: values[order] for name, values in columns.items()}
    table["precision"] = n_right / np.maximum(n_taken, 1)
    table["recall"] = (
        np.minimum(n_right / total, 1.0) if total > 0.0 else np.ones(len(order))
    )
    return table
