"""Parts of pages about links: methods side by side, with their spreads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from permatch.pages.html import table
from reproduce.experiments.rows import Row

#: How the measures are called, and with how many digits they are written.
HEADINGS = {
    "precision": ("precision", 3),
    "recall": ("recall", 3),
    "f1": ("F1", 3),
    "brier": ("Brier", 5),
    "log_loss": ("log-loss", 4),
    "idf1": ("IDF1", 3),
    "mota": ("MOTA", 3),
    "switches": ("switches", 1),
    "misses": ("misses", 1),
    "false_positives": ("false positives", 1),
}


def measure_table(
    lines: Iterable[Row],
    methods: Mapping[str, str],
    measures: Sequence[str],
    caption: str,
) -> str:
    """Return a table with a row per method and a column per measure.

    Parameters
    ----------
    lines : iterable of dict
        As from `link_measures.summarise_measures`; one per method.
    methods : mapping
        Names of the methods, as they are to be shown.
    measures : sequence of str
        The columns, of `HEADINGS`.
    caption : str
        What stands above.
    """
    cells = [
        [
            methods[line["method"]],
            *(spread_text(line[name], HEADINGS[name][1]) for name in measures),
        ]
        for line in lines
    ]
    return table(["method", *(HEADINGS[name][0] for name in measures)], cells, caption)


def spread_text(found: Mapping[str, Any] | None, digits: int) -> str:
    """Write a mean with its spread over repeats, as 0.950 ± 0.004."""
    if found is None:
        return "\u2013"
    mean = f"{found['mean']:.{digits}f}"
    if found["spread"] is None:
        return mean
    return f"{mean}\u00a0±\u00a0{found['spread']:.{digits}f}"
