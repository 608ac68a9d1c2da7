"""What a fit shows on its way to the tolerance, and says when it has not got there."""

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from permatch.errors import InvalidOptionError
from permatch.estimators.base import check_number
from permatch.optimizers import BundleOptimum, Optimum


class GradientPercent:
    """Shows how far the logarithm of the gradient norm has come on its way to `tol`."""

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
    """Shows how far the logarithm of the gap has come on its way from 1 to `tol`."""

    def __init__(self, tol: float, show: Callable[[int], None]) -> None:
        self.tol = tol
        self.show = show

    def __call__(self, row: dict[str, float]) -> None:
        """Take note of a round."""
        is_done = row["gap"] <= self.tol
        self.show(100 if is_done else int(100 * math.log(row["gap"]) / math.log(self.tol)))


def warn_unless_converged(
    optimum: Optimum | BundleOptimum, name: str, tol: float, stacklevel: int = 3
) -> None:
    """Warn, on behalf of the caller of `fit`, that it ended early and what was kept."""
    if isinstance(optimum, BundleOptimum):
        steps, measure, got = "rounds", "duality gap", f"{optimum.gap:.2g} of the objective"
    else:
        steps, measure, got = "iterations", "gradient norm", f"{optimum.grad_norm:.2g}"
    if optimum.is_interrupted:
        message = (
            f"the fit of {name} was interrupted after {optimum.n_iter} {steps}; the best "
            f"coefficients so far are kept, with a {measure} of {got}. Fit again for "
            "better ones."
        )
    elif not optimum.is_converged:
        message = (
            f"the fit of {name} has not converged: {optimum.message}, and the {measure} is "
            f"{got}, above tol={tol:g}. The best coefficients so far are kept. Raise "
            "max_iter, alpha or tol."
        )
    else:
        return
    warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)


def check_alphas(alphas: Any) -> list[float]:
    """Return the alphas to try from strong to weak, each once."""
    if isinstance(alphas, str) or not isinstance(alphas, Iterable):
        raise InvalidOptionError(f"alphas must be a sequence of numbers; got {alphas!r}.")
    checked = {check_number(alpha, "every one of alphas") for alpha in alphas}
    if not checked:
        raise InvalidOptionError("alphas must hold at least one number; got none.")
    return sorted(checked, reverse=True)


def warn_of_path(
    n_open: int, n_fits: int, alphas: list[float], chosen: float, name: str
) -> None:
    """Warn, on behalf of the caller of `fit`, of a path that is not to be relied on.

    `n_open` of its `n_fits` fits have not converged; `alphas` go from strong to weak.
    """
    if n_open:
        warnings.warn(
            f"{n_open} of the {n_fits} fits on the path of {name} have not converged; "
            "their scores are those of the best coefficients seen. Raise max_iter or tol, "
            "or drop the smallest alphas.",
            ConvergenceWarning,
            stacklevel=3,
        )
    largest, smallest = alphas[0], alphas[-1]
    if chosen in (largest, smallest) and largest > smallest:
        most, more = ("largest", "larger") if chosen == largest else ("smallest", "smaller")
        warnings.warn(
            f"the alpha chosen, {chosen:g}, is the {most} one tried; a better one may lie "
            f"beyond. Add {more} values to alphas.",
            stacklevel=3,
        )
