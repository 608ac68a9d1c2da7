"""The engines by name, and the functions most callers want."""

from functools import cache
from typing import Any

from permatch._types import Scores
from permatch.errors import InvalidOptionError, MarginalsUnavailableError
from permatch.inference.answer import InferenceResult
from permatch.inference.auto import AutoEngine
from permatch.inference.base import AbstractEngine
from permatch.inference.bethe import Bethe
from permatch.inference.enumeration import Enumeration
from permatch.inference.frontier import Frontier
from permatch.inference.glynn import Glynn
from permatch.inference.glynn_cuda import GlynnCuda
from permatch.inference.huber_law import HuberLaw
from permatch.inference.nesting import Nesting
from permatch.inference.path_tree import PathTree
from permatch.inference.ryser import Ryser
from permatch.inference.small_batch import SmallBatch
from permatch.inference.sparsified import Sparsified
from permatch.inference.subset_dp import SubsetDP
from permatch.inference.swap_chain import SwapChain
from permatch.scores import Capacity, Unmatched

#: Every engine, by the name `engine=` takes.  A new engine is one word here.
ENGINES: dict[str, type[AbstractEngine]] = {
    engine.name: engine
    for engine in (
        AutoEngine,
        SmallBatch,
        Glynn,
        GlynnCuda,
        SubsetDP,
        Frontier,
        Ryser,
        Enumeration,
        Sparsified,
        Bethe,
        Nesting,
        SwapChain,
        HuberLaw,
        PathTree,
    )
}

#: The names of the engines that are exact whatever the graph.
EXACT_ENGINES = tuple(name for name, kind in ENGINES.items() if kind.is_always_exact)


@cache
def _default_engine(name: str) -> AbstractEngine:
    return ENGINES[name]()


def find_engine(engine: str | AbstractEngine) -> AbstractEngine:
    """Return the engine meant by a name or an engine object.

    Examples
    --------
    >>> find_engine("glynn")
    Glynn(max_size=30, tol=1e-10, device='cpu')
    """
    if isinstance(engine, AbstractEngine):
        return engine
    if isinstance(engine, str) and engine in ENGINES:
        return _default_engine(engine)
    raise InvalidOptionError(
        f"engine must be one of {', '.join(map(repr, ENGINES))} or an engine object such "
        f"as permatch.Glynn(max_size=32); got {engine!r}."
    )


def infer(
    scores: Scores,
    engine: str | AbstractEngine = "auto",
    *,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    capacity_left: Capacity = None,
    capacity_right: Capacity = None,
    n_jobs: int | None = None,
    check: bool = True,
    progress: bool | None = None,
) -> InferenceResult:
    """Return the log-partition and all edge marginals of one graph or many.

    Parameters
    ----------
    scores : array (n, k), stack (b, n, k), sparse array, EdgeScores, or list of these
        Log-weight of each edge; ``-inf``, or no entry, forbids an edge.
    engine : str or engine object
        Name of an engine, or an engine with its own options.
    unmatched_left, unmatched_right : number, array or None, or a list of these
        Score of staying unmatched, of all nodes or of each; ``-inf``: must be matched.
        None: every node must be matched, except that on the larger side of an unequal
        graph it is 0.  For a stack: a number, an array (n,) for all graphs, or an array
        (b, n), one row per graph.  For a list of graphs: a number or an array for all, or a
        list with one entry per graph.  On a square graph a node can only stay unmatched if
        one of the other side may too.
    capacity_left, capacity_right : int, array or None, or a list of these
        Links that a node may have, at most, of all nodes or of each; ``math.inf`` for no
        limit, None for one.  The unmatched score counts for nodes without any link.  Shapes
        as above.  By `Frontier` and `Enumeration`, or ``"auto"``; by any engine where nodes
        with room for two links have no limit and an unmatched score of 0.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    check : bool
        False skips the check for NaN and infinities.
    progress : bool, optional
        Show a progress bar; default: on terminals, for long work.

    Returns
    -------
    InferenceResult
        ``log_partition``, ``marginals``, ``unmatched_left``, ``unmatched_right``,
        ``is_exact`` and ``diagnostics``, in the form of the input.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> result = pm.infer(np.log([[3.0, 1.0], [2.0, 2.0]]))
    >>> round(float(np.exp(result.log_partition)), 12)  # 3 * 2 + 1 * 2
    8.0
    >>> result.marginals.round(2)
    array([[0.75, 0.25],
           [0.25, 0.75]])

    Nodes may stay unmatched, and edges may be missing:

    >>> edges = pm.EdgeScores([0, 0, 1], [0, 1, 1], [1.0, 2.0, 0.5])
    >>> result = pm.infer(edges, unmatched_left=0.0, unmatched_right=0.0)
    >>> result.marginals.round(2), result.unmatched_left.round(2)
    (array([0.42, 0.43, 0.36]), array([0.15, 0.64]))

    A node may have several links, here two of the right side:

    >>> pm.infer(edges, unmatched_left=0.0, unmatched_right=0.0, capacity_right=2).marginals
    array([0.24472847, 0.66524096, 0.62245933])
    """
    return find_engine(engine).infer(
        scores,
        unmatched_left=unmatched_left,
        unmatched_right=unmatched_right,
        capacity_left=capacity_left,
        capacity_right=capacity_right,
        n_jobs=n_jobs,
        check=check,
        progress=progress,
    )


