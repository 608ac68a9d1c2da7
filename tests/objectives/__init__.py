"""Labelled graphs as objectives take them."""

from permatch.labels import check_known
from permatch.objectives import Parameters, arrange


def parts_of(graphs, labels, is_any=False):
    """Return checked graphs with their labels, arranged in parts."""
    parameters = Parameters.of(graphs[0], is_any=is_any)
    return arrange(graphs, check_known(graphs, labels), parameters)
