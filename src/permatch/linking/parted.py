"""A table in parts, each with whole components: counted and linked part by part.

What is asked of all parts goes to each of them, and what comes back is added in their
order.  The sums that the search for the constant needs are exact, and every component is
solved as if it were alone, so that the parts, their number and where they are make no
difference to probabilities that are exact.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from permatch._progress import Stages
from permatch._shards import Shards
from permatch._types import IntArray
from permatch.datasets.table_sources import read_part
from permatch.linking.constant import LARGE, Size, choose_pilot, most_links
from permatch.linking.files import write_table
from permatch.linking.ledger import part_file
from permatch.linking.links import Links
from permatch.linking.pairs import as_pairs
from permatch.linking.report import Figures
from permatch.linking.solving import Solver, kind_of
from permatch.linking.survey import NUMBER, ROW
from permatch.linking.table import PairTable, Rules
from permatch.linking.totals import Total
from permatch.problems import Problem, side_by_side


@dataclass(frozen=True)
class PartRules:
    """How every part is linked, and what it has to know of the whole table.

    Attributes
    ----------
    rules : Rules
        How pairs are linked.
    name : str
        What messages call the table.
    highest : float
        Its largest finite log-odds, where certain pairs need it.
    """

    rules: Rules
    name: str
    highest: float


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a table, with its number."""

    number: int
    table: PairTable

    @property
    def solver(self) -> Solver:
        """Solves the part at any constant."""
        return self.table.solver


def build_part(numbered: tuple[int, Any], how: PartRules) -> Part:
    """Return a part, from its number and an Arrow table of its rows in any order."""
    number, rows = numbered
    numbers = rows[NUMBER].to_numpy()
    order = np.argsort(numbers)
    if (np.diff(order) < 0).any():
        rows, numbers = rows.take(order), numbers[order]
    columns = read_part(rows, how.name, how.rules.roles, numbers)
    pairs = as_pairs(columns, how.rules.roles)
    return Part(number, PairTable.build(pairs, how.rules, how.highest))


def part_total(part: Part, offset: float) -> Total:
    """Return the expected number of links of a part at a constant."""
    return part.solver.total(offset)


@dataclass(frozen=True, eq=False)
class Quick:
    """The components of a part that are quick to count.

    Attributes
    ----------
    number : int
        The number of the part.
    starts : ndarray
        The row of the whole table with which the first left record of each begins.
    n_edges : ndarray
        Their pairs.
    """

    number: int
    starts: IntArray
    n_edges: IntArray


def part_size(part: Part) -> tuple[Size, Quick]:
    """Return what a search has to know of a part beforehand."""
    solver, table = part.solver, part.table
    structure = solver.problem.structure
    found = structure.components
    nodes = found.left_nodes[found.left_starts[solver.quick]]
    edges = solver.whole_edges(structure.starts[nodes])
    records = table.pairs.left[table.rows[edges]]
    # Rows are in order: the first of a record is where its number is new.
    first = table.row_numbers[np.unique(table.pairs.left, return_index=True)[1]]
    quick = Quick(part.number, first[records], found.n_edges[solver.quick])
    return Size.of(solver, table.chances), quick


def part_pilot(part: Part, chosen: dict[int, IntArray]) -> tuple[Problem, Total] | None:
    """Return the components chosen among the quick ones of a part, and their chances."""
    own = chosen.get(part.number)
    if own is None:
        return None
    problem, edges = part.solver.part(part.solver.quick[own])
    return problem, Total.of(part.table.chances[edges])


def part_most_links(part: Part) -> int:
    """Return the most links that the pairs of a part allow."""
    return most_links(part.solver)


@dataclass(eq=False)
class PartedTable:
    """The parts of a table; see `permatch.linking.constant.Counted`.

    Attributes
    ----------
    shards : Shards
        A `Part` each.
    rules : Rules
        How pairs are linked.
    """

    shards: Shards
    rules: Rules

    @cached_property
    def _sizes(self) -> list[tuple[Size, Quick]]:
        return self.shards.map(part_size)

    @property
    def size(self) -> Size:
        """What is known of it beforehand."""
        return reduce(add, [size for size, _ in self._sizes], Size())

    @property
    def kind(self) -> str:
        """What is linked, in words."""
        return kind_of(any(capacity != 1 for capacity in self.rules.capacities))

    def total(self, offset: float) -> Total:
        """Return the expected number of links at a constant."""
        return reduce(add, self.shards.map(part_total, offset))

    def pilot(self) -> tuple[Solver, Total] | None:
        """Return what solves a part of a large table, and the pair probabilities in it."""
        if self.size.n_edges < LARGE:
            return None
        quick = [one for _, one in self._sizes]
        starts = np.concatenate([one.starts for one in quick])
        order = np.argsort(starts, kind="stable")  # as if the table were whole
        n_edges = np.concatenate([one.n_edges for one in quick])[order]
        taken = choose_pilot(n_edges, self.size.n_edges)
        if taken is None:
            return None
        ends = np.cumsum([0, *(len(one.starts) for one in quick)])
        places = np.sort(order[taken])
        chosen = {}
        for one, first, last in zip(quick, ends, ends[1:], strict=False):
            own = places[(places >= first) & (places < last)] - first
            if len(own):
                chosen[one.number] = own
        found = [one for one in self.shards.map(part_pilot, chosen) if one is not None]
        problem = _joined([problem for problem, _ in found])
        return self.rules.solver(problem), reduce(add, [chances for _, chances in found])

    def most_links(self) -> int:
        """Return the most links that the pairs allow."""
        return sum(self.shards.map(part_most_links))


def _joined(problems: Sequence[Problem]) -> Problem:
    """Return several problems, of nodes with one link each, as one of a single graph."""
    structure = side_by_side([problem.structure for problem in problems])
    n, k = structure.n_left, structure.n_right
    return Problem(
        replace(structure, left_starts=np.array([0, n]), right_starts=np.array([0, k])),
        np.concatenate([problem.scores for problem in problems]),
        np.concatenate([problem.unmatched_left for problem in problems]),
        np.concatenate([problem.unmatched_right for problem in problems]),
    )


def link_part(part: Part, offset: float) -> tuple[Links, Figures]:
    """Return the links of a part at a constant, and what is counted of them.

    They have the numbers of their rows in a column more, and no graph.
    """
    with Stages("") as silent:
        links, remark = part.table.link(offset, silent)
    if remark:  # what Ctrl-C left undecided is decided next time
        raise KeyboardInterrupt
    table = {**links.table, ROW: part.table.row_numbers}
    return Links(table, links.offset, links.costs), links.figures


def write_part(part: Part, offset: float, folder: Path) -> None:
    """Write the links of a part at a constant to a file of a folder."""
    links, figures = link_part(part, offset)
    write_table(links, part_file(folder, part.number), figures=asdict(figures))


def links_of_part(linked: tuple[Links, Figures]) -> Links:
    """Return the links of a part."""
    return linked[0]


def figures_of_part(linked: tuple[Links, Figures]) -> Figures:
    """Return what is counted of the links of a part."""
    return linked[1]
