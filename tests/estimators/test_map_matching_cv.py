"""MAPMatchingCV: the path, the choice, and the fit that follows."""

import pickle
import signal
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit

import permatch as pm
from permatch import errors
from permatch.estimators import MAPMatching, MAPMatchingCV
from permatch.metrics import hamming_loss
from tests.estimators import planted

ALPHAS = [1e-4, 1e-2, 1.0, 100.0]
COEF_TOL = 1e-5


@pytest.fixture
def data(rng):
    return planted(rng, 30, sizes=(3, 5, 4))


@pytest.fixture(autouse=True)
def _no_word_about_the_edge():
    """Let the choice fall where it may, except in the tests about it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the chosen alpha")
        yield


def some(data, which):
    return [data[0][k] for k in which], [data[1][k] for k in which]


@pytest.mark.parametrize("scoring", ["hamming", "log_likelihood"])
def test_scores_are_those_of_separate_fits(scoring, data):
    folds = list(KFold(3).split(data[0]))
    model = MAPMatchingCV(ALPHAS, cv=folds, scoring=scoring, tol=1e-8).fit(*data)
    results = model.cv_results_
    assert results["alphas"].tolist() == sorted(ALPHAS, reverse=True)
    assert results["scores"].shape == (4, 3)
    assert model.coef_path_.shape == (4, 3, 4)
    for a, alpha in enumerate(results["alphas"]):
        for k, (train, test) in enumerate(folds):
            fit = MAPMatching(alpha, tol=1e-8).fit(*some(data, train))
            held_out = some(data, test)
            if scoring == "hamming":
                expected = hamming_loss(held_out[1], fit.predict(held_out[0]))
            else:
                expected = fit.log_likelihood(*held_out)
            assert results["scores"][a, k] == pytest.approx(expected, abs=1e-5)
            np.testing.assert_allclose(model.coef_path_[a, k], fit.coef_, atol=COEF_TOL)
    np.testing.assert_allclose(results["mean_score"], results["scores"].mean(axis=1))
    np.testing.assert_allclose(results["std_score"], results["scores"].std(axis=1))
    best = (
        results["mean_score"].min() if scoring == "hamming" else results["mean_score"].max()
    )
    assert model.best_score_ == best


def test_agrees_with_grid_search(data):
    folds = KFold(3)
    model = MAPMatchingCV(ALPHAS, cv=folds).fit(*data)
    search = GridSearchCV(MAPMatching(), {"alpha": ALPHAS[::-1]}, cv=folds).fit(*data)
    np.testing.assert_allclose(
        1 - model.cv_results_["mean_score"], search.cv_results_["mean_test_score"]
    )
    assert model.alpha_ == search.best_params_["alpha"]
    np.testing.assert_allclose(model.coef_, search.best_estimator_.coef_, atol=COEF_TOL)


def test_refits_on_all_graphs_at_the_alpha_chosen(data):
    model = MAPMatchingCV(ALPHAS, cv=3, random_state=0).fit(*data)
    expected = MAPMatching(model.alpha_).fit(*data)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=COEF_TOL)
    np.testing.assert_array_equal(model.scale_, expected.scale_)
    assert model.is_converged_
    assert model.n_iter_ < expected.n_iter_  # it began at the folds' coefficients
    assert model.score(*data) == expected.score(*data)


def test_a_validation_set_chooses_and_never_trains(data, rng):
    validation = planted(rng, 20, sizes=(4, 6))
    model = MAPMatchingCV(ALPHAS, scoring="log_likelihood", tol=1e-8)
    model.fit(*data, validation=validation)
    fits = [MAPMatching(alpha, tol=1e-8).fit(*data) for alpha in sorted(ALPHAS)[::-1]]
    scores = [fit.log_likelihood(*validation) for fit in fits]
    np.testing.assert_allclose(model.cv_results_["scores"][:, 0], scores, atol=1e-5)
    best = int(np.argmax(scores))
    assert model.alpha_ == fits[best].alpha
    np.testing.assert_allclose(model.coef_path_[best, 0], fits[best].coef_, atol=1e-4)
    np.testing.assert_allclose(model.coef_, fits[best].coef_, atol=COEF_TOL)
    np.testing.assert_array_equal(model.scale_, fits[best].scale_)
    assert model.history_[-1]["grad_norm"] <= 1e-8
    assert model.n_iter_ < fits[best].n_iter_  # it began at the coefficients of the path


def test_the_path_chooses_as_fits_to_the_full_tolerance_do(rng):
    data = planted(rng, 40, sizes=(3, 5, 4))
    options = {"cv": 4, "scoring": "log_likelihood", "random_state": 0}
    alphas = np.geomspace(10.0, 1e-4, 11)
    for more in ({}, {"bounds": "non-positive"}):
        quick = MAPMatchingCV(alphas, **options, **more).fit(*data)
        full = MAPMatchingCV(alphas, tol=1e-10, **options, **more).fit(*data)
        assert quick.alpha_ == full.alpha_
        scores = [fit.cv_results_["mean_score"] for fit in (quick, full)]
        np.testing.assert_allclose(*scores, atol=5e-4)
        np.testing.assert_allclose(quick.coef_, full.coef_, atol=COEF_TOL)
        counts = [fit.cv_results_["n_evaluations"].sum() for fit in (quick, full)]
        assert counts[0] < counts[1]


def test_folds_side_by_side_are_as_one_after_the_other(data):
    fits = [MAPMatchingCV(ALPHAS, cv=3, n_jobs=n).fit(*data) for n in (None, 2, 5)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_path_, fits[0].coef_path_)
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)


def test_the_path_begins_where_the_last_fit_ended(rng):
    data = planted(rng, 40, sizes=(6,))
    alphas = np.geomspace(1e-3, 1e-5, 9)
    path = MAPMatchingCV(alphas, cv=2, random_state=0).fit(*data)
    cold = MAPMatching(alphas[-1]).fit(*data)
    n_evaluations = path.cv_results_["n_evaluations"]
    assert n_evaluations[1:].mean() < cold.history_[-1]["evaluations"]


def test_ties_go_to_the_larger_alpha():
    # Features that say everything: every alpha matches all of them rightly.
    graphs = [10.0 * np.eye(4)[:, np.roll(np.arange(4), k), None] for k in range(12)]
    matchings = [graph[:, :, 0].argmax(axis=1) for graph in graphs]
    model = MAPMatchingCV([1e-3, 1e-2, 1e-1], cv=3).fit(graphs, matchings)
    np.testing.assert_array_equal(model.cv_results_["mean_score"], 0.0)
    assert model.alpha_ == 1e-1


@pytest.mark.parametrize(
    ("alphas", "message"),
    [
        (
            [1e2, 1e3, 1e4],
            "the chosen alpha, 100, is the smallest one tried.*smaller values",
        ),
        ([1e-9, 1e-8, 1e-2], "the chosen alpha, 0.01, is the largest one.*Add larger"),
    ],
)
def test_a_choice_at_the_edge_is_reported(alphas, message, rng):
    data = planted(rng, 40)
    with pytest.warns(UserWarning, match=message):
        MAPMatchingCV(alphas, cv=3, scoring="log_likelihood", random_state=0).fit(*data)


def test_a_choice_inside_the_grid_or_of_one_is_not(rng):
    data = planted(rng, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MAPMatchingCV([1e-9, 1e-2, 1e3], cv=3, scoring="log_likelihood").fit(*data)
        assert model.alpha_ == 1e-2
        MAPMatchingCV([0.5], cv=2).fit(*data)


def test_folds_are_shuffled_by_the_seed(data):
    fits = [
        MAPMatchingCV([1e-2], cv=3, scoring="log_likelihood", random_state=seed).fit(*data)
        for seed in (0, 0, 1)
    ]
    scores = [fit.cv_results_["scores"] for fit in fits]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])


def test_fits_repeat_unless_told_otherwise(data):
    scores = [MAPMatchingCV(ALPHAS, cv=3).fit(*data).cv_results_["scores"] for _ in "ab"]
    np.testing.assert_array_equal(*scores)


def test_any_splitter_or_list_of_splits(data):
    splitter = ShuffleSplit(2, test_size=0.3, random_state=0)
    a = MAPMatchingCV(ALPHAS, cv=splitter).fit(*data)
    b = MAPMatchingCV(ALPHAS, cv=list(splitter.split(data[0]))).fit(*data)
    np.testing.assert_array_equal(a.cv_results_["scores"], b.cv_results_["scores"])
    masks = [(np.arange(30) < 20, np.arange(30) >= 20)]
    assert MAPMatchingCV(ALPHAS, cv=masks).fit(*data).coef_path_.shape == (4, 1, 4)


def test_weights_count_in_training_and_in_scores(data):
    graphs, matchings = data
    folds = [(np.arange(10, 30), np.arange(10)), (np.arange(20), np.arange(20, 30))]
    weights = np.ones(30)
    weights[[3, 25]] = 2.0
    weights[[4, 12]] = 0.0
    times = np.repeat(np.arange(30), weights.astype(int))
    repeated = [
        tuple(np.nonzero(np.isin(times, side))[0] for side in split) for split in folds
    ]
    options = {"scoring": "log_likelihood", "tol": 1e-8}
    a = MAPMatchingCV(ALPHAS, cv=folds, **options).fit(graphs, matchings, weights)
    b = MAPMatchingCV(ALPHAS, cv=repeated, **options).fit(*some(data, times))
    np.testing.assert_allclose(a.cv_results_["scores"], b.cv_results_["scores"], atol=1e-7)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=COEF_TOL)


def test_bounds_and_engine_reach_the_fits(data):
    model = MAPMatchingCV(ALPHAS, cv=2, bounds="non-negative", engine=pm.SubsetDP())
    model.fit(*data, feature_names=list("abcd"))
    assert (model.coef_ >= 0).all()
    assert (model.coef_path_ >= 0).all()
    assert model.feature_names_ == list("abcd")


def test_clone_pickle_and_repeated_fits(data):
    model = MAPMatchingCV(ALPHAS, cv=3, random_state=0)
    fitted = clone(model).fit(*data)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    np.testing.assert_array_equal(model.fit(*data).fit(*data).coef_, fitted.coef_)
    assert model.alphas is ALPHAS


def test_verbose_shows_a_bar(data, capsys):
    MAPMatchingCV(ALPHAS, cv=2, verbose=True).fit(*data)
    assert "MAPMatchingCV" in capsys.readouterr().err


# ---- how it ends early -----------------------------------------------------------------


def test_fits_that_do_not_converge_are_counted_in_one_warning(data):
    with pytest.warns() as record:
        model = MAPMatchingCV(ALPHAS, cv=2, max_iter=1).fit(*data)
    messages = [str(w.message) for w in record if w.category is ConvergenceWarning]
    assert len(messages) == 2
    assert "of the 8 fits on the path" in messages[0]
    assert "the fit of MAPMatchingCV did not converge" in messages[1]
    assert not model.is_converged_


class Interrupting(pm.SubsetDP):
    """An engine at which somebody presses Ctrl-C during the n-th call."""

    calls_left = 0

    def _infer_stack(self, scores, members, job):
        Interrupting.calls_left -= 1
        if Interrupting.calls_left == 0:
            signal.raise_signal(signal.SIGINT)
        return super()._infer_stack(scores, members, job)


@pytest.mark.parametrize("n_calls", [3, 12])
def test_ctrl_c_on_the_path_keeps_the_best_so_far(n_calls, rng, monkeypatch):
    data = planted(rng, 20)
    monkeypatch.setattr(Interrupting, "calls_left", n_calls)
    model = MAPMatchingCV(ALPHAS, cv=2, engine=Interrupting(), random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted after . of 4 alphas"):
        model.fit(*data)
    n_done = len(model.cv_results_["alphas"])
    assert (n_done > 0) == (n_calls == 12)
    assert n_done < 4
    assert model.coef_path_.shape == (n_done, 2, 4)
    assert not model.is_converged_
    assert np.isfinite(model.coef_).all()
    assert len(model.predict(data[0])) == 20
    if n_done:
        assert model.alpha_ in model.cv_results_["alphas"]


# ---- what it refuses -------------------------------------------------------------------

BAD_OPTIONS = {
    "alphas empty": ({"alphas": []}, "at least one number"),
    "alphas number": ({"alphas": 0.1}, "sequence of numbers, or 'evidence'; got 0.1"),
    "alphas negative": ({"alphas": [1.0, -1.0]}, "every alpha must.*got -1.0"),
    "alphas text": ({"alphas": "auto"}, "sequence of numbers, or 'evidence'; got 'auto'"),
    "scoring": ({"scoring": "accuracy"}, "'hamming', 'log_likelihood'; got 'accuracy'"),
    "one fold": ({"cv": 1}, "cv must be a whole number of at least 2, got 1"),
    "too many folds": ({"cv": 31}, "at most the number of graphs, 30; got 31.*validation="),
    "cv type": ({"cv": 2.5}, "number of folds, a scikit-learn splitter.*got 2.5"),
    "cv out of range": ({"cv": [([0, 1], [99])]}, r"graphs 0 .. 29; split 0 does not"),
    "cv empty side": ({"cv": [([0, 1], [2]), ([], [0])]}, "split 1 lacks one"),
    "seed": ({"cv": 3, "random_state": "x"}, "cv must be.*'x'"),
    "solver": ({"solver": "newton"}, "got 'newton'"),
    "tol": ({"tol": -1.0}, "tol must be"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(name, data):
    options, message = BAD_OPTIONS[name]
    model = MAPMatchingCV(**options)
    with pytest.raises(errors.InvalidOptionError, match=message):
        model.fit(*data)
    assert not hasattr(model, "coef_")


def test_bad_validation_sets(data):
    model = MAPMatchingCV(ALPHAS)
    with pytest.raises(errors.InvalidOptionError, match="a pair .graphs, matchings."):
        model.fit(*data, validation=data[0])
    with pytest.raises(errors.FeatureCountError, match="graph 0 has 2"):
        model.fit(*data, validation=([np.zeros((2, 2, 2))], [[0, 1]]))
    with pytest.raises(errors.InvalidMatchingError, match="at most one partner"):
        model.fit(*data, validation=([np.zeros((2, 2, 4))], [[0, 0]]))
    with pytest.raises(errors.NoGraphsError):
        model.fit(*data, validation=([], []))
    assert not hasattr(model, "coef_")
