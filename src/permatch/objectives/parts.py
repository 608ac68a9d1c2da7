"""The training graphs, arranged so that engines solve many at once.

Square arrays whose nodes must all be matched are stacked by size; all other graphs stand
side by side in one table.  Both know their scores, and what they say about a model.
"""

from permatch.graphs import BipartiteGraph
from permatch.labels import KnownEdges
from permatch.objectives.feature_table import FeatureTable, table_graphs
from permatch.objectives.parameters import Parameters
from permatch.objectives.stacks import FeatureStack, stack_graphs

Part = FeatureStack | FeatureTable


def arrange(
    graphs: list[BipartiteGraph], labels: list[KnownEdges], parameters: Parameters
) -> list[Part]:
    """Return the parts that labelled graphs are solved in, with features of their own."""
    stacked, others = divide(graphs, labels, parameters)
    parts: list[Part] = [*stack_graphs(graphs, labels, stacked, parameters)]
    if others:
        parts.append(table_graphs(graphs, labels, others, parameters))
    return parts


def divide(
    graphs: list[BipartiteGraph], labels: list[KnownEdges], parameters: Parameters
) -> tuple[list[int], list[int]]:
    """Return the graphs that are stacked, and those that stand in a table."""
    stacked, others = [], []
    for k, (graph, known) in enumerate(zip(graphs, labels, strict=True)):
        is_stacked = not parameters.is_any and graph.is_square and known.is_complete
        (stacked if is_stacked else others).append(k)
    return stacked, others
