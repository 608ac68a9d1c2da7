"""Choose alpha by evidence: the probability of the data, weights integrated out.

No data are held out.  The evidence, by Laplace's approximation, has one maximum as a rule:
alphas are tried from strong to weak, a decade apart, until it falls, each fit starting
where the last one ended; parabolas through the best three points then find the maximum.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from permatch._progress import progress_bar
from permatch._types import FloatArray
from permatch.errors import InvalidOptionError
from permatch.estimators.alpha_search import AlphaPath, Tried
from permatch.estimators.convergence import warn_caller
from permatch.estimators.uncertainty.inferring import log_evidence

# Powers of ten of n times alpha, the precision of the prior of a scaled weight.
_DECADES = np.arange(4.0, -4.0, -1.0)
# Steps of refinement, and decades that do not matter.
_MOST_STEPS, _CLOSE = 5, 0.02
# Falls after which the maximum is behind.
_FALLS = 2


class EvidenceFit:
    """Fits of one problem at any alpha, with the evidence of each."""

    def __init__(self, problem: Any, nobs: float, options: dict[str, Any]) -> None:
        self.problem, self.nobs, self.options = problem, nobs, options
        self.tried: dict[float, Tried] = {}  # by decade
        self.last: Any = None

    def alpha(self, decade: float) -> float:
        """Return the alpha of a power of ten."""
        return float(10.0**decade / self.nobs)

    def try_at(self, decade: float) -> float:
        """Fit, starting where the last fit ended, and return the evidence."""
        start = None if self.last is None else self.problem.start_after(self.last)
        alpha = self.alpha(decade)
        optimum = self.problem.settle(alpha, start, **self.options)
        if self.last is None or not optimum.is_interrupted:
            self.last = optimum
        if optimum.is_interrupted:
            raise KeyboardInterrupt
        found = self.problem.derivatives(alpha, optimum.coef)
        if not found.is_exact:
            raise InvalidOptionError(
                "alphas='evidence' needs exact inference; second derivatives are "
                f"{found.method}. Give alphas to try, or use an exact engine (with "
                "engine='auto', budget=None)."
            )
        score = log_evidence(found, self.nobs)
        self.tried[decade] = Tried(score, self.problem.coef(optimum), optimum)
        return score

    @property
    def best(self) -> float:
        """The decade with the largest evidence."""
        return max(self.tried, key=lambda decade: self.tried[decade].score)

    def path(self, *, is_interrupted: bool) -> AlphaPath:
        """Return what was tried, from strong to weak."""
        decades = sorted(self.tried, reverse=True)
        return AlphaPath(
            [self.alpha(decade) for decade in decades],
            [[self.tried[decade]] for decade in decades],
            is_interrupted,
        )


def maximise_evidence(fit: EvidenceFit, show: Callable[[int], None] | None) -> bool:
    """Try alphas until the evidence is largest; return whether Ctrl-C ended it."""
    try:
        n_falls, highest = 0, -np.inf
        for decade in _DECADES:
            score = fit.try_at(float(decade))
            _tell(fit, show)
            n_falls = n_falls + 1 if score < highest else 0
            highest = max(highest, score)
            if n_falls == _FALLS:
                break
        for _ in range(_MOST_STEPS):
            decade = _vertex(fit.tried, fit.best)
            if decade is None or min(abs(decade - own) for own in fit.tried) < _CLOSE:
                break
            fit.try_at(decade)
            _tell(fit, show)
    except KeyboardInterrupt:
        if fit.last is None:
            raise  # there is nothing to keep yet
        return True
    return False


def search_by_evidence(
    model: Any, problem: Any, nobs: float, fitted: dict[str, Any]
) -> Any:
    """Choose alpha by evidence and set the attributes of the fitted model.

    `fitted` are attributes besides those of every search.
    """
    if getattr(model, "bounds", None) is not None:
        raise InvalidOptionError(
            "alphas='evidence' needs coefficients without bounds, as it integrates over "
            f"all; got bounds={model.bounds!r}. Give alphas to try, or drop the bounds."
        )
    options = model._solver_options()
    fit, title = EvidenceFit(problem, nobs, options), type(model).__name__
    n_most = len(_DECADES) + _MOST_STEPS
    with progress_bar(title, n_most, 0.0, bool(model.verbose)) as show:
        is_interrupted = maximise_evidence(fit, show)
        if show is not None:
            show(n_most)
    vars(model).update(fitted)
    path = fit.path(is_interrupted=is_interrupted)
    model.cv_results_ = path.results(1)
    model.coef_path_ = np.array([[row[0].coef] for row in path.rows])
    if not path.rows:  # interrupted within the first alpha
        model.alpha_, model.best_score_ = fit.alpha(float(_DECADES[0])), np.nan
        model._adopt(problem, fit.last)
    else:
        best = fit.tried[fit.best]
        model.alpha_, model.best_score_ = fit.alpha(fit.best), best.score
        model._adopt(problem, best.optimum)
        model.log_evidence_ = best.score
    if is_interrupted:
        model.is_converged_ = False
        warn_caller(
            f"the fit of {title} was interrupted after {len(path.rows)} alphas; the best "
            "of these is kept. Fit again to try others.",
            ConvergenceWarning,
        )
        return model
    model._warn_of_path(path, 1)
    model._conclude(problem, fit.tried[fit.best].optimum)
    model._warn(fit.tried[fit.best].optimum)
    return model


def _vertex(tried: dict[float, Tried], best: float) -> float | None:
    """Return the top of the parabola through the best point and its neighbours."""
    below = [decade for decade in tried if decade < best]
    above = [decade for decade in tried if decade > best]
    if not below or not above:
        return None
    points = np.array([max(below), best, min(above)])
    values: FloatArray = np.array([tried[float(point)].score for point in points])
    curvature, slope, _ = np.polyfit(points - best, values, 2)
    if not curvature < 0.0:
        return None
    return float(np.clip(best - slope / (2.0 * curvature), points[0], points[2]))


def _tell(fit: EvidenceFit, show: Callable[[int], None] | None) -> None:
    if show is not None:
        show(len(fit.tried))
