"""A first look at pairs that are too many for memory: which of them belong together.

Every share of the rows is looked at where it is; what comes back is as large as the records
in it.  Together they say which part every pair belongs to, each part with whole components.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from permatch._cells import parse_numbers
from permatch.errors import TableError
from permatch.linking.grouping import Forest, Grouping, hash_ids
from permatch.linking.odds import highest_odds
from permatch.linking.pairs import PairRoles

#: The column of links in parts with the number of a row in the whole table, and the one
#: that pairs carry it in, whatever their columns are called.
ROW, NUMBER = "row", "_permatch_row"


@dataclass(frozen=True, eq=False)
class Survey:
    """What is found in a share of the rows.

    Attributes
    ----------
    n_rows : int
        Rows.
    forest : Forest
        Their records, and which belong together.
    highest : float
        The largest finite log-odds, where certain pairs need it.
    others : mapping from str to set
        The different values of columns that name the tables of records.
    """

    n_rows: int
    forest: Forest
    highest: float
    others: dict[str, set[Any]]


def survey_rows(table: Any, roles: PairRoles) -> Survey:
    """Look at some rows, in an Arrow table."""
    chosen = roles.chosen(table.column_names)
    highest = -np.inf
    if roles.features is None and chosen.features:
        kind = roles.kind_in(table.column_names)
        if kind != "probability":
            cells = table.column(chosen.features[0]).to_numpy()
            highest = highest_odds(parse_numbers(cells)[0], kind)
    others = {name: set(table.column(name).unique().to_pylist()) for name in chosen.others}
    return Survey(table.num_rows, group_rows(table, roles).forest, highest, others)


def group_rows(table: Any, roles: PairRoles) -> Grouping:
    """Return the components of some rows."""
    groups = Grouping()
    groups.join(*_hashes(table, roles))
    return groups


def _hashes(table: Any, roles: PairRoles) -> tuple[np.ndarray, np.ndarray]:
    chosen = roles.chosen(table.column_names)
    left, right = table.column(chosen.left), table.column(chosen.right)
    return hash_ids(left, 0), hash_ids(right, 1)


def parts_of_rows(table: Any, roles: PairRoles, groups: Grouping) -> np.ndarray:
    """Return the part that every row belongs to."""
    chosen = roles.chosen(table.column_names)
    return groups.parts(hash_ids(table.column(chosen.left), 0))


def columns_used(header: Sequence[str], roles: PairRoles) -> list[str]:
    """Return the columns of a table that matter."""
    chosen = roles.chosen(list(header))
    if ROW in (chosen.left, chosen.right):
        raise TableError(
            f"the columns of the ids of pairs in parts must not be called {ROW!r}, as that "
            f"of row numbers in the result; got {chosen.left!r} and {chosen.right!r}. "
            "Rename the column."
        )
    return [chosen.left, chosen.right, *(chosen.features or ()), *chosen.others]


@dataclass(eq=False)
class Census:
    """All surveys of a table, added in the order of its rows."""

    groups: Grouping = field(default_factory=Grouping)
    starts: list[int] = field(default_factory=lambda: [0])
    highest: float = -np.inf
    others: dict[str, set[Any]] = field(default_factory=dict)

    def add(self, survey: Survey) -> None:
        """Add the survey of the rows that come next."""
        self.groups.merge(survey.forest)
        self.starts.append(self.n_rows + survey.n_rows)
        self.highest = max(self.highest, survey.highest)
        for name, found in survey.others.items():
            self.others[name] = self.others.get(name, set()) | found

    @property
    def n_rows(self) -> int:
        """Rows looked at."""
        return self.starts[-1]
