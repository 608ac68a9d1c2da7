"""The training graphs, arranged so that engines solve many at once.

Square arrays whose nodes must all be matched are stacked by size; all other graphs stand
side by side in one table.  Both know their scores, and what they say about a model.
"""

from permatch.graphs import BipartiteGraph
from permatch.labels import KnownEdges
from permatch.objectives.feature_table import FeatureTable, table_graphs
from permatch.objectives.labelled import divide
from permatch.objectives.parameters import Parameters
from permatch.objectives.stacks import FeatureStack, stack_graphs

Part = FeatureStack | FeatureTable


def arrange(
    graphs: list[BipartiteGraph], labels: list[KnownEdges], parameters: Parameters
) -> list[Part]:
    """Return the parts that labelled graphs are solved in, with features of their own."""
    stacked, others = divide(graphs, labels, is_any=parameters.is_any)
    parts: list[Part] = [*stack_graphs(graphs, labels, stacked, parameters)]
    if others:
        parts.append(table_graphs(graphs, labels, others, parameters))
    return parts