def log_partition(
    scores: Scores,
    engine: str | AbstractEngine = "auto",
    *,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    n_jobs: int | None = None,
) -> Any:
    """Return the log of the total weight of all matchings; if perfect, the log-permanent.

    Parameters
    ----------
    scores : array (n, k), stack (b, n, k), sparse array, EdgeScores, or list of these
        Log-weight of each edge; ``-inf``, or no entry, forbids an edge.
    engine : str or engine object
        Name of an engine, or an engine with its own options.
    unmatched_left, unmatched_right : number, array or None, or a list of these
        Score of staying unmatched, of all nodes or of each; ``-inf``: must be matched.
        None: every node must be matched, except that on the larger side of an unequal
        graph it is 0.  For stacks and lists see `infer`.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.

    Returns
    -------
    float or ndarray of shape (b,)
        A float for one graph, an array for several.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> round(pm.log_partition(np.zeros((5, 5))), 6)  # 5! = 120 matchings of weight 1
    4.787492
    """
    return infer(
        scores,
        engine,
        unmatched_left=unmatched_left,
        unmatched_right=unmatched_right,
        n_jobs=n_jobs,
    ).log_partition


def marginals(
    scores: Scores,
    engine: str | AbstractEngine = "auto",
    *,
    unmatched_left: Unmatched = None,
    unmatched_right: Unmatched = None,
    n_jobs: int | None = None,
) -> Any:
    """Return the probability of every edge.

    Parameters
    ----------
    scores : array (n, k), stack (b, n, k), sparse array, EdgeScores, or list of these
        Log-weight of each edge; ``-inf``, or no entry, forbids an edge.
    engine : str or engine object
        Name of an engine, or an engine with its own options.
    unmatched_left, unmatched_right : number, array or None, or a list of these
        Score of staying unmatched, of all nodes or of each; ``-inf``: must be matched.
        None: every node must be matched, except that on the larger side of an unequal
        graph it is 0.  For stacks and lists see `infer`.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.

    Returns
    -------
    array, sparse array or list, in the form of the scores
        Rows and columns sum to one, with the probabilities of staying unmatched.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> pm.marginals(np.zeros((2, 2)))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    chosen = find_engine(engine)
    require_marginals(chosen)
    return chosen.infer(
        scores,
        unmatched_left=unmatched_left,
        unmatched_right=unmatched_right,
        n_jobs=n_jobs,
    ).marginals


def require_marginals(engine: AbstractEngine) -> None:
    """Raise MarginalsUnavailableError for an engine that computes only the log-partition.

    Examples
    --------
    >>> from permatch.inference import Glynn, Ryser
    >>> require_marginals(Glynn())
    >>> require_marginals(Ryser())
    Traceback (most recent call last):
        ...
    permatch.errors.MarginalsUnavailableError: Ryser computes only ...
    """
    if not engine.has_marginals:
        able = [repr(name) for name, kind in ENGINES.items() if kind.has_marginals]
        raise MarginalsUnavailableError(
            f"{type(engine).__name__} computes only the log-partition, and marginals were "
            f"requested. Use one of the engines {', '.join(able)}."
        )
