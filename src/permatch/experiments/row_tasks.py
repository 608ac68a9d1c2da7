"""Rows made one after another: those a file has are taken from it, others are computed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from permatch.experiments.rows import Row, RowFile

OnRow = Callable[[Row], None] | None
OnProgress = Callable[[float], None] | None


def name_row(key: Sequence[str], values: Sequence[Any]) -> Row:
    """Return the fields that name a row, with their values."""
    return dict(zip(key, values, strict=True))


def make_rows(
    keys: Sequence[Row],
    measure: Callable[[Row], Row],
    rows: RowFile,
    *,
    cost: Callable[[Row], float] = lambda key: 1.0,
    on_row: OnRow = None,
    on_progress: OnProgress = None,
) -> Iterator[Row]:
    """Yield the row of every key, in order.

    Parameters
    ----------
    keys : sequence of dict
        What names the rows.
    measure : callable
        From a key to the rest of its row.
    rows : RowFile
        Where rows are looked up and kept.
    cost : callable, optional
        Work a key takes, in any unit, for the progress.
    on_row : callable, optional
        Called with every row that was computed, not with those the file had.
    on_progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.

    Yields
    ------
    dict
        Key and measures.
    """
    total = sum(cost(key) for key in keys)
    done = 0.0
    for key in keys:
        row = rows.find(**key)
        if row is None:
            row = key | measure(key)
            rows.add(row)
            if on_row is not None:
                on_row(row)
        done += cost(key)
        if on_progress is not None:
            on_progress(1.0 if key is keys[-1] else min(done / total, 1.0))
        yield row
