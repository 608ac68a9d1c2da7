"""What becomes of each column of a table: numbers, logarithms, indicators, categories.

A column is read once in training; what was learned of it makes features of any other table,
and is all that exports need.
"""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from permatch._cells import Coded, is_empty, parse_numbers
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import DocumentTypeError, InvalidQueriesError, NaNDocumentError
from permatch.estimators.json_values import decode, encode

#: What is done with missing values.
MISSING = ("error", "indicator", "median", "zero")
# Floats above this are not all whole numbers.
_MOST_WHOLE = 2.0**53


@dataclass(frozen=True)
class PreparedFeature:
    """A feature made of a column: its numbers, whether they are missing, or a category."""

    name: str
    column: "PreparedColumn"
    part: Literal["value", "missing", "category"]
    category: str = ""


@dataclass(frozen=True)
class PreparedColumn:
    """A column, and what was learned of it.

    `name` is a position in an array.  `fill` is in place of missing numbers, after the
    logarithm; None: there must be no missing values.  `was_missing` says whether there were
    any in training.  `categories` have a feature each.
    """

    name: str | int
    label: str
    kind: Literal["number", "category", "kept"]
    is_log: bool = False
    fill: float | None = None
    was_missing: bool = False
    is_indicated: bool = False
    categories: tuple[str, ...] = ()

    @cached_property
    def features(self) -> list[PreparedFeature]:
        """The features made of the column, in order."""
        if self.kind == "category":
            found = [
                PreparedFeature(f"{self.label}={category}", self, "category", category)
                for category in self.categories
            ]
        else:
            name = f"{self.label}_log1p" if self.is_log else self.label
            found = [PreparedFeature(name, self, "value")]
        if self.is_indicated:
            found.append(PreparedFeature(f"{self.label}_missing", self, "missing"))
        return found

    @property
    def is_needed(self) -> bool:
        """Whether tables without the column lack more than the column itself."""
        return self.kind == "category" or self.is_log or self.is_indicated

    def values(self, cells: Any) -> list[FloatArray] | None:
        """Return the features of cells, (n,) each; None: the column as it is."""
        if self.kind == "category":
            return self._one_hot(*read_categories(cells, self.label))
        numbers, is_missing = read_numbers(cells, self)
        if not (self.is_log or self.is_indicated or is_missing.any()):
            return None
        if self.fill is not None:
            numbers[is_missing] = self.fill
        return [numbers, is_missing.astype(np.float64)][: 1 + self.is_indicated]

    def _one_hot(self, codes: IntArray, words: list[str]) -> list[FloatArray]:
        if "" in words and self.fill is None:
            raise missing_value(self.label, int(np.argmax(codes == words.index(""))))
        found = list(self.categories) + [""] * self.is_indicated
        place = {word: k for k, word in enumerate(found)}
        # Any other category is one column too many, which is left off.
        places = np.array([place.get(word, len(found)) for word in words], dtype=np.intp)
        table = np.zeros((len(found) + 1, len(codes)))
        table[places[codes], np.arange(len(codes))] = 1.0
        return list(table[:-1])


@dataclass(frozen=True)
class Plan:
    """What becomes of all columns of a table, in order."""

    columns: tuple[PreparedColumn, ...]

    @property
    def features(self) -> list[PreparedFeature]:
        """All features, in order."""
        return [feature for column in self.columns for feature in column.features]

    def to_json(self) -> Any:
        """Return the plan as plain lists and objects."""
        return [encode(asdict(column)) for column in self.columns]

    @classmethod
    def from_json(cls, value: Any) -> "Plan":
        """Return what `to_json` was called of; ValueError or TypeError if it was not."""
        if not isinstance(value, list):
            raise TypeError("a plan must be a list")
        columns = tuple(PreparedColumn(**decode(column)) for column in value)
        for column in columns:
            _check_column(column)
        return cls(columns)


def _check_column(column: PreparedColumn) -> None:
    """Refuse a column from a file that nothing learns by ValueError."""
    kinds = {
        "name": str | int,
        "label": str,
        "fill": float | None,
        "is_log": bool,
        "was_missing": bool,
        "is_indicated": bool,
        "categories": tuple,
    }
    is_typed = all(isinstance(getattr(column, name), of) for name, of in kinds.items())
    is_text = is_typed and all(isinstance(word, str) for word in column.categories)
    if not is_text or column.kind not in ("number", "category", "kept"):
        raise ValueError(f"{column} is not a column")
    if column.fill is not None and not np.isfinite(column.fill):
        raise ValueError(f"fill of {column.label!r} must be finite")


