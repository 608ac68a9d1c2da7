"""Training data: tables, silhouettes, boxes of tracked objects, judged lists."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from permatch.datasets.boxes import Boxes
from permatch.datasets.edge_table import EdgeTable, read_edge_table
from permatch.datasets.matches import edge_table_from_matches, write_matches
from permatch.datasets.mot import read_mot, write_mot
from permatch.datasets.registers import Registers, load_registers
from permatch.datasets.silhouettes import SilhouettePairs, Silhouettes, silhouettes

if TYPE_CHECKING:
    from permatch.datasets.judged import read_judged
    from permatch.datasets.letor import iterate_letor, read_letor, read_scores
    from permatch.datasets.letor_folds import LetorData, LetorFold, load_letor
    from permatch.datasets.ranking_data import RankingData, group_sizes, query_ids

__all__ = [
    "Boxes",
    "EdgeTable",
    "LetorData",
    "LetorFold",
    "RankingData",
    "Registers",
    "SilhouettePairs",
    "Silhouettes",
    "edge_table_from_matches",
    "group_sizes",
    "iterate_letor",
    "load_letor",
    "load_registers",
    "query_ids",
    "read_edge_table",
    "read_judged",
    "read_letor",
    "read_mot",
    "read_scores",
    "silhouettes",
    "write_matches",
    "write_mot",
]

#: Loaded on first use: their parser is compiled, and tables should not wait for a compiler.
_HOMES = {
    "LetorData": "permatch.datasets.letor_folds",
    "LetorFold": "permatch.datasets.letor_folds",
    "RankingData": "permatch.datasets.ranking_data",
    "group_sizes": "permatch.datasets.ranking_data",
    "iterate_letor": "permatch.datasets.letor",
    "load_letor": "permatch.datasets.letor_folds",
    "query_ids": "permatch.datasets.ranking_data",
    "read_judged": "permatch.datasets.judged",
    "read_letor": "permatch.datasets.letor",
    "read_scores": "permatch.datasets.letor",
}


def __getattr__(name: str) -> Any:
    """Load a name from its home and keep it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
