"""Components of a problem are solved apart; their answers are put together here.

The log-partition of a graph is the sum of those of its components, and its marginals are
theirs side by side.  A node without edges stays unmatched for certain.
"""

from dataclasses import dataclass, field

import numpy as np

from permatch._types import FloatArray
from permatch.errors import InfeasibleGraphError
from permatch.inference.answer import Diagnostics, InferenceResult, merge, weakest
from permatch.problems import Problem, Selection


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
    log_partition: FloatArray = field(init=False)
    log_variance: FloatArray = field(init=False)
    marginals: FloatArray = field(init=False)
    errors: FloatArray = field(init=False)
    unmatched_left: FloatArray = field(init=False)
    unmatched_right: FloatArray = field(init=False)
    told: list[Diagnostics] = field(default_factory=list, init=False)
    is_exact: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        problem, structure = self.problem, self.problem.structure
        found = structure.components
        is_alone = found.of_left < 0, found.of_right < 0
        self.unmatched_left = is_alone[0].astype(float)
        self.unmatched_right = is_alone[1].astype(float)
        self.log_partition = np.zeros(structure.n_graphs)
        for graph_of, unmatched, alone in (
            (structure.graph_of_left, problem.unmatched_left, is_alone[0]),
            (structure.graph_of_right, problem.unmatched_right, is_alone[1]),
        ):
            self.log_partition += np.bincount(
                graph_of[alone], unmatched[alone], structure.n_graphs
            )
        self.log_variance = np.zeros(structure.n_graphs)
        self.marginals = np.zeros(structure.n_edges)
        self.errors = np.zeros(structure.n_edges)

    def add(self, part: Selection, answer: InferenceResult) -> None:
        """Add the answer for a selection: a log-partition per component."""
        structure = self.problem.structure
        first = part.left[part.problem.structure.left_starts[:-1]]
        graphs = structure.graph_of_left[first]
        np.add.at(self.log_partition, graphs, answer.log_partition)
        self.marginals[part.edges] = answer.marginals
        self.unmatched_left[part.left] = answer.unmatched_left
        self.unmatched_right[part.right] = answer.unmatched_right
        if not answer.is_exact:
            self.is_exact = False
            log_error = answer.log_partition_error
            np.add.at(
                self.log_variance,
                graphs,
                np.nan if log_error is None else np.square(log_error),
            )
            errors = answer.marginal_errors
            self.errors[part.edges] = np.nan if errors is None else errors
        self.told.append(answer.diagnostics)

    def result(self, engine: str, choice: str = "") -> InferenceResult:
        """Return the answer for the whole problem."""
        structure = self.problem.structure
        sizes = np.maximum(np.diff(structure.left_starts), np.diff(structure.right_starts))
        told = merge(self.told) if self.told else Diagnostics(engine, choice, 0)
        log_errors = np.sqrt(self.log_variance)
        answer = InferenceResult(
            self.log_partition,
            self.marginals,
            self.is_exact,
            told,
            None if self.is_exact else log_errors,
            None if self.is_exact else self.errors,
            self.unmatched_left,
            self.unmatched_right,
        )
        return answer.told(
            engine=engine,
            choice=choice or told.choice,
            size=int(sizes.max(initial=0)),
            n_graphs=structure.n_graphs,
            certificate=weakest(one.certificate for one in self.told),
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
    return InfeasibleGraphError(
        "the allowed edges must contain a matching of all nodes that must be matched; "
        f"{name} has none: the component of left node {node}, of {n_left} x {n_right} "
        f"nodes and {found.n_edges[component]} edges, cannot be matched. Allow more edges, "
        "or let nodes stay unmatched (unmatched_left, unmatched_right)."
    )
