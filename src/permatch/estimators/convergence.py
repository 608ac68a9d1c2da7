"""Progress of a fit towards its tolerance, and warnings if it was not reached."""

import math
import sys
import warnings
from collections.abc import Callable

from sklearn.exceptions import ConvergenceWarning

from permatch.optimizers import BundleOptimum, Optimum


class GradientPercent:
    """Progress of the logarithm of the gradient norm towards `tol`."""

    def __init__(self, tol: float, show: Callable[[int], None]) -> None:
        self.tol = tol
        self.show = show
        self.first = 0.0
        self.farthest = 0

    def __call__(self, row: dict[str, float]) -> None:
        """Take note of an iteration."""
        left = math.log(max(row["grad_norm"] / self.tol, 1.0))
        self.first = max(self.first, left)
        percent = 100 if left == 0.0 else int(100 * (1.0 - left / self.first))
        self.farthest = max(self.farthest, percent)
        self.show(self.farthest)


class GapPercent:
    """Progress of the logarithm of the gap from 1 towards `tol`."""

    def __init__(self, tol: float, show: Callable[[int], None]) -> None:
        self.tol = tol
        self.show = show

    def __call__(self, row: dict[str, float]) -> None:
        """Take note of a round."""
        is_done = row["gap"] <= self.tol
        self.show(100 if is_done else int(100 * math.log(row["gap"]) / math.log(self.tol)))


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called the package."""
    frame, level = sys._getframe(1), 2
    # Methods with a context around them are called by way of contextlib.
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        ("permatch.", "contextlib")
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_unless_converged(optimum: Optimum | BundleOptimum, name: str, tol: float) -> None:
    """Warn the caller of `fit` that it ended early."""
    if isinstance(optimum, BundleOptimum):
        steps, measure, got = "rounds", "duality gap", f"{optimum.gap:.2g} of the objective"
    else:
        steps, measure, got = "iterations", "gradient norm", f"{optimum.grad_norm:.2g}"
    if optimum.is_interrupted:
        message = (
            f"the fit of {name} was interrupted after {optimum.n_iter} {steps}; the best "
            f"coefficients so far are kept, with a {measure} of {got}. Fit again to "
            "improve them."
        )
    elif isinstance(optimum, Optimum) and optimum.has_no_end:
        message = (
            f"the fit of {name} has no best coefficients: the data are separable, so "
            "without a penalty larger coefficients always fit better. It stopped where the "
            f"gradient norm fell below tol={tol:g}; the size of the coefficients, and "
            "probabilities near 0 and 1, mean nothing. Use alpha above 0."
        )
    elif not optimum.is_converged:
        message = (
            f"the fit of {name} did not converge: {optimum.message}, and the {measure} is "
            f"{got}, above tol={tol:g}. The best coefficients so far are kept. Raise "
            "max_iter, alpha or tol."
        )
    else:
        return
    warn_caller(message, ConvergenceWarning)
