"""One search over alpha for all estimators: from strong to weak, on every split at once.

Each fit starts where the last alpha's ended, and ends as soon as it can be told apart from
its neighbours (see `paths`); splits are fitted side by side.  Ties go to the largest alpha.
The model is then fitted to the full tolerance: to all training data, starting from the mean
coefficients of the splits, or where a validation set, which never trains, has chosen, from
those of the path.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from permatch._parallel import run_tasks
from permatch._progress import progress_bar
from permatch._shards import showing
from permatch._types import FloatArray
from permatch._validation import check_jobs
from permatch.errors import InvalidOptionError
from permatch.estimators.base import LinearModel
from permatch.estimators.checks import check_number
from permatch.estimators.convergence import warn_caller
from permatch.estimators.problem import LinearProblem
from permatch.optimizers import BaseOptimum

# Mean scores closer than this are tied; they differ by the order of a sum.
_TIE = 1e-12

#: From coefficients to a score on held-out data.
Judge = Callable[[FloatArray], float]


@dataclass(frozen=True, eq=False)
class Tried:
    """One alpha on one split."""

    score: float
    coef: FloatArray
    optimum: BaseOptimum


class Fold:
    """One split: a problem to solve, a judge of its solutions, and the last of these."""

    def __init__(
        self, problem: LinearProblem, judge: Judge, options: dict[str, Any]
    ) -> None:
        self.problem = problem
        self.path = problem.path(options)
        self.last: Any = None
        self._judge = judge
        self._options = options

    def advance(self, alpha: float) -> Tried:
        """Fit at the next alpha.

        Raises KeyboardInterrupt if the fit was interrupted.
        """
        if alpha > 0.0:
            optimum = self.path.advance(alpha)
        else:  # which may have no optimum
            start = None if self.last is None else self.problem.start_after(self.last)
            optimum = self.problem.settle(alpha, start, **self._options)
        self.last = optimum
        if optimum.is_interrupted:
            raise KeyboardInterrupt
        coef = self.problem.coef(optimum)
        score = self._judge(coef)
        if np.isnan(score):
            raise InvalidOptionError(
                f"scoring must return a number; got NaN at alpha={alpha:g}."
            )
        return Tried(float(score), coef, optimum)


@dataclass(frozen=True, eq=False)
class AlphaPath:
    """The results: one row per alpha that all splits have tried, from strong to weak."""

    alphas: list[float]
    rows: list[list[Tried]]
    is_interrupted: bool

    @property
    def n_open(self) -> int:
        """Number of fits that did not converge."""
        return sum(not tried.optimum.is_converged for row in self.rows for tried in row)

    def results(self, n_splits: int) -> dict[str, Any]:
        """Return the results as a table, by alpha and split."""
        shape = (len(self.rows), n_splits)
        scores = np.array([[tried.score for tried in row] for row in self.rows])
        scores = scores.reshape(shape)
        counts = [[tried.optimum.n_evaluations for tried in row] for row in self.rows]
        return {
            "alphas": np.array(self.alphas[: len(self.rows)]),
            "scores": scores,
            "mean_score": scores.mean(axis=1),
            "std_score": scores.std(axis=1),
            "n_evaluations": np.array(counts, dtype=np.intp).reshape(shape),
        }


def walk(
    folds: Sequence[Fold],
    alphas: list[float],
    n_threads: int = 1,
    show: Callable[[int], None] | None = None,
) -> AlphaPath:
    """Try the alphas in turn on all folds; after Ctrl-C, return complete rows."""
    first, *others = folds
    rows: list[list[Tried]] = []
    try:
        for alpha in alphas:
            n_done, row = len(rows) * len(folds), []
            if not rows:  # the first one leads
                row = _advance([first], alpha, 1, n_done, show)
                for fold in others:
                    fold.path.follow(first.path)
            rest = folds[len(row) :]
            rows.append(row + _advance(rest, alpha, n_threads, n_done + len(row), show))
    except KeyboardInterrupt:
        if first.last is None:
            raise  # there is nothing to keep yet
        return AlphaPath(alphas, rows, is_interrupted=True)
    return AlphaPath(alphas, rows, is_interrupted=False)


def _advance(
    folds: Sequence[Fold],
    alpha: float,
    n_threads: int,
    n_done: int,
    show: Callable[[int], None] | None,
) -> list[Tried]:
    """Fit folds side by side; show how many of all fits are done."""
    row: list[Any] = [None] * len(folds)

    def task(k: int) -> None:
        row[k] = folds[k].advance(alpha)

    on_progress = None if show is None else lambda n: show(n_done + n)
    run_tasks(task, len(folds), n_threads, on_progress)
    return row


@dataclass(eq=False, repr=False, kw_only=True)
class AlphaSearch(LinearModel):
    """Choose alpha, then fit with it.

    Subclasses are linear models with these parameters instead of `alpha` and `warm_start`.
    """

    alpha: float = field(default=np.nan, init=False)
    warm_start: bool = field(default=False, init=False)
    alphas: Any = None
    cv: Any = 5
    scoring: Any = None
    random_state: Any = 0
    verbose: bool = False
    alpha_: float = field(init=False)
    best_score_: float = field(init=False)
    cv_results_: dict[str, Any] = field(init=False)
    coef_path_: FloatArray = field(init=False)

    #: Whether there is a likelihood, so that alpha can be chosen by evidence.
    _has_evidence: ClassVar[bool] = False

    def _is_by_evidence(self, validation: Any) -> bool:
        """Return whether alpha is chosen by evidence, without data held out."""
        is_asked = self._has_evidence and isinstance(self.alphas, str)
        if not is_asked or self.alphas != "evidence":
            return False
        if validation is not None:
            raise InvalidOptionError(
                "alphas='evidence' takes no validation set, as it holds no data out; got "
                "one. Drop it, or give alphas to try."
            )
        return True

    def _check_alphas(self) -> list[float]:
        """Return the alphas to try from strong to weak, each once."""
        alphas = self._default_alphas() if self.alphas is None else self.alphas
        if isinstance(alphas, str) or not isinstance(alphas, Iterable):
            or_evidence = ", or 'evidence'" if self._has_evidence else ""
            raise InvalidOptionError(
                f"alphas must be a sequence of numbers{or_evidence}; got {alphas!r}."
            )
        checked = {check_number(alpha, "every alpha") for alpha in alphas}
        if not checked:
            raise InvalidOptionError("alphas must have at least one number; got none.")
        if 0.0 in checked and not self._is_zero_allowed:
            raise InvalidOptionError("every alpha must be above 0; got 0.")
        return sorted(checked, reverse=True)

    def _default_alphas(self) -> Any:
        """Return the alphas tried if none are given."""
        return None

    def _search(
        self,
        data: Any,
        splits: list[tuple[Any, Any]],
        judge_on: Callable[[Any], Judge],
        *,
        fitted: dict[str, Any],
        is_held: bool,
        is_refitted: bool,
        is_more_better: bool = True,
    ) -> Self:
        """Choose alpha on the splits and fit with it.

        `splits` are pairs of data to train on and data held out, from which `judge_on`
        makes a judge of coefficients.  Those that are held in memory are fitted side by
        side.  At the end the model is fitted to all `data`, or to those of the only split.
        `fitted` are attributes of the fitted model.
        """
        n_jobs = check_jobs(self.n_jobs)
        alphas, options = self._check_alphas(), self._solver_options()
        n_threads = min(n_jobs, len(splits)) if is_held else 1
        folds = [
            Fold(self._problem(train, n_jobs // n_threads), judge_on(held_out), options)
            for train, held_out in splits
        ]
        title = type(self).__name__
        n_fits, passes = len(alphas) * len(folds), folds[0].problem.passes
        with (
            progress_bar(title, n_fits, 0.0, bool(self.verbose)) as show,
            showing(passes, show),
        ):
            path = walk(folds, alphas, n_threads, show)
        best = self._keep(path, folds, is_more_better)
        vars(self).update(fitted)
        if path.is_interrupted:
            self.is_converged_ = False
            warn_caller(
                f"the fit of {title} was interrupted after {len(path.rows)} of "
                f"{len(alphas)} alphas; the best of these is kept, with coefficients "
                "averaged over the splits. Fit again to try the others.",
                ConvergenceWarning,
            )
            return self
        self._warn_of_path(path, len(folds))
        problem, optimum = folds[0].problem, path.rows[best][0].optimum
        try:
            if is_refitted:
                problem = self._problem(data, n_jobs)
            # The mean over the folds is a good start.
            start = problem.scaled(self._weights())
            optimum = problem.settle(self.alpha_, start, **options)
            self._adopt(problem, optimum)
        except KeyboardInterrupt:  # before the first evaluation: the mean is kept
            optimum = replace(optimum, is_interrupted=True, n_iter=0)
            self.is_converged_, self.n_iter_ = False, 0
        self._conclude(problem, optimum)
        self._warn(optimum)
        return self

    def _keep(self, path: AlphaPath, folds: list[Fold], is_more_better: bool) -> int:
        """Set the fitted attributes, choose alpha, and return its place on the path."""
        first = folds[0]
        n_features = len(first.problem.scale)
        coefs = np.array([[tried.coef for tried in row] for row in path.rows])
        self.cv_results_ = path.results(len(folds))
        self.coef_path_ = coefs.reshape(len(path.rows), len(folds), n_features)
        if not path.rows:  # interrupted within the first alpha
            self.alpha_, self.best_score_ = path.alphas[0], np.nan
            self._adopt(first.problem, first.last)
            return 0
        means = self.cv_results_["mean_score"]
        losses = -means if is_more_better else means
        best = int(np.argmax(losses <= losses.min() + _TIE))
        self.alpha_, self.best_score_ = path.alphas[best], float(means[best])
        self._adopt(first.problem, path.rows[best][0].optimum)
        scale = np.mean([fold.problem.scale for fold in folds], axis=0)
        self._hold(self.coef_path_[best].mean(axis=0), scale)
        return best

    def _warn_of_path(self, path: AlphaPath, n_splits: int) -> None:
        """Warn the caller of `fit` of an unreliable path."""
        is_given = not isinstance(self.alphas, str)  # else alphas="evidence"
        if path.n_open:
            warn_caller(
                f"{path.n_open} of the {len(path.rows) * n_splits} fits on the path of "
                f"{type(self).__name__} did not converge; they are scored by their best "
                "coefficients. Raise max_iter or tol"
                f"{', or drop the smallest alphas' if is_given else ''}.",
                ConvergenceWarning,
            )
        largest, smallest = path.alphas[0], path.alphas[-1]
        if self.alpha_ in (largest, smallest) and largest > smallest:
            is_largest = self.alpha_ == largest
            most, more = ("largest", "larger") if is_largest else ("smallest", "smaller")
            remedy = f"Add {more} values to alphas."
            if not is_given:
                remedy = f"Give alphas in place of 'evidence', with {more} values."
            warn_caller(
                f"the chosen alpha, {self.alpha_:g}, is the {most} one tried; a better one "
                f"may lie beyond. {remedy}"
            )
