"""BLAS has one thread in every fit, whatever it had before."""

import threading

import numpy as np
import pytest

import permatch as pm
from permatch._blas import _libraries, one_blas_thread, set_blas_threads
from permatch._estimators import ESTIMATORS
from permatch.estimators.base import LinearModel
from permatch.estimators.likelihood_problem import LikelihoodProblem
from permatch.estimators.problem import LinearProblem, RankingProblem

LINEAR = [one for one in ESTIMATORS.values() if issubclass(one.load(), LinearModel)]


def blas_threads():
    return {library["num_threads"] for library in _libraries().info()}


@pytest.fixture
def two_threads():
    before = set_blas_threads(2)
    yield
    before.restore_original_limits()


@pytest.mark.usefixtures("two_threads")
class TestOneThread:
    def test_within_and_after(self):
        with one_blas_thread():
            assert blas_threads() == {1}
            with one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == {2}

    def test_errors_give_it_back(self):
        with pytest.raises(InterruptedError), one_blas_thread():
            raise InterruptedError
        assert blas_threads() == {2}

    def test_the_first_to_leave_takes_nothing_from_the_others(self):
        begun, may_end, seen = threading.Event(), threading.Event(), []

        def work():
            with one_blas_thread():
                begun.set()
                may_end.wait(10.0)
                seen.append(blas_threads())

        with one_blas_thread():
            other = threading.Thread(target=work)
            other.start()
            begun.wait(10.0)
        assert blas_threads() == {1}
        may_end.set()
        other.join()
        assert seen == [{1}]
        assert blas_threads() == {2}


def matching_data(rng):
    graphs = list(rng.normal(size=(12, 3, 3, 2)))
    return graphs, [pm.best_matching(g[..., 0] + rng.normal(size=(3, 3))) for g in graphs]


def ranking_data(rng):
    X = rng.normal(size=(96, 2))
    return X, np.digitize(X[:, 0] + rng.normal(size=96), [0.0, 1.0]), np.arange(96) // 8


@pytest.mark.usefixtures("two_threads")
@pytest.mark.filterwarnings("ignore:the chosen alpha")
@pytest.mark.parametrize("listed", LINEAR, ids=lambda listed: listed.name)
def test_fits(listed, rng, monkeypatch):
    """In every estimator, with any number of threads, and with the same result."""
    data = matching_data(rng) if listed.task == "match" else ranking_data(rng)
    options = {"alphas": [1.0, 0.1], "cv": 3} if listed.is_search else {}
    seen = []

    def settle(self, *given, before=LinearProblem.settle, **more):
        seen.append(blas_threads())
        return before(self, *given, **more)

    monkeypatch.setattr(LinearProblem, "settle", settle)
    fits = [listed.load()(n_jobs=n, **options).fit(*data) for n in (None, 2)]
    assert seen
    assert all(threads == {1} for threads in seen)
    assert blas_threads() == {2}
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("kind", "problem", "data"),
    [
        (pm.MAPMatching, LikelihoodProblem, matching_data),
        (pm.RankMatch, RankingProblem, ranking_data),
    ],
)
def test_inference(kind, problem, data, rng, monkeypatch):
    seen, given = [], data(rng)

    def derivatives(self, *point, before=problem.derivatives):
        seen.append(blas_threads())
        return before(self, *point)

    monkeypatch.setattr(problem, "derivatives", derivatives)
    kind().fit(*given).inference(*given)
    assert seen == [{1}]