def learn_numbers(column: PreparedColumn, cells: Any, missing: str) -> PreparedColumn:
    """Return a column of numbers with what is to be learned of its cells."""
    numbers, is_missing = read_numbers(cells, column, is_new=missing != "error")
    was_missing = bool(is_missing.any())
    return replace(
        column,
        fill=_fill(numbers[~is_missing], missing),
        was_missing=was_missing,
        is_indicated=was_missing and missing == "indicator",
    )


def _fill(present: FloatArray, missing: str) -> float | None:
    if missing == "error":
        return None
    if missing == "zero" or not len(present):
        return 0.0
    # The lower of two in the middle: a mean of both may overflow.
    middle = (len(present) - 1) // 2
    return float(np.partition(present, middle)[middle])


def learn_categories(
    column: PreparedColumn, cells: Any, missing: str, most: int
) -> PreparedColumn:
    """Return a column of categories with the `most` frequent of its cells, sorted."""
    codes, words = read_categories(cells, column.label)
    if missing == "error" and "" in words:
        raise missing_value(column.label, int(np.argmax(codes == words.index(""))))
    counts = Counter(dict(zip(words, np.bincount(codes).tolist(), strict=True)))
    was_missing = counts.pop("", 0) > 0
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:most]
    return replace(
        column,
        fill=None if missing == "error" else 0.0,
        was_missing=was_missing,
        is_indicated=was_missing and missing == "indicator",
        categories=tuple(sorted(frequent)),
    )


def read_numbers(
    cells: Any, column: PreparedColumn, *, is_new: bool = False
) -> tuple[FloatArray, BoolArray]:
    """Return checked numbers, or their log1p, and which are missing.

    Missing ones are refused unless the column has a fill, or is to learn it (`is_new`).
    """
    numbers, is_text = parse_numbers(cells)
    label = column.label
    if is_text.any():
        row = int(np.argmax(is_text))
        raise DocumentTypeError(
            f"features must be real numbers; column {label!r} has {str(cells[row])!r} in "
            f"row {row}. Correct it, or name the column in categories=, or in keep= to "
            "pass it on as it is."
        )
    is_missing = np.isnan(numbers)
    if is_missing.any() and column.fill is None and not is_new:
        raise missing_value(label, int(np.argmax(is_missing)))
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise NaNDocumentError(
            f"features must be finite; got {numbers[row]} at row {row}, column {label!r}. "
            "Correct it, or make it missing (NaN)."
        )
    if column.is_log:
        if (numbers < 0).any():
            row = int(np.argmax(numbers < 0))
            raise InvalidQueriesError(
                f"log1p needs numbers of at least 0; column {label!r} has {numbers[row]} "
                f"in row {row}. Correct it, make it missing (NaN), or leave the column "
                "out of log1p=."
            )
        numbers = np.log1p(numbers)
    return numbers, is_missing


def read_categories(cells: Any, label: str) -> tuple[IntArray, list[str]]:
    """Return a code per cell, and the words that codes stand for, "" for missing ones."""
    codes, values = _coded(cells)
    numbers: dict[str, int] = {}
    words = [numbers.setdefault(_word(x, label), len(numbers)) for x in values]
    return np.array(words, dtype=np.intp)[codes], list(numbers)


def _coded(cells: Any) -> tuple[IntArray, list[Any]]:
    """Return a code per cell, and the values that codes stand for."""
    if isinstance(cells, Coded):
        return cells.codes, cells.values
    if cells.dtype.kind in "iufb":
        values, codes = np.unique(cells, return_inverse=True)
        return codes, values.tolist()
    numbers: dict[Any, int] = {}
    codes = np.array(
        [
            # 1, 1.0 and True are equal, but not the same category.
            numbers.setdefault(x if type(x) is str else (type(x), x), len(numbers))
            for x in cells.tolist()
        ],
        dtype=np.intp,
    )
    return codes, [key[1] if isinstance(key, tuple) else key for key in numbers]


def _word(cell: Any, label: str) -> str:
    """Return a category as text; a whole number beside missing ones comes as a float."""
    if is_empty(cell):
        return ""
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, bool | np.bool_):
        return str(cell).lower()
    is_float = isinstance(cell, float | np.floating)
    if isinstance(cell, int | np.integer) or (
        is_float and abs(cell) <= _MOST_WHOLE and cell == int(cell)
    ):
        return str(int(cell))
    raise DocumentTypeError(
        f"categories must be text, whole numbers or truth values; column {label!r} has "
        f"{cell!r}. Convert it to text, or leave it out of categories=."
    )


def missing_value(label: str, row: int) -> NaNDocumentError:
    """Return the error of a missing value where none is allowed."""
    return NaNDocumentError(
        f"features must not be missing; column {label!r} has no value in row {row}. Fill "
        "it in, or choose what missing values become: missing='indicator', 'median' or "
        "'zero'."
    )
