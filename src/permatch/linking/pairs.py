"""Scored pairs, read from a table: who may be linked to whom, and how likely it is.

The columns are those named, else those that linkers write.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.datasets.columns import Columns, Roles, quoted
from permatch.datasets.table_sources import read_columns
from permatch.errors import InvalidOptionError, TableError
from permatch.linking.sources import SOURCES, as_table, check_sources

#: What a column says of a pair: see `permatch.link`.
Kind = Literal["probability", "weight", "score"]

# The columns looked for, in this order, if none is named.
_IDS = (
    ("unique_id_l", "unique_id_r"),
    ("left", "right"),
    ("left_id", "right_id"),
    ("id_left", "id_right"),
    ("id_l", "id_r"),
    ("ltable_id", "rtable_id"),
    ("rec_id_1", "rec_id_2"),
)
_VALUES: tuple[tuple[str, Kind], ...] = (
    ("match_weight", "weight"),
    ("match_probability", "probability"),
    ("probability", "probability"),
    ("weight", "weight"),
)

# Columns that only a table of links has.
_OF_LINKS = ("pair_probability", "no_partner_left", "no_partner_right")
_NO_IDS = "the ids of the two records of a pair"
_NO_VALUE = "a probability, weight or score of every pair"


@dataclass(frozen=True)
class PairRoles:
    """The columns of scored pairs, as far as they are given.

    Attributes
    ----------
    left, right : str or None
        The columns of the ids.
    kind : str or None
        What `value` holds.
    value : str or None
        The column of the probability, weight or score.
    features : tuple of str or None
        The columns that a model needs, in its order; then there is no `value`.
    """

    left: str | None = None
    right: str | None = None
    kind: Kind | None = None
    value: str | None = None
    features: tuple[str, ...] | None = None

    @property
    def required(self) -> list[str]:
        """The columns that a table should have."""
        ids = [self.left or "left", self.right or "right"]
        return [*ids, *(self.features or [self.value or "probability"])]

    def fits(self, header: list[str]) -> bool:
        """Return whether a table with these columns will do."""
        return not self._missing(header)

    def chosen(self, header: list[str]) -> Roles:
        """Return the roles of the columns of a table."""
        missing = self._missing(header)
        if missing:
            columns = f"its columns are {quoted(header)}" if header else "it has no columns"
            raise TableError(
                f"the table must have {missing}; {columns}. {self._fix(missing, header)}"
            )
        if self.value is None and self.features is None and set(_OF_LINKS) <= set(header):
            raise TableError(
                "the table must hold the probabilities of pairs by themselves; with the "
                f"columns {quoted(_OF_LINKS)} it is the result of link, one-to-one already."
                " Give the table that was linked, or link again from its column "
                "'pair_probability': probability='pair_probability'."
            )
        left, right = self._ids(header)
        value = (self.features or ()) if self.value is None else (self.value,)
        if not value:
            value = (self._value(header)[0],)
        names = [left, right, *value]
        if len(set(names)) < len(names):
            raise TableError(
                "the ids of the two records and what is known of a pair must be in "
                f"different columns; got {quoted(names)}. Name different columns."
            )
        others = SOURCES if set(SOURCES) <= set(header) - set(names) else ()
        return Roles(None, left, right, "", value, False, False, others)

    def _fix(self, missing: str, header: list[str]) -> str:
        """Say what to do about missing columns."""
        if missing == _NO_IDS:
            return "Name the columns that hold them: left= and right=."
        if missing == _NO_VALUE:
            return (
                "Name the column that holds it: probability= (from 0 to 1), weight= (log2 "
                "of the odds, as splink's match_weight) or score= (natural log of them)."
            )
        if self.features and not set(self.features) <= set(header):
            return (
                f"The model needs {quoted(self.features)}: make them as for fitting, for "
                "example by permatch.features.compare_pairs."
            )
        return "Check the names given."

    def kind_in(self, header: list[str]) -> Kind:
        """Return what the column found holds."""
        return self.kind or self._value(header)[1]

    def _missing(self, header: list[str]) -> str:
        """Say which columns are missing."""
        left, right = self._ids(header)
        wanted = [name for name in (left, right) if name not in header]
        if self.left is None and self.right is None and wanted:
            return _NO_IDS
        if self.features is not None:
            wanted += [name for name in self.features if name not in header]
        elif self.value is not None:
            wanted += [self.value] * (self.value not in header)
        elif not self._value(header)[0]:
            return _NO_VALUE
        if not wanted:
            return ""
        return f"the column{'s' * (len(wanted) != 1)} {quoted(wanted)}"

    def _ids(self, header: list[str]) -> tuple[str, str]:
        for left, right in _IDS:
            one, other = self.left or left, self.right or right
            if one in header and other in header:
                return one, other
        return self.left or "left", self.right or "right"

    def _value(self, header: list[str]) -> tuple[str, Kind]:
        taken = set(self._ids(header))
        for name, kind in _VALUES:
            if name in header and name not in taken:
                return name, kind
        return "", "probability"


def choose_roles(
    left: str | None,
    right: str | None,
    values: dict[str, str | None],
    features: tuple[str, ...] | None,
) -> PairRoles:
    """Return the roles of columns, of whose `values` at most one may be named."""
    given = [kind for kind, name in values.items() if name is not None]
    if features is not None and given:
        raise InvalidOptionError(
            f"model= scores the pairs by features, so that {given[0]}= is not used; got "
            "both. Drop one."
        )
    if len(given) > 1:
        raise InvalidOptionError(
            "one column says how likely a pair is: give probability=, weight= or score=; "
            f"got {' and '.join(f'{kind}=' for kind in given)}. Drop all but one."
        )
    for role, name in {"left": left, "right": right, **values}.items():
        if name is not None and not isinstance(name, str):
            raise InvalidOptionError(
                f"{role} must be the name of a column; got {name!r}. Pass the table as the "
                "first argument and name its columns."
            )
    if not given:
        return PairRoles(left, right, features=features)
    kind: Any = given[0]
    return PairRoles(left, right, kind, values[kind])


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """The rows of a table of pairs.

    Attributes
    ----------
    columns : Columns
        Ids and numbers as read; `columns.features` holds what is known of the pairs.
    kind : str
        What the numbers are; "features" if a model is to score them.
    left, right : ndarray of shape (n_pairs,)
        The records of every pair, numbered in order of first appearance.
    order : ndarray or None
        Sorts the rows by left and right record; None if they are sorted.
    """

    columns: Columns
    kind: str
    left: IntArray
    right: IntArray
    order: IntArray | None

    @property
    def names(self) -> tuple[str, str]:
        """The columns of the ids."""
        return self.columns.id_columns[0], self.columns.id_columns[1]

    @cached_property
    def ids(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the records of either side."""
        (_, left), (_, right) = self.columns.ids[1:]
        return as_ids(left), as_ids(right)

    @property
    def values(self) -> FloatArray:
        """What is known of every pair: a probability, weight or score."""
        features = self.columns.features
        return features[:, 0] if len(features) else np.zeros(0)


