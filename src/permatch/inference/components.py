"""Components of a problem are solved apart; their answers are put together here.

The log-partition of a graph is the sum of those of its components, and its marginals are
theirs side by side.  A node without edges stays unmatched for certain.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from permatch._layout import Layout
from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import InfeasibleGraphError, PartialMatchingError
from permatch.inference.answer import Diagnostics, InferenceResult, merge, weakest
from permatch.problems import Problem, Selection

_BOUNDS = ("marginal_bounds", "unmatched_left_bounds", "unmatched_right_bounds")


@dataclass(eq=False)
class Assembly:
    """Collects the answers for the components of a problem.

    Examples
    --------
    >>> import numpy as np
    >>> from permatch.scores import EdgeScores, check_problem
    >>> problem, _ = check_problem(EdgeScores([], [], [], n_left=1, n_right=0), 2.0)
    >>> Assembly(problem).result("frontier").log_partition
    array([2.])
    """

    problem: Problem
    parts: list[tuple[Selection, InferenceResult]] = field(default_factory=list)

    def add(self, part: Selection, answer: InferenceResult) -> None:
        """Add the answer for a selection: a log-partition per component."""
        self.parts.append((part, answer))

    def result(self, engine: str, choice: str = "") -> InferenceResult:
        """Return the answer for the whole problem."""
        structure = self.problem.structure
        answers = [answer for _, answer in self.parts]
        is_exact = all(answer.is_exact for answer in answers)
        sizes = np.maximum(np.diff(structure.left_starts), np.diff(structure.right_starts))
        told = [answer.diagnostics for answer in answers]
        merged = merge(told) if told else Diagnostics(engine, choice, 0)
        interval = None if is_exact else self._interval()
        whole = InferenceResult(
            self._log_partition(),
            self._edges(lambda answer: answer.marginals),
            is_exact,
            merged,
            None if is_exact else self._log_errors(),
            None if is_exact else self._edges(errors_of),
            self._nodes("left"),
            self._nodes("right"),
        )
        return replace(whole, **self._bounds(whole)).told(
            engine=engine,
            choice=choice or merged.choice,
            size=int(sizes.max(initial=0)),
            n_graphs=structure.n_graphs,
            certificate=weakest(one.certificate for one in told),
            interval=interval,
            interval_certificate="rigorous" if interval else "",
            parts=tuple(told) if len(told) > 1 else (),
        )

    def alone(self) -> FloatArray:
        """Return the score of all nodes without edges, of every graph."""
        problem, structure = self.problem, self.problem.structure
        found = structure.components
        total = np.zeros(structure.n_graphs)
        for graph_of, unmatched, labels in (
            (structure.graph_of_left, problem.unmatched_left, found.of_left),
            (structure.graph_of_right, problem.unmatched_right, found.of_right),
        ):
            alone = labels < 0
            total += np.bincount(graph_of[alone], unmatched[alone], structure.n_graphs)
        return total

    def _log_partition(self) -> FloatArray:
        total = self.alone()
        for part, answer in self.parts:
            np.add.at(total, self._graphs(part), answer.log_partition)
        return total

    def _graphs(self, part: Selection) -> IntArray:
        """Return the graph of every component of a selection."""
        first = part.left[part.problem.structure.left_starts[:-1]]
        return self.problem.structure.graph_of_left[first]

    def _log_errors(self) -> FloatArray:
        variance = np.zeros(self.problem.structure.n_graphs)
        for part, answer in self.parts:
            error = answer.log_partition_error
            if not answer.is_exact:
                own = np.nan if error is None else np.square(error)
                np.add.at(variance, self._graphs(part), own)
        return np.sqrt(variance)

    def _interval(self) -> tuple[float, float] | None:
        """Return the sum of the intervals that hold, of a single graph."""
        if self.problem.structure.n_graphs != 1:
            return None
        low = high = float(self._log_partition()[0])
        for part, answer in self.parts:
            told = answer.diagnostics
            if answer.is_exact:
                continue
            is_certain = told.interval_certificate == "rigorous" and told.delta == 0.0
            if told.interval is None or not is_certain or len(part.components) != 1:
                return None
            low += told.interval[0] - float(answer.log_partition[0])
            high += told.interval[1] - float(answer.log_partition[0])
        slack = 1e-12 * (1.0 + abs(low))
        return low - slack, high + slack

    def _edges(self, pick: Callable[[InferenceResult], Any]) -> FloatArray:
        values = np.zeros(self.problem.structure.n_edges)
        for part, answer in self.parts:
            values[part.edges] = pick(answer)
        return values

    def _nodes(self, side: str) -> FloatArray:
        """Return the probabilities of staying unmatched; 1 for nodes without edges."""
        found = self.problem.structure.components
        values = (getattr(found, f"of_{side}") < 0).astype(float)
        for part, answer in self.parts:
            values[getattr(part, side)] = getattr(answer, f"unmatched_{side}")
        return values

    def _bounds(self, whole: InferenceResult) -> dict[str, Any]:
        """Return intervals that hold, if any part has them; [0, 1] where nothing does."""
        if all(answer.marginal_bounds is None for _, answer in self.parts):
            return {}
        bounds = {}
        values = whole.marginals, whole.unmatched_left, whole.unmatched_right
        for name, place, own in zip(
            _BOUNDS, ("edges", "left", "right"), values, strict=True
        ):
            low, high = own.copy(), own.copy()
            for part, answer in self.parts:
                ends = getattr(answer, name)
                if ends is None and answer.is_exact:
                    continue
                where = getattr(part, place)
                low[where], high[where] = (0.0, 1.0) if ends is None else ends
            bounds[name] = low, high
        return bounds


def errors_of(answer: InferenceResult) -> Any:
    """Return the errors of the marginals: 0 if exact, NaN if unknown."""
    if answer.is_exact:
        return 0.0
    return np.nan if answer.marginal_errors is None else answer.marginal_errors


def perfect_components(problem: Problem) -> BoolArray:
    """Return which components are square and have no node that may stay unmatched."""
    found = problem.structure.components
    n_left, n_right = found.sizes
    is_perfect = n_left == n_right
    for labels, unmatched in (
        (found.of_left, problem.unmatched_left),
        (found.of_right, problem.unmatched_right),
    ):
        is_perfect[labels[(unmatched > -np.inf) & (labels >= 0)]] = False
    return is_perfect


def solve_squares(
    problem: Problem,
    name: str,
    solve: Callable[[FloatArray, IntArray], InferenceResult],
    *,
    has_marginals: bool,
) -> InferenceResult:
    """Solve components that are square and have no unmatched nodes, equal sizes together.

    `solve` takes dense scores (b, m, m) and the graphs that they belong to.
    """
    n_left, _ = problem.structure.components.sizes
    whole = Assembly(problem)
    for size in np.unique(n_left).tolist():
        part = problem.select(np.nonzero(n_left == size)[0])
        own = part.problem.structure
        if size == 1:  # for certain, whatever the engine
            told = Diagnostics(name, "asked for", 1, own.n_graphs)
            sure = InferenceResult(part.problem.scores, 1.0, True, told)
            whole.add(part, replace(sure, unmatched_left=0.0, unmatched_right=0.0))
            continue
        graphs = own.graph_of_left[own.left]
        places = graphs, own.left % size, own.right % size
        scores = np.full((own.n_graphs, size, size), -np.inf)
        scores[places] = part.problem.scores
        answer = solve(scores, problem.structure.graph_of_component[part.components])
        errors = answer.marginal_errors
        picked = replace(
            answer,
            marginals=answer.marginals[places] if has_marginals else 0.0,
            marginal_errors=None if errors is None else errors[places],
            unmatched_left=0.0,
            unmatched_right=0.0,
        )
        whole.add(part, picked)
    result = whole.result(name)
    return result if has_marginals else replace(result, marginals=None)


def refuse_partial(problem: Problem, name: str) -> None:
    """Refuse components that are not square, or whose nodes may stay unmatched."""
    if not perfect_components(problem).all():
        raise PartialMatchingError(
            f"{name} handles perfect matchings of square graphs; this one has unmatched "
            "nodes, or sides of different sizes. Use engine='auto', or engine='frontier', "
            "which is exact where components are narrow."
        )


def flattened(answer: InferenceResult) -> InferenceResult:
    """Return the answer for a stack of one square as one for its edges and nodes."""

    def flat(values: Any) -> Any:
        if isinstance(values, tuple):
            return tuple(map(flat, values))
        return None if values is None else np.ravel(values)

    names = ("marginals", "marginal_errors", "unmatched_left", "unmatched_right", *_BOUNDS)
    return replace(answer, **{name: flat(getattr(answer, name)) for name in names})


def laid_out(answer: InferenceResult, layout: Layout) -> InferenceResult:
    """Return an answer on edges and nodes in the form in which scores were given."""

    def pair(place: Callable[[Any], Any], ends: Any) -> Any:
        return None if ends is None else (place(ends[0]), place(ends[1]))

    return replace(
        answer,
        log_partition=layout.graphs(answer.log_partition),
        log_partition_error=layout.graphs(answer.log_partition_error),
        marginals=layout.edges(answer.marginals),
        marginal_errors=layout.edges(answer.marginal_errors),
        unmatched_left=layout.left(answer.unmatched_left),
        unmatched_right=layout.right(answer.unmatched_right),
        marginal_bounds=pair(layout.edges, answer.marginal_bounds),
        unmatched_left_bounds=pair(layout.left, answer.unmatched_left_bounds),
        unmatched_right_bounds=pair(layout.right, answer.unmatched_right_bounds),
    )


def no_matching(problem: Problem, component: int) -> InfeasibleGraphError:
    """Return the error to raise for a component without a matching."""
    structure = problem.structure
    found = structure.components
    n_left, n_right = (int(sizes[component]) for sizes in found.sizes)
    first = int(found.left_nodes[found.left_starts[component]])
    g = int(structure.graph_of_left[first])
    name = "this graph" if structure.n_graphs == 1 else f"graph {g}"
    node = first - int(structure.left_starts[g])
    n_edges = int(found.n_edges[component])
    return InfeasibleGraphError(
        "the allowed edges must contain a matching of all nodes that must be matched; "
        f"{name} has none: the component of left node {node}, of {n_left} x {n_right} "
        f"nodes and {n_edges} edge{'s' * (n_edges != 1)}, cannot be matched. Allow more "
        "edges, or let nodes stay unmatched (unmatched_left, unmatched_right)."
    )
