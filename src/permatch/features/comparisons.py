"""Comparisons of the records of candidate pairs, column by column: features of pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permatch._optional import require
from permatch._progress import progress_bar
from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import check_choice
from permatch.errors import InvalidOptionError, TableError
from permatch.features.records import Records, find_rows, table_like
from permatch.features.text import similarities, text_vectors

_MISSING = ("indicator", "nan")
# Kinds with a unit: they tell how far apart values are.
_FAR = ("difference", "days")
# Seconds per pair and comparison of text.
_PACE = 1e-6


@dataclass(frozen=True)
class Comparison:
    """One way to compare a column, for `compare_pairs`.

    Parameters
    ----------
    kind : str
        Of text, from 0 to 1: "jaro_winkler" (names), "levenshtein" (codes), "token_sort"
        (words in any order), "tfidf" (longer texts) and "exact".  Of numbers, how far they
        are apart: "difference"; of dates: "days".
    scale : float
        The unit of a difference, or of days; above 0.
    cap : float, optional
        Differences and days above this count as this, in the units of the column: far
        apart is far apart.

    Examples
    --------
    >>> from permatch.features import Comparison, compare_pairs
    >>> a, b = {"price": [10.0]}, {"price": [12.5]}
    >>> pairs = {"left": [0], "right": [0]}
    >>> found = compare_pairs(pairs, a, b, {"price": Comparison("difference", cap=2.0)})
    >>> found["price_difference"].tolist()
    [2.0]
    """

    kind: str
    scale: float = 1.0
    cap: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.kind, "a comparison", _KINDS)
        limits = [self.scale] if self.cap is None else [self.scale, self.cap]
        if self.kind not in _FAR and (self.scale != 1.0 or self.cap is not None):
            raise InvalidOptionError(
                "scale and cap are for comparisons 'difference' and 'days'; got them for "
                f"{self.kind!r}."
            )
        if not all(isinstance(x, int | float) and 0.0 < x < np.inf for x in limits):
            raise InvalidOptionError(
                f"scale and cap must be numbers above 0; got scale={self.scale!r} and "
                f"cap={self.cap!r}."
            )


def compare_pairs(
    pairs: Any,
    a: Any,
    b: Any,
    comparisons: Mapping[str, str | Comparison | Sequence[str | Comparison]],
    *,
    id: str | None = None,
    left: str = "left",
    right: str = "right",
    missing: Literal["indicator", "nan"] = "indicator",
) -> Any:
    """Compare the two records of every pair, column by column.

    Parameters
    ----------
    pairs : data frame or mapping
        A row per pair, with ids in columns `left` and `right`: of `candidate_pairs`, say.
    a, b : data frame or mapping
        One row per record, with the columns to compare.
    comparisons : mapping
        From columns to how they are compared, one `Comparison` or several; its kind is
        enough: ``{"name": "jaro_winkler", "born": ["exact", "days"]}``.
    id : str, optional
        The column with the id of a record, in both tables; default: its row number.
    left, right : str
        The columns of `pairs` with the ids.
    missing : {"indicator", "nan"}
        What becomes of comparisons with an empty cell.  With "indicator" they are 0, and
        every column compared gets another, ``name_missing``, that is 1 there: a model
        learns from it what a missing value is worth.  With "nan" they are NaN, which
        learners of permatch refuse.

    Returns
    -------
    data frame or mapping
        The pairs with a column of numbers per comparison, named by column and kind:
        ``name_jaro_winkler``.  A frame if `pairs` is a pandas or Polars frame, else a
        mapping from names to arrays.

    Raises
    ------
    TableError
        If a column is missing, an id is unknown or occurs twice, or a cell is not a number
        or date where it must be.
    MissingDependencyError
        If text is compared and rapidfuzz is not installed (extra ``link``).

    Notes
    -----
    Text is compared without case and outer spaces.  Jaro-Winkler, Levenshtein and sorted
    tokens are rapidfuzz's, normalised to similarities from 0 to 1; "tfidf" is that of
    `candidate_pairs`, for one column.

    Examples
    --------
    >>> from permatch.features import candidate_pairs, compare_pairs
    >>> a = {"name": ["Anna Berg", "Tom Ward"], "born": ["1980-02-01", ""]}
    >>> b = {"name": ["Tom Wards", "Ana Berg"], "born": ["1975-06-30", "1980-02-03"]}
    >>> pairs = candidate_pairs(a, b, on="name")
    >>> found = compare_pairs(pairs, a, b, {"name": "levenshtein", "born": "days"})
    >>> found["name_levenshtein"].round(2).tolist()
    [0.89, 0.89]
    >>> found["born_days"].tolist(), found["born_missing"].tolist()
    ([2.0, 0.0], [0.0, 1.0])
    """
    check_choice(missing, "missing", _MISSING)
    plan = _plan(comparisons)
    table, *records = Records(pairs, "pairs"), Records(a, "table a"), Records(b, "table b")
    rows = find_rows(table, left, records[0], id), find_rows(table, right, records[1], id)
    columns = {str(key): table.values(key) for key in table.keys}
    steps = [(key, way) for key, ways in plan.items() for way in ways]
    is_open = dict.fromkeys(plan, np.zeros(len(table), dtype=bool))
    seconds = _PACE * len(steps) * len(table)
    with progress_bar("comparing", len(steps), seconds, None) as show:
        for k, (key, way) in enumerate(steps):
            values, is_missing = _KINDS[way.kind](records[0], records[1], key, rows)
            if way.kind in _FAR:
                values = np.minimum(values, way.cap or np.inf) / way.scale
            empty = 0.0 if missing == "indicator" else np.nan
            found = {f"{key}_{way.kind}": np.where(is_missing, empty, values)}
            is_open[key] = is_open[key] | is_missing
            if missing == "indicator" and way is plan[key][-1]:
                found[f"{key}_missing"] = is_open[key].astype(float)
            _refuse_taken(found, columns)
            columns |= found
            if show is not None:
                show(k + 1)
    return table_like(pairs, columns)


def _refuse_taken(found: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
    if taken := [name for name in found if name in columns]:
        raise TableError(
            f"pairs must not have the column {taken[0]!r} yet, which is the result of a "
            "comparison. Drop or rename it."
        )


def _plan(comparisons: Any) -> dict[str, list[Comparison]]:
    """Return the comparisons of every column."""
    if not isinstance(comparisons, Mapping) or not comparisons:
        raise InvalidOptionError(
            "comparisons must be a mapping from columns to how they are compared, such as "
            f"{{'name': 'jaro_winkler'}}; got {comparisons!r}."
        )
    plan: dict[str, list[Comparison]] = {}
    for key, ways in comparisons.items():
        chosen: list[Any] = list(ways) if isinstance(ways, list | tuple) else [ways]
        found = [Comparison(way) if isinstance(way, str) else way for way in chosen]
        kinds = [getattr(way, "kind", None) for way in found]
        if not kinds or None in kinds or len(set(kinds)) < len(kinds):
            raise InvalidOptionError(
                "a column must have one comparison or several different ones, each a kind "
                f"({', '.join(map(repr, _KINDS))}) or a Comparison; got {ways!r} for "
                f"{key!r}."
            )
        plan[str(key)] = found
    return plan


# ---- kinds: from the rows of pairs to values, and which have an empty cell ---------------

_Rows = tuple[IntArray, IntArray]
_Found = tuple[FloatArray, BoolArray]


def _texts(a: Records, b: Records, key: str, rows: _Rows) -> tuple[Any, Any, BoolArray]:
    """Return the texts of every pair, and whether one is empty."""
    first = np.array(a.text(key), dtype=object)[rows[0]]
    second = np.array(b.text(key), dtype=object)[rows[1]]
    return first, second, (first == "") | (second == "")


def _by_rapidfuzz(kind: str) -> Callable[[Records, Records, str, _Rows], _Found]:
    """Return a comparison of text by a function of rapidfuzz."""

    def compare(a: Records, b: Records, key: str, rows: _Rows) -> _Found:
        process = require("rapidfuzz.process", "link", what="comparing text")
        module, function, largest = _SCORERS[kind]
        first, second, is_missing = _texts(a, b, key, rows)
        scorer = getattr(require(module, "link"), function)
        values = process.cpdist(
            first.tolist(), second.tolist(), scorer=scorer, dtype=np.float64
        )
        return values / largest, is_missing

    return compare


def _exact(a: Records, b: Records, key: str, rows: _Rows) -> _Found:
    first, second, is_missing = _texts(a, b, key, rows)
    return (first == second).astype(float), is_missing


def _tfidf(a: Records, b: Records, key: str, rows: _Rows) -> _Found:
    values = similarities(text_vectors(a, b, [key]), *rows)
    return values, _texts(a, b, key, rows)[2]


def _difference(a: Records, b: Records, key: str, rows: _Rows) -> _Found:
    values = np.abs(a.numbers(key)[rows[0]] - b.numbers(key)[rows[1]])
    return values, np.isnan(values)


def _days(a: Records, b: Records, key: str, rows: _Rows) -> _Found:
    values = np.abs(a.days(key)[rows[0]] - b.days(key)[rows[1]])
    return values, np.isnan(values)


#: Where rapidfuzz has a comparison, and the most it gives.
_SCORERS = {
    "jaro_winkler": ("rapidfuzz.distance.JaroWinkler", "normalized_similarity", 1.0),
    "levenshtein": ("rapidfuzz.distance.Levenshtein", "normalized_similarity", 1.0),
    "token_sort": ("rapidfuzz.fuzz", "token_sort_ratio", 100.0),
}

_KINDS: dict[str, Callable[[Records, Records, str, _Rows], _Found]] = {
    **{kind: _by_rapidfuzz(kind) for kind in _SCORERS},
    "tfidf": _tfidf,
    "exact": _exact,
    "difference": _difference,
    "days": _days,
}