def as_ids(values: list[Any]) -> np.ndarray:
    """Return ids as an array of whole numbers, or of objects."""
    if set(map(type, values)) == {int}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    ids = np.empty(len(values), dtype=object)
    ids[:] = values
    return ids


def read_pairs(source: Any, roles: PairRoles) -> ScoredPairs:
    """Read a table of scored pairs."""
    columns = read_columns(as_table(source), roles)
    check_sources(columns.others)
    return as_pairs(columns, roles)


def as_pairs(columns: Columns, roles: PairRoles) -> ScoredPairs:
    """Return the rows of a table as pairs, refusing those listed twice."""
    kind = "features" if roles.features is not None else roles.kind_in(_header(columns))
    (_, (left, _), (right, right_ids)) = columns.ids
    key = left * max(len(right_ids), 1) + right
    order = None
    if not (key[1:] > key[:-1]).all():
        order = np.argsort(key, kind="stable")
        key = key[order]
        _refuse_repeated(columns, key, order)
    return ScoredPairs(columns, kind, left, right, order)


def _header(columns: Columns) -> list[str]:
    return [*columns.id_columns, *columns.feature_names]


def _refuse_repeated(columns: Columns, key: IntArray, order: IntArray) -> None:
    """Refuse a pair that is listed twice."""
    is_repeated = key[1:] == key[:-1]
    if not is_repeated.any():
        return
    k = int(np.argmax(is_repeated))
    first, second = order[k], order[k + 1]
    n_repeated = int(is_repeated.sum())
    more = f" ({n_repeated} rows repeat a pair)" if n_repeated > 1 else ""
    raise TableError(
        f"every pair must have one row; pair {columns.edge(second)} has two, at "
        f"{columns.at(first)} and {columns.at(second)}{more}. Keep one of them, such as "
        "the one with the larger probability."
    )
