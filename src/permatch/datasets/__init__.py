"""Data to learn from: graphs from tables and silhouettes, judged lists from LETOR files."""

from permatch.datasets.edge_table import EdgeTable, read_edge_table
from permatch.datasets.letor import RankingData, iterate_letor, read_letor, read_scores
from permatch.datasets.letor_folds import LetorData, LetorFold, load_letor
from permatch.datasets.matches import edge_table_from_matches, write_matches
from permatch.datasets.silhouettes import SilhouettePairs, Silhouettes, silhouettes

__all__ = [
    "EdgeTable",
    "LetorData",
    "LetorFold",
    "RankingData",
    "SilhouettePairs",
    "Silhouettes",
    "edge_table_from_matches",
    "iterate_letor",
    "load_letor",
    "read_edge_table",
    "read_letor",
    "read_scores",
    "silhouettes",
    "write_matches",
]
