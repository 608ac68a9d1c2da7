"""From what is known of a pair to its probability and log-odds.

    probability   p           log-odds  log(p / (1 - p))
    weight        log2 odds   log-odds  weight * log(2)
    score         log-odds

A probability of 0 (a weight or score of ``-inf``) forbids a pair.  One of 1 is taken as the
largest float64 below 1, log-odds of 36.7: certainty would leave no room for competitors.
"""

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch.errors import TableError
from permatch.linking.pairs import ScoredPairs

#: Log-odds of the largest probability below 1 that float64 can hold.
LARGEST = float(np.log(2.0) * 53)
# Probabilities may be outside [0, 1] by the rounding of float32.
_ROUNDING = 1e-6
# Beyond, sums of scores lose all digits.
_MOST = 1e9

_WORDS = {
    "probability": "probabilities",
    "weight": "weights (log2 of the odds)",
    "score": "scores (log of the odds)",
}


def log_odds(pairs: ScoredPairs, highest: float = -np.inf) -> tuple[FloatArray, FloatArray]:
    """Return the log-odds and the probability of every pair, row by row.

    Certainty is taken as the largest finite log-odds of these pairs, or `highest` if a
    table that they are a part of has larger ones.
    """
    values, kind = pairs.values, pairs.kind
    _refuse(pairs, np.isnan(values), f"{_WORDS[kind]} must be numbers", "missing", "")
    if kind == "probability":
        is_wrong = (values < -_ROUNDING) | (values > 1.0 + _ROUNDING)
        hint = (
            " If the column holds log2 of the odds, as splink's match_weight, pass it as "
            "weight=; if it holds log-odds, as score=."
        )
        if values.min(initial=0.0) >= 0.0 and values.max(initial=1.0) <= 100.0:
            hint = f" Divide percentages by 100.{hint}"
        _refuse(pairs, is_wrong, "probabilities must be from 0 to 1", None, hint)
        chances = np.clip(values, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            odds = np.log(chances) - np.log1p(-chances)
    else:
        odds = values * np.log(2.0) if kind == "weight" else values.astype(np.float64)
        is_wrong = np.isfinite(odds) & (np.abs(odds) > _MOST)
        _refuse(pairs, is_wrong, f"{_WORDS[kind]} must be at most {_MOST:g}", None, "")
        chances = probability_of(odds)
    most = odds[odds < np.inf].max(initial=max(LARGEST, highest))
    return np.minimum(odds, most), chances


def highest_odds(values: FloatArray, kind: str) -> float:
    """Return the largest finite log-odds of weights or scores; ``-inf`` if none matter.

    Those of probabilities are never larger than `LARGEST`.
    """
    if kind == "probability":
        return -np.inf
    highest = float(values[np.isfinite(values)].max(initial=-np.inf))
    return highest * float(np.log(2.0)) if kind == "weight" else highest


def probability_of(odds: FloatArray) -> FloatArray:
    """Return the probabilities of log-odds."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-odds))


def _refuse(
    pairs: ScoredPairs, is_wrong: BoolArray, rule: str, found: str | None, hint: str
) -> None:
    """Refuse values that break a rule, naming the first."""
    if not is_wrong.any():
        return
    columns = pairs.columns
    row = int(np.argmax(is_wrong))
    value = found or f"{pairs.values[row]:g}"
    n_more = int(is_wrong.sum()) - 1
    more = f", and in {n_more:,} more row{'s' * (n_more != 1)}" if n_more else ""
    fix = hint or " Fill them in, or drop the rows: a pair without a row cannot be linked."
    raise TableError(
        f"{rule}; {columns.feature_names[0]!r} is {value} for pair {columns.edge(row)}, "
        f"{columns.at(row)}{more}.{fix}"
    )
