"""Which detection belongs to which track: the probabilities of JPDA, exact and batched.

    p(event) ~ product over tracks of likelihood[track, what the event says of it],

over all joint events in which no detection belongs to two tracks.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from permatch._parallel import Job
from permatch._validation import check_jobs
from permatch.assignment import best_assignment
from permatch.errors import InfeasibleGraphError, InvalidOptionError, SizeLimitError
from permatch.inference import (
    AbstractEngine,
    AutoEngine,
    Diagnostics,
    InferenceResult,
    find_engine,
    require_marginals,
)
from permatch.inference._limits import is_worth_allowing
from permatch.inference._words import seconds_in_words
from permatch.inference.mixed import choose
from permatch.kernels.frontier_plan import frontier_plan
from permatch.tracking.frames import Frames, read_frames

# Seconds per frame.
_BUDGET = 10.0


@dataclass(frozen=True, eq=False)
class Association:
    """What is known of the association of tracks and detections.

    For a stack or a list of frames every attribute holds all of them.

    Attributes
    ----------
    probabilities : ndarray (tracks, detections + 1), stack or list, as the likelihoods
        Column 0: the track was not detected; column j + 1: detection j belongs to it.  Rows
        sum to 1.
    unassigned : ndarray (detections,), stack or list
        Probability that a detection belongs to no track: clutter, or a new target.
    log_likelihood : float or ndarray (frames,)
        Logarithm of the sum over all joint events of the products of their likelihoods.
    is_exact : bool
        Whether all of it is exact up to rounding.
    bounds : pair like `probabilities`, or None
        Lower and upper ends that hold for certain, where the answer is not exact and such
        are known.
    diagnostics : Diagnostics
        Which engine was used, why, and what it knows of its error.

    Examples
    --------
    >>> from permatch.tracking import infer_association
    >>> found = infer_association([[0.1, 0.6, 0.3], [0.2, 0.8, 0.0]])
    >>> found.probabilities.round(2)
    array([[0.19, 0.23, 0.58],
           [0.38, 0.62, 0.  ]])
    >>> found.unassigned.round(2), found.mode().tolist(), found.is_exact
    (array([0.15, 0.42]), [1, 0], True)
    """

    probabilities: Any
    unassigned: Any
    log_likelihood: Any
    is_exact: bool
    bounds: Any
    diagnostics: Diagnostics
    _frames: Frames = field(repr=False)

    def mode(self) -> Any:
        """Return the most probable joint event: a detection per track, -1 if missed."""
        structure = self._frames.problem.structure
        partners = best_assignment(self._frames.problem).matching
        first = structure.right_starts[structure.graph_of_left]
        return self._frames.per_track(np.where(partners >= 0, partners - first, -1))


def associate(
    likelihood: Any,
    *,
    valid: Any = None,
    log: bool = False,
    engine: str | AbstractEngine = "auto",
    tol: float | None = None,
    budget: float | None = _BUDGET,
    n_jobs: int | None = None,
) -> Any:
    """Return the probability of every association of tracks and detections, as in JPDA.

    What is returned is exact up to rounding, unless you give `tol` or an engine that is
    not: where an exact answer would take longer than `budget`, an error tells what to do.

    Parameters
    ----------
    likelihood : array (tracks, detections + 1), stack (frames, ...), or list of arrays
        Column 0: the likelihood that the track was not detected; column j + 1: that
        detection j belongs to it, over the density of clutter; see Notes.  0: not possible.
        Multiplying a row by a constant changes nothing.
    valid : array of booleans like `likelihood`, optional
        False: not possible, as in a gate, whatever the likelihood.
    log : bool
        Whether `likelihood` holds logarithms; ``-inf``: not possible.
    engine : str or engine object
        "auto", or any engine of permatch, which then answers in its own way.
    tol : float, optional
        Error to accept in the probabilities of groups of tracks that are too large for an
        exact answer; a `RuntimeWarning` reports where it was not reached.  By default none
        is accepted.  Which answers are exact: see `infer_association`.
    budget : float or None
        Seconds per frame; None for no limit.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Returns
    -------
    ndarray or list of ndarray
        Like `likelihood`; every row sums to 1.

    Raises
    ------
    SizeLimitError
        If an exact answer would take too long, and no `tol` was given.
    InfeasibleGraphError
        If no joint event is possible: where column 0 is 0 the track must be detected.

    See Also
    --------
    permatch.tracking.infer_association : With the log-likelihood, the mode and bounds.

    Notes
    -----
    With probability of detection d, of lying in the gate g, and clutter of spatial density
    c, column 0 is ``1 - d * g`` and column j + 1 is ``d * p / c``, where p is the density
    of the predicted measurement at detection j.

    Tracks that share no detection, directly or through others, are solved apart.  The cost
    of a group grows with its width, at most the number of its tracks or of its detections,
    whichever is smaller: well below a millisecond for 10, a second for 20.

    MATLAB's ``jpdaEvents`` has detections in rows, and a column for clutter: with its
    matrix M, `likelihood` is ``np.column_stack([M[0, 1:], (M[1:, 1:] / M[1:, :1]).T])``.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> likelihood = np.array([[0.1, 0.6, 0.3], [0.2, 0.8, 0.0]])
    >>> pm.associate(likelihood).round(3)
    array([[0.192, 0.231, 0.577],
           [0.385, 0.615, 0.   ]])

    A thousand frames in one call:

    >>> pm.associate(np.tile(likelihood, (1000, 1, 1))).shape
    (1000, 2, 3)

    The best joint events, and any other question about a frame:

    >>> with np.errstate(divide="ignore"):
    ...     scores = np.log(likelihood)
    >>> law = pm.MatchingDistribution(
    ...     scores[:, 1:], unmatched_left=scores[:, 0], unmatched_right=0.0
    ... )
    >>> best = law.k_best(2)
    >>> best.matchings.tolist(), np.exp(best.scores - law.log_partition).round(3)
    ([[1, 0], [0, -1]], array([0.462, 0.231]))
    """
    found = infer_association(
        likelihood,
        valid=valid,
        log=log,
        engine=engine,
        tol=tol,
        budget=budget,
        n_jobs=n_jobs,
    )
    return found.probabilities


def infer_association(
    likelihood: Any,
    *,
    valid: Any = None,
    log: bool = False,
    engine: str | AbstractEngine = "auto",
    tol: float | None = None,
    budget: float | None = _BUDGET,
    n_jobs: int | None = None,
) -> Association:
    """Return what `permatch.associate` does, and what is known besides.

    Parameters
    ----------
    likelihood : array (tracks, detections + 1), stack (frames, ...), or list of arrays
        Column 0: the likelihood that the track was not detected.
    valid : array of booleans like `likelihood`, optional
        False: not possible.
    log : bool
        Whether `likelihood` holds logarithms.
    engine : str or engine object
        "auto", or any engine of permatch.
    tol : float, optional
        Error to accept where an exact answer would take too long; by default none.
    budget : float or None
        Seconds per frame; None for no limit.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.

    Returns
    -------
    Association
        Probabilities, log-likelihood, exactness, bounds, the most probable joint event.

    Examples
    --------
    >>> import permatch as pm
    >>> found = pm.tracking.infer_association([[0.5, 0.25], [0.5, 1.0]])
    >>> round(found.log_likelihood, 3)  # 0.5 * 0.5 + 0.25 * 0.5 + 0.5 * 1.0 = 0.875
    -0.134
    """
    solver = _check_engine(engine, tol, budget)
    frames = read_frames(likelihood, valid, bool(log))
    job = Job(check_jobs(n_jobs))
    is_exact_wanted = engine == "auto" and tol is None
    try:
        if is_exact_wanted and isinstance(solver, AutoEngine):
            _check_width(frames, solver)
        answer = solver.infer_problem(frames.problem, job)
    except InfeasibleGraphError:
        raise _no_event(frames) from None
    if is_exact_wanted and not answer.is_exact:
        raise SizeLimitError(
            "likelihoods this flat lose too many digits for an exact answer. Accept an "
            "error: tol=0.01."
        )
    return _told(frames, answer)


def _told(frames: Frames, answer: InferenceResult) -> Association:
    bounds, of_missed = answer.marginal_bounds, answer.unmatched_left_bounds
    if bounds is not None:
        bounds = tuple(map(frames.matrices, bounds, of_missed))
    pairs, missed = answer.marginals, answer.unmatched_left
    if not answer.is_exact:  # estimates of one row come from several places
        left = frames.problem.structure.left
        total = missed + np.bincount(left, pairs, len(missed))
        pairs, missed = pairs / total[left], missed / total
    return Association(
        frames.matrices(pairs, missed),
        frames.per_detection(answer.unmatched_right),
        frames.per_frame(answer.log_partition),
        answer.is_exact,
        bounds,
        answer.diagnostics,
        frames,
    )


def _check_engine(
    engine: str | AbstractEngine, tol: float | None, budget: float | None
) -> AbstractEngine:
    if engine == "auto":
        solver = AutoEngine(budget=budget)
        return solver if tol is None else replace(solver, tol=tol)
    if tol is not None or budget != _BUDGET:
        raise InvalidOptionError(
            f"tol and budget are options of engine='auto'; got engine={engine!r}. Give "
            "them to the engine itself, as in engine=permatch.PathTree(tol=0.01)."
        )
    solver = find_engine(engine)
    require_marginals(solver)
    return solver


def _check_width(frames: Frames, engine: AutoEngine) -> None:
    """Refuse groups of tracks that are too wide for an exact answer."""
    problem = frames.problem
    wide = choose(problem, engine.exact_size, engine.budget).wide
    if not len(wide):
        return
    plan, found = frontier_plan(problem.structure), problem.structure.components
    worst = int(wide[np.argmax(plan.log2_seconds[wide])])
    n, k = (int(sizes[worst]) for sizes in found.sizes)
    frame = int(problem.structure.graph_of_component[worst])
    cost = float(plan.log2_seconds[worst])
    words = seconds_in_words(cost) if math.isfinite(cost) else "years"
    can_wait = is_worth_allowing(cost, float(plan.log2_bytes[worst]))
    limit = "" if engine.budget is None else f" within {engine.budget:g} seconds"
    raise SizeLimitError(
        f"an exact answer{limit} needs smaller groups of tracks that compete for "
        f"detections; {frames.name(frame)} has one of {n} tracks and {k} detections with "
        f"{int(found.n_edges[worst])} possible pairs, which would take {words}. Use a "
        f"smaller gate (valid=), {'raise budget, ' * can_wait}or accept an error: tol=0.01."
    )


def _no_event(frames: Frames) -> InfeasibleGraphError:
    """Return the error to raise if a frame has no joint event."""
    problem = frames.problem
    for g in range(problem.structure.n_graphs):
        own = problem.graph(g)
        try:
            best_assignment(own)
        except InfeasibleGraphError:
            n_sure = int((own.unmatched_left == -np.inf).sum())
            return InfeasibleGraphError(
                "a frame needs a joint event of likelihood above 0; "
                f"{frames.name(g)} has none: {n_sure} of its {len(own.unmatched_left)} "
                "tracks must be detected (column 0 is 0), and there are not enough "
                "detections for all of them. Give column 0 a likelihood, or widen the gate."
            )
    raise AssertionError("every frame has a joint event")
