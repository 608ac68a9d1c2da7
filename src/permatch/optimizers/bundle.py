"""Minimisation of a penalised risk by cutting planes, with a certificate.

    minimise  alpha/2 |x|^2 + risk(x)         risk convex, at least 0, perhaps not smooth

Every evaluation gives a plane that touches the risk from below.  The planes, and the
plane 0, make a lower model of the risk:

    model(x) = max_t <slope_t, x> + offset_t  <=  risk(x)

Its penalised minimum is a quadratic program, solved in its dual over the simplex:

    maximise  <offsets, shares> - |slopes' shares|^2 / (2 alpha)
    over      shares >= 0, sum(shares) = 1

The dual at *any* point of the simplex is at most the minimum, so the gap to the best point
is certified however well the program was solved.

The next point minimises the model with a pull towards the best point,

    alpha/2 |x|^2 + model(x) + pull/2 |x - best|^2

which is the same dual with other offsets.  Without the pull, points oscillate where alpha
is small, and ten times as many planes are needed.  The pull is halved when a step succeeds
and rises a little when it fails; when it leaves too little to gain, it is loosened, and the
dual without it gives the lower bound.

References
----------
C. H. Teo, S. V. N. Vishwanathan, A. Smola and Q. V. Le, "Bundle methods for regularized
risk minimization", Journal of Machine Learning Research 11 (2010).
K. C. Kiwiel, "Proximity control in bundle methods for convex nondifferentiable
minimization", Mathematical Programming 46 (1990).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.optimizers.lbfgs import BaseOptimum, History
from permatch.optimizers.planes import Planes

RiskAndSubgradient = Callable[[FloatArray], tuple[float, FloatArray]]

# Accuracy of the master, as a fraction of the gap, and of the objective near its end.
_MASTER_SHARE, _MASTER_TOL = 3e-2, 1e-11
# A step goes well when it gains this fraction of what the model promised.
_GOOD_STEP = 0.5
# The pull is too strong when the model promises less than this fraction of the gap.
_FAIR_PROMISE = 0.6
# A step that fails brings a plane, which the next one profits from, so it takes little.
_FIRMER = 1.2
_LOWEST_PULL = 1e-3  # times alpha; as good as none


@dataclass(frozen=True, eq=False, kw_only=True)
class BundleOptimum(BaseOptimum):
    """The minimum of a penalised risk, converged if the gap is at most the tolerance.

    The history has ``iteration``, ``loss`` (the best so far), ``lower_bound``, ``gap``,
    ``evaluations`` and ``seconds``.
    """

    lower_bound: float  # on the penalised risk of any point
    gap: float  # (value - lower_bound) / value, 0 if the value is 0


def minimize_bundle(
    risk_and_subgradient: RiskAndSubgradient,
    n_features: int,
    *,
    alpha: float,
    tol: float | Callable[[int], float] = 1e-3,
    max_iter: int = 1000,
    start: FloatArray | None = None,
    planes: Planes | None = None,
    on_iteration: Callable[[dict[str, float]], None] | None = None,
) -> BundleOptimum:
    """Minimise a convex risk plus a quadratic penalty to a given duality gap.

    `risk_and_subgradient` takes a point (d,) and returns the risk, which must be convex and
    non-negative, and a subgradient (d,); `alpha`, above 0, is the strength of the penalty.
    `tol` is the gap between the value and its lower bound to reach, as a fraction of the
    value, or a function to it from the number of rounds made; below 1e-8 it may not be
    reached.  Zero is always tried, besides `start`.  `planes` are those that
    another minimisation of the same risk has left; they are added to, so that a next one
    may begin with them.

    Returns the best point seen, converged or not, also after Ctrl-C.  A round costs one or
    two quadratic programs in as many variables as there are planes, usually fewer than 200,
    and one evaluation.

    Examples
    --------
    The median minimises the mean absolute deviation.

    >>> import numpy as np
    >>> sample = np.array([1.0, 2.0, 7.0])
    >>> def deviation(x):
    ...     return np.abs(x - sample).mean(), np.sign(x - sample).mean(keepdims=True)
    >>> optimum = minimize_bundle(deviation, 1, alpha=1e-6)
    >>> optimum.coef.round(2), optimum.is_converged
    (array([2.]), True)
    """
    planes = Planes(n_features) if planes is None else planes
    tol_after = tol if callable(tol) else lambda n_rounds: tol
    run = _Run(risk_and_subgradient, planes, alpha, on_iteration)
    is_interrupted = False
    message = f"max_iter={max_iter} was reached"
    try:
        run.begin(start)
        while run.gap > tol_after(run.n_iter) and run.n_iter < max_iter:
            if run.failure:
                break
            run.step(tol_after(run.n_iter))
    except KeyboardInterrupt:
        is_interrupted = True
        message = "interrupted"
        run.end_with_best()
    reached = tol_after(run.n_iter)
    is_converged = run.gap <= reached
    if is_converged:
        message = f"the duality gap is at most {reached:g} of the objective"
    elif run.failure:
        message = run.failure
    return BundleOptimum(
        coef=run.best,
        value=run.value,
        lower_bound=run.lower_bound,
        gap=run.gap,
        n_iter=run.n_iter,
        n_evaluations=run.n_evaluations,
        is_converged=is_converged,
        is_interrupted=is_interrupted,
        message=message,
        history=run.history.rows,
    )


class _Run:
    """The state of one minimisation: the planes, the best point and what bounds it."""

    def __init__(
        self,
        risk_and_subgradient: RiskAndSubgradient,
        planes: Planes,
        alpha: float,
        on_iteration: Callable[[dict[str, float]], None] | None,
    ) -> None:
        self.alpha = alpha
        self.best = np.zeros(planes.slopes.shape[1])
        self.value = np.inf
        self.lower_bound = 0.0
        self.n_iter = self.n_evaluations = 0
        self.failure = ""
        self.history = History(on_iteration)
        self._planes = planes
        self._pull = 0.0
        self._risk_and_subgradient = risk_and_subgradient

    @property
    def gap(self) -> float:
        """The distance between value and lower bound, as a fraction of the value."""
        if self.value == np.inf:
            return np.inf
        # Rounding may put the bound a hair above the value.
        return max(0.0, self.value - self.lower_bound) / self.value if self.value else 0.0

    def begin(self, start: FloatArray | None) -> None:
        """Evaluate `start`, if given, and zero."""
        origin = np.zeros_like(self.best)
        if start is not None and np.any(start):
            self.best = np.array(start, dtype=np.float64)
            self._evaluate(self.best)
        risk = self._evaluate(origin)
        # With this pull the first plane takes the first step to where it reaches 0.
        slope = self._planes.slopes[-1]
        self._pull = float(slope @ slope) / risk if risk else 0.0
        self._note()

    def step(self, tol: float) -> None:
        """Make one round: a master problem, then an evaluation where it points to."""
        self.n_iter += 1
        had = self.value, self.lower_bound
        point = self._master(self._pull)
        if point is not None and self.gap > tol:
            promise = self.value - self._penalised(self._planes.model(point), point)
            if promise < _FAIR_PROMISE * (self.value - self.lower_bound):
                self._pull /= 3.0
                self._master(0.0)
            if self.gap > tol and not self.failure:
                before = self.value
                value = self._evaluate(point)
                if value < before - _GOOD_STEP * promise:
                    self._pull /= 2.0
                elif value >= before:
                    self._pull *= _FIRMER
                self._pull = max(self._pull, _LOWEST_PULL * self.alpha)
        if (self.value, self.lower_bound) != had:  # else it might go round in circles
            self._planes.end_round()
        self._note()

    def end_with_best(self) -> None:
        """End the history of an interrupted run with what it has reached."""
        reached = self.value, self.lower_bound
        rows = self.history.rows
        if rows and (rows[-1]["loss"], rows[-1]["lower_bound"]) != reached:
            self._note()

    def _master(self, pull: float) -> FloatArray | None:
        """Return the point that minimises the model; its dual may raise the lower bound."""
        planes, strength = self._planes, self.alpha + pull
        offsets = planes.offsets + (pull / strength) * (planes.slopes @ self.best)
        # In units of the objective tolerances mean the same at every scale.
        shares = planes.share(
            strength * self.value,
            offsets / self.value,
            max(_MASTER_SHARE * self.gap, _MASTER_TOL),
            is_pulled=pull > 0.0,
        )
        if shares is None:
            self.failure = "the quadratic program solver failed"
            return None
        slope = shares @ planes.slopes
        dual = float(shares @ planes.offsets - slope @ slope / (2.0 * self.alpha))
        self.lower_bound = max(self.lower_bound, dual)
        return (pull * self.best - slope) / strength

    def _evaluate(self, point: FloatArray) -> float:
        risk, slope = self._risk_and_subgradient(point)
        with np.errstate(over="ignore"):  # caught at once
            square = slope @ slope
        if not (np.isfinite(risk) and np.isfinite(square)):
            remedy = ", or raise alpha" if point.any() else ""
            raise PrecisionError(
                "the risk and its squared subgradient must be finite; at a point of norm "
                f"{np.linalg.norm(point):.3g} they are not. Divide the features by "
                f"a large number{remedy}."
            )
        self.n_evaluations += 1
        self._planes.add(slope, float(risk - slope @ point))
        value = self._penalised(risk, point)
        if value < self.value:
            self.value, self.best = value, point
        return value

    def _penalised(self, risk: float, point: FloatArray) -> float:
        return float(risk + 0.5 * self.alpha * (point @ point))

    def _note(self) -> None:
        self.history.add(
            iteration=self.n_iter,
            loss=self.value,
            lower_bound=self.lower_bound,
            gap=self.gap,
            evaluations=self.n_evaluations,
        )
