"""Paired tests of ranking methods, query by query."""

from collections.abc import Iterable

import numpy as np

from permatch._types import FloatArray
from permatch.metrics import holm, randomisation_test
from reproduce.experiments.rows import Row


def grouped(rows: Iterable[Row]) -> list[tuple[str, str, list[Row]]]:
    """Return the rows of every task and method, in their order."""
    rows = list(rows)
    names = dict.fromkeys((row["task"], row["method"]) for row in rows)
    return [
        (*name, [row for row in rows if (row["task"], row["method"]) == name])
        for name in names
    ]


def compare_with(
    reference: str, rows: Iterable[Row], *, n_resamples: int = 100_000
) -> list[Row]:
    """Return paired tests of one method against every other, by task.

    Parameters
    ----------
    reference : str
        The method.
    rows : iterable of dict
        With ``task``, ``method`` and ``values``, a number for every test query.
    n_resamples : int
        Random changes of sign, and draws of the bootstrap.

    Returns
    -------
    list of dict
        ``task``, ``method``, ``difference`` of the means over all queries (positive where
        the reference is ahead), ``low`` and ``high`` of its 95 % interval by bootstrap over
        queries, ``p_value``, ``p_holm`` corrected for the methods of the task,
        ``n_queries``, and ``by_repeat``, the difference of each repeat.
    """
    values: dict[str, dict[str, list[FloatArray]]] = {}
    for task, method, own in grouped(rows):
        values.setdefault(task, {})[method] = [np.array(row["values"]) for row in own]
    lines = []
    for task, found in values.items():
        ours = found.pop(reference)
        own = []
        for method, theirs in found.items():
            a, b = np.concatenate(ours), np.concatenate(theirs)
            test = randomisation_test(a, b, n_resamples=n_resamples)
            pairs = zip(ours, theirs, strict=True)
            own.append(
                {
                    "task": task,
                    "method": method,
                    "difference": test.difference,
                    "low": test.interval[0],
                    "high": test.interval[1],
                    "p_value": test.p_value,
                    "n_queries": test.n,
                    "by_repeat": [float(np.mean(x - y)) for x, y in pairs],
                }
            )
        corrected = holm([line["p_value"] for line in own])
        lines += [
            line | {"p_holm": float(p)} for line, p in zip(own, corrected, strict=True)
        ]
    return lines
