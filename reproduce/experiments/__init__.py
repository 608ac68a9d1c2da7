"""Experiments: a frozen configuration in, rows out, kept as JSON lines.

Every module has a `Config`, with a `Config.tiny` of a few seconds, and a `run`.
"""

from reproduce.experiments import (
    cmu_house,
    dblp_acm,
    ohsumed,
    ohsumed_sample_size,
    rank_runtime,
    silhouette_sample_size,
    tracking,
)
from reproduce.experiments.rows import RowFile, read_rows

__all__ = [
    "RowFile",
    "cmu_house",
    "dblp_acm",
    "dblp_acm",
    "ohsumed",
    "ohsumed_sample_size",
    "rank_runtime",
    "read_rows",
    "silhouette_sample_size",
    "tracking",
]
