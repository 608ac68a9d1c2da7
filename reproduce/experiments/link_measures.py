"""How good links and their probabilities are: what the experiments on links share.

    precision, recall, f1   of the links that a method takes
    brier, log_loss         of the probabilities of candidate pairs, means over the pairs

A row of such an experiment names its method, the repeat it is from and whatever else it
depends on; methods are compared repeat by repeat.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reproduce.experiments.claims import Effect, effect_of
from reproduce.experiments.rows import Row, moments

#: The measures, and whether more is better.
MEASURES = {
    "precision": True,
    "recall": True,
    "f1": True,
    "brier": False,
    "log_loss": False,
}

#: Probabilities are kept so far from 0 and 1 in the log-loss: a method that is wrong and
#: certain pays for it, but does not end the comparison.
LEAST_PROBABILITY = 1e-6


def measure_links(
    is_true: ArrayLike,
    is_taken: ArrayLike,
    probability: ArrayLike | None,
    n_true: int | None = None,
) -> Row:
    """Return all measures of one method on some candidate pairs.

    Parameters
    ----------
    is_true, is_taken : bool arrays of shape (n_pairs,)
        Which pairs are links, and which the method takes for links.
    probability : array of shape (n_pairs,) or None
        What the method thinks of every pair; None if it has no probabilities.
    n_true : int, optional
        All links there are, if some are no candidates; default: those that are.

    Returns
    -------
    dict
        A number per measure, None for those of probabilities that are not there; and
        ``n_pairs``, ``n_true``, ``n_found``, ``n_correct``.

    Examples
    --------
    >>> found = measure_links([True, True, False], [True, False, False], [0.8, 0.4, 0.2])
    >>> found["precision"], found["recall"], round(found["brier"], 3)
    (1.0, 0.5, 0.147)
    """
    true, taken = np.asarray(is_true, dtype=bool), np.asarray(is_taken, dtype=bool)
    total = int(true.sum()) if n_true is None else n_true
    n_found, n_correct = int(taken.sum()), int((true & taken).sum())
    row: Row = {
        "precision": n_correct / n_found if n_found else 1.0,
        "recall": n_correct / total if total else 1.0,
        "f1": 2.0 * n_correct / (n_found + total) if n_found + total else 1.0,
        "brier": None,
        "log_loss": None,
    }
    if probability is not None and len(true):
        p = np.asarray(probability, dtype=float)
        kept = np.clip(p, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        row["brier"] = float(np.mean((p - true) ** 2))
        row["log_loss"] = float(-np.mean(np.log(np.where(true, kept, 1.0 - kept))))
    counts = {"n_pairs": len(true), "n_true": total}
    return row | counts | {"n_found": n_found, "n_correct": n_correct}


def best_threshold(values: ArrayLike, is_true: ArrayLike, n_true: int) -> float:
    """Return the threshold with the best F1: take pairs whose value is at least that.

    Parameters
    ----------
    values : array of shape (n_pairs,)
        Values of the pairs from which a method chooses; more speaks for a link.
    is_true : bool array of shape (n_pairs,)
        Which of them are links.
    n_true : int
        All links there are.

    Returns
    -------
    float
        Half way to the next lower value, so that new pairs near it fall on either side;
        infinite if it is best to take none.

    Examples
    --------
    >>> best_threshold([0.9, 0.7, 0.3], [True, True, False], 2)
    0.5
    """
    order = np.argsort(-np.asarray(values, dtype=float), kind="stable")
    ranked = np.asarray(values, dtype=float)[order]
    n_correct = np.cumsum(np.asarray(is_true, dtype=bool)[order])
    f1 = 2.0 * n_correct / (np.arange(1, len(ranked) + 1) + max(n_true, 1))
    # Equal values are taken together.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0
    if not len(f1) or f1.max() <= 0.0:
        return inf
    best = int(np.argmax(f1))
    below = ranked[best + 1] if best + 1 < len(ranked) else ranked[best]
    return float((ranked[best] + below) / 2.0)


def summarise_measures(
    rows: Iterable[Row], by: Sequence[str], measures: Iterable[str] = tuple(MEASURES)
) -> list[Row]:
    """Return means and spreads over repeats, a line per method and value of `by`.

    Parameters
    ----------
    rows : iterable of dict
        With the fields `by`, ``method`` and one per measure.
    by : sequence of str
        What a line depends on besides its method, such as ``("gap",)``.
    measures : iterable of str
        The fields to be summarised.

    Returns
    -------
    list of dict
        The fields of `by`, ``method`` and, by measure, ``mean``, ``spread`` and
        ``n_repeats``; None where no row has the measure.  In the order of the rows.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in (*by, "method")), []).append(row)
    lines = []
    for key, members in groups.items():
        line = dict(zip((*by, "method"), key, strict=True))
        for name in measures:
            values = [row[name] for row in members if row.get(name) is not None]
            line[name] = moments(values) if values else None
        lines.append(line)
    return lines


def lead(
    rows: Iterable[Row],
    method: str,
    rival: str,
    measure: str,
    what: str,
    compare: Callable[[float, float], float] | None = None,
) -> Effect:
    """Return by how much a method is ahead of a rival, paired by repeat, with an interval.

    Parameters
    ----------
    rows : iterable of dict
        With ``repeat``, ``method`` and the measure; one row per repeat and method.
    method, rival : str
        The two methods.
    measure : str
        One of `MEASURES`, or another field of which more is better.
    what : str
        What the number is, such that more of it speaks for the method.
    compare : callable, optional
        From the values of method and rival to a number; default: the difference, turned
        round where less is better.

    Returns
    -------
    Effect
        With Student's interval over repeats.
    """
    values = {(row["repeat"], row["method"]): row[measure] for row in rows}
    sign = 1.0 if MEASURES.get(measure, True) else -1.0
    of = compare or (lambda ours, theirs: sign * (ours - theirs))
    repeats = sorted({repeat for repeat, name in values if name == method})
    return effect_of([of(values[k, method], values[k, rival]) for k in repeats], what)
