"""Values on the edges and nodes of a problem, given back in the form of the scores."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.problems import Structure


@dataclass(frozen=True, eq=False)
class Form:
    """One graph as it was given: what its entries are, and which of them are edges."""

    kind: Literal["dense", "sparse", "edges"]
    shape: tuple[int, int]
    n_entries: int
    places: IntArray  # of the edges of the problem among the entries given
    template: Any = None  # the sparse array that was given

    def lay(self, values: FloatArray | BoolArray) -> Any:
        """Return values on the edges of the problem in the form of the graph."""
        entries = np.zeros(self.n_entries, dtype=values.dtype)
        entries[self.places] = values
        if self.kind == "dense":
            return entries.reshape(self.shape)
        if self.kind == "sparse":
            laid = self.template.tocoo(copy=True)
            laid.data = entries
            return laid.asformat(self.template.format)
        return entries


@dataclass(frozen=True, eq=False)
class Layout:
    """How values on the edges and nodes of a problem are given back."""

    kind: Literal["one", "stack", "list"]
    forms: tuple[Form, ...]
    structure: Structure
    shape: tuple[int, ...] = (0, 0)  # of the graphs of an empty stack

    def edges(self, values: FloatArray | BoolArray | None) -> Any:
        """Return values (n_edges,) on edges in the form of the scores."""
        if values is None:
            return None
        starts = self.structure.edge_starts
        return self._collect(
            [
                form.lay(values[starts[g] : starts[g + 1]])
                for g, form in enumerate(self.forms)
            ],
            self.shape,
        )

    def left(self, values: Any) -> Any:
        """Return values (n_left,) on left nodes, per graph if there are several."""
        return self._nodes(values, self.structure.left_starts, self.shape[:1])

    def right(self, values: Any) -> Any:
        """Return values (n_right,) on right nodes, per graph if there are several."""
        return self._nodes(values, self.structure.right_starts, self.shape[1:])

    def graphs(self, values: Any) -> Any:
        """Return values (n_graphs,), a float if only one graph was given."""
        if values is None:
            return None
        return float(values[0]) if self.kind == "one" else values

    def matchings(self, partners: IntArray) -> Any:
        """Return the partners (n_left,) of left nodes, counted within each graph."""
        structure = self.structure
        first = structure.right_starts[structure.graph_of_left]
        return self.left(np.where(partners >= 0, partners - first, partners))

    def _nodes(self, values: Any, starts: IntArray, shape: tuple[int, ...]) -> Any:
        if values is None:
            return None
        return self._collect(
            [
                values[first:last]
                for first, last in zip(starts[:-1], starts[1:], strict=True)
            ],
            shape,
        )

    def _collect(self, pieces: list[Any], shape: tuple[int, ...]) -> Any:
        if self.kind == "one":
            return pieces[0]
        if self.kind == "stack":
            return np.array(pieces) if pieces else np.zeros((0, *shape))
        return pieces


def read_only(values: Any) -> Any:
    """Return an array or a sparse array, made read-only where its format allows it."""
    numbers = values if isinstance(values, np.ndarray) else getattr(values, "data", None)
    # SciPy cannot read from lil arrays whose lists are read-only.
    if isinstance(numbers, np.ndarray) and numbers.dtype != object:
        numbers.flags.writeable = False
    return values
