"""Minima of a penalised loss for one penalty after the other, by Newton's method.

    minimise  loss(x) + 1/2 <penalty, (x - centre)^2>

The loss is convex, and the penalty is alpha or 0 for every coordinate.

The penalty is known, so only gradient and curvature of the loss are learned, and they are
taken along from one alpha to the next: the first step needs no evaluation.  Where second
derivatives cost more than evaluations, they are computed at the first point only, and
corrected by what every step shows of them (BFGS), until new ones pay:

    rate = length of this step / length of the last         lengths as shares of |x|

Steps shrink by about this factor, so ``log(tol / length) / log(rate)`` more evaluations
would do; if that is more than new second derivatives cost, they are computed.  What a step
leaves is about ``rate * length``: when this is at most `tol` it is taken, and the minimum
is found, without another evaluation.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch.optimizers.lbfgs import History, Optimum
from permatch.optimizers.newton import cholesky_solve

#: From a point to the loss, its gradient, and its second derivatives where these come with
#: little more work.
Evaluate = Callable[[FloatArray], tuple[float, FloatArray, FloatArray | None]]

# A step goes too far where the function rises beyond it by more than this share of how
# steeply it fell at the start.
_OVERSHOOT = 0.5
_MOST_TRIALS = 20
# Rates are not taken for better or worse than these.
_RATES = 1e-3, 0.99
# Steps by old second derivatives seldom shrink faster for long.
_OLD_RATE = 0.2
# Curvature along a step, as a share of what both lengths allow, below which it is rounding.
_NO_CURVATURE = 1e-8


class NewtonPath:
    """The minima for falling penalties, beginning at the centre.

    Parameters
    ----------
    evaluate : callable
        See `Evaluate`.
    hessian : callable
        From a point to second derivatives of the loss, possibly approximate.
    is_penalised : ndarray of shape (d,)
        Where the penalty is `alpha`; elsewhere it is 0.
    cost : float
        What `hessian` costs, in evaluations.
    tol : float
        Distance to a minimum, by estimate, as a share of its length.
    max_iter : int
        Most evaluations per minimum.
    centre : ndarray of shape (d,), optional
        Where the penalty draws to; default: 0.
    bounds : pair of ndarrays of shape (d,), optional
        Lowest and highest value of every coordinate; may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> goal = np.array([1.0, -2.0])
    >>> path = NewtonPath(
    ...     lambda x: (0.5 * np.sum((x - goal) ** 2), x - goal, np.eye(2)),
    ...     lambda x: np.eye(2),
    ...     np.ones(2, dtype=bool),
    ...     cost=0.0,
    ...     tol=1e-6,
    ...     max_iter=10,
    ... )
    >>> [path.advance(alpha).coef.round(6).tolist() for alpha in (1.0, 0.0)]
    [[0.5, -1.0], [1.0, -2.0]]
    """

    def __init__(
        self,
        evaluate: Evaluate,
        hessian: Callable[[FloatArray], FloatArray],
        is_penalised: BoolArray,
        *,
        cost: float,
        tol: float,
        max_iter: int,
        centre: FloatArray | None = None,
        bounds: tuple[FloatArray, FloatArray] | None = None,
    ) -> None:
        self._bounds = bounds
        self._centre = np.zeros(len(is_penalised)) if centre is None else centre
        self.coef = self._clip(self._centre)
        # Second derivatives of the loss, about: at the first point, and where it is now.
        self._at_first: FloatArray | None = None
        self._curvature = np.zeros((0, 0))
        self._evaluate, self._hessian = evaluate, hessian
        self._is_penalised = np.asarray(is_penalised, dtype=np.float64)
        self._cost, self._tol, self._max_iter = cost, tol, max_iter
        self._is_fresh = False  # whether the curvature is that at the last point evaluated
        self._grad: Any = None  # that of the loss, once anything is known
        self._n_evaluations = self._n_steps = 0

    def advance(self, alpha: float) -> Optimum:
        """Return the minimum at the next alpha, also after Ctrl-C, then not converged.

        The last entry of its history is the last point evaluated.
        """
        history, n_before, self._n_steps = History(None), self._n_evaluations, 0
        penalty = alpha * self._is_penalised
        is_converged = is_interrupted = False
        try:
            if self._grad is None:
                self._begin()
                self._note(history, penalty)
            is_converged = self._descend(penalty, history)
        except KeyboardInterrupt:
            is_interrupted = True
        last = history.rows[-1] if history.rows else {"loss": np.nan, "grad_norm": np.inf}
        message = f"max_iter={self._max_iter} was reached"
        if is_converged or is_interrupted:
            message = "interrupted" if is_interrupted else "the next step would be short"
        return Optimum(
            coef=self.coef,
            value=last["loss"],
            grad_norm=last["grad_norm"],
            n_iter=self._n_steps,
            n_evaluations=self._n_evaluations - n_before,
            is_converged=is_converged,
            is_interrupted=is_interrupted,
            message=message,
            history=history.rows,
        )

    def follow(self, leader: "NewtonPath") -> None:
        """Begin with the curvature that a similar function has where it begins."""
        self._at_first = leader._at_first

    def _begin(self) -> None:
        """Look at the first point."""
        found = self._look(self.coef)
        if self._at_first is None:
            self._at_first = self._hessian(self.coef) if found[2] is None else found[2]
        self._curvature, self._is_fresh = self._at_first, True
        self._value, self._grad = found[:2]

    def _descend(self, penalty: FloatArray, history: History) -> bool:
        """Take steps until the minimum is near; return whether it is."""
        before = 0.0
        while True:
            step, length = self._step(penalty)
            if length == 0.0:
                return True
            rate = length / before if before else 1.0
            left = length * (rate if self._is_fresh else max(rate, _OLD_RATE))
            if left <= self._tol and rate <= 1.0:
                self._grad = self._grad + self._curvature @ step
                self.coef, self._is_fresh = self.coef + step, False
                return True
            if before and self._pays(rate, length):
                self._take(self._hessian(self.coef))
                step, length = self._step(penalty)
            if self._n_steps == self._max_iter or not self._search(step, penalty):
                return False
            before = length
            self._n_steps += 1
            self._note(history, penalty)

    def _step(self, penalty: FloatArray) -> tuple[FloatArray, float]:
        """Return Newton's step, and its length as a share of that of where it leads."""
        coef, grad = self.coef, self._slope(self.coef, self._grad, penalty)
        matrix = self._curvature + np.diag(penalty)
        if self._bounds is None:
            step = -cholesky_solve(matrix, grad)
        else:
            low, high = self._bounds
            is_free = ((coef > low) | (grad < 0.0)) & ((coef < high) | (grad > 0.0))
            step = np.zeros(len(coef))
            own = matrix[np.ix_(is_free, is_free)]
            step[is_free] = -cholesky_solve(own, grad[is_free])
            step = self._clip(coef + step) - coef
        length = float(np.linalg.norm(step))
        return step, length and length / float(np.linalg.norm(coef + step) or length)

    def _pays(self, rate: float, length: float) -> bool:
        """Return whether new second derivatives save evaluations."""
        if self._is_fresh:
            return False
        rate = min(max(rate, _RATES[0]), _RATES[1])
        return math.log(self._tol / length) / math.log(rate) - 1.0 > self._cost

    def _search(self, step: FloatArray, penalty: FloatArray) -> bool:
        """Go along a step, not too far; return False if nothing was found."""
        begin = self.coef
        fall = -float(step @ self._slope(begin, self._grad, penalty))
        if not 0.0 < fall < np.inf:
            return False
        share = 1.0
        for _ in range(_MOST_TRIALS):
            point = begin + share * step
            found = self._look(point)
            rise = float(step @ self._slope(point, found[1], penalty))
            if rise <= _OVERSHOOT * fall:
                self._keep(point, found)
                return True
            share *= max(0.1, fall / (fall + rise)) if rise < np.inf else 0.1
        return False

    def _look(self, coef: FloatArray) -> tuple[float, FloatArray, FloatArray | None]:
        self._n_evaluations += 1
        return self._evaluate(coef)

    def _keep(
        self, coef: FloatArray, found: tuple[float, FloatArray, FloatArray | None]
    ) -> None:
        """Go to an evaluated point; remember what it shows of the curvature."""
        self._value, grad, hessian = found
        if hessian is None:
            self._correct(coef - self.coef, grad - self._grad)
        else:
            self._take(hessian)
        self.coef, self._grad = coef, grad

    def _take(self, hessian: FloatArray) -> None:
        self._curvature, self._is_fresh = hessian, True

    def _correct(self, step: FloatArray, change: FloatArray) -> None:
        """Have the curvature explain how the gradient changed along a step."""
        self._is_fresh = False
        curved = float(step @ change)
        most = float(np.linalg.norm(step) * np.linalg.norm(change))
        if not curved > _NO_CURVATURE * most:
            return
        expected = self._curvature @ step
        along = float(step @ expected)
        if along > 0.0:
            removed = np.outer(expected, expected) / along
            self._curvature = self._curvature + np.outer(change, change) / curved - removed

    def _slope(self, coef: FloatArray, grad: FloatArray, penalty: FloatArray) -> FloatArray:
        """Return the gradient with that of the penalty."""
        return grad + penalty * (coef - self._centre)

    def _clip(self, coef: FloatArray) -> FloatArray:
        return coef if self._bounds is None else np.clip(coef, *self._bounds)

    def _note(self, history: History, penalty: FloatArray) -> None:
        grad = self._slope(self.coef, self._grad, penalty)
        projected = self.coef - self._clip(self.coef - grad) if self._bounds else grad
        history.add(
            iteration=self._n_steps,
            loss=self._value + 0.5 * float(penalty @ (self.coef - self._centre) ** 2),
            grad_norm=float(np.max(np.abs(projected), initial=0.0)),
            evaluations=self._n_evaluations,
        )
