"""Labelled graphs to learn from: read from tables, or made from silhouettes."""

from permatch.datasets.edge_table import EdgeTable, read_edge_table
from permatch.datasets.matches import edge_table_from_matches, write_matches
from permatch.datasets.silhouettes import SilhouettePairs, Silhouettes, silhouettes

__all__ = [
    "EdgeTable",
    "SilhouettePairs",
    "Silhouettes",
    "edge_table_from_matches",
    "read_edge_table",
    "silhouettes",
    "write_matches",
]
