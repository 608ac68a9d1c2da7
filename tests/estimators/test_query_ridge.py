"""Ridge regression within queries against its definition, and as a ranker."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import permatch as pm
from permatch import errors
from permatch.objectives import query_ridge
from tests.estimators.test_rank_match import judged_lists


def ignoring_the_ends():
    """Say nothing of an alpha chosen at the end of the grid."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def slow_coef(X, y, qid, alpha, weights=None):
    """Solve the stacked least-squares problem, one row per document."""
    names = np.unique(qid)
    weights = np.ones(len(names)) if weights is None else np.asarray(weights)
    rows, targets = [np.sqrt(alpha) * np.eye(X.shape[1])], [np.zeros(X.shape[1])]
    for name, weight in zip(names, weights / weights.sum(), strict=True):
        own = qid == name
        root = np.sqrt(weight / own.sum())
        rows.append(root * (X[own] - X[own].mean(axis=0)))
        targets.append(root * (y[own] - y[own].mean()))
    return np.linalg.lstsq(np.vstack(rows), np.concatenate(targets), rcond=None)[0]


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_solves_the_stacked_problem(alpha):
    X, y, qid = judged_lists()
    model = pm.QueryRidge(alpha, scale_features=False).fit(X, y, qid)
    np.testing.assert_allclose(model.coef_, slow_coef(X, y, qid, alpha), rtol=1e-10)
    assert model.n_observations_ == len(y)
    assert model.is_converged_
    assert model.history_[-1]["grad_norm"] < 1e-12


def test_the_loss_reported_is_the_objective():
    X, y, qid = judged_lists()
    model = pm.QueryRidge(0.3, scale_features=False).fit(X, y, qid)
    loss = 0.3 * model.coef_ @ model.coef_
    for name in np.unique(qid):
        own = qid == name
        gaps = (y - X @ model.coef_)[own]
        loss += np.var(gaps) / len(np.unique(qid))
    assert model.history_[-1]["loss"] == pytest.approx(loss, rel=1e-12)


def test_the_penalty_sees_scaled_features():
    X, y, qid = judged_lists()
    units = np.array([1.0, 1000.0, 1e-3])
    plain, other = (pm.QueryRidge().fit(Z, y, qid) for Z in (X, X * units))
    np.testing.assert_allclose(other.coef_ * units, plain.coef_, rtol=1e-9)
    expected = slow_coef(X / plain.scale_, y, qid, 0.1) / plain.scale_
    np.testing.assert_allclose(plain.coef_, expected, rtol=1e-10)


def test_weights_count_like_queries_given_again():
    X, y, qid = judged_lists()
    weights = np.where(qid == qid[0], 3.0, 1.0)
    model = pm.QueryRidge(scale_features=False).fit(X, y, qid, sample_weight=weights)
    by_query = np.where(np.unique(qid) == qid[0], 3.0, 1.0)
    np.testing.assert_allclose(model.coef_, slow_coef(X, y, qid, 0.1, by_query), rtol=1e-10)


def test_blocks_sparse_rows_and_single_precision_agree(monkeypatch):
    X, y, qid = judged_lists()
    X[np.abs(X) < 0.4] = 0.0
    whole = pm.QueryRidge().fit(X, y, qid)
    thin = pm.QueryRidge().fit(sparse.csr_matrix(X), y, qid)
    np.testing.assert_allclose(thin.coef_, whole.coef_, rtol=1e-9)
    single = pm.QueryRidge().fit(X.astype(np.float32), y, qid)
    np.testing.assert_allclose(single.coef_, whole.coef_, rtol=1e-5)
    monkeypatch.setattr(query_ridge, "_BLOCK_SIZE", 10)
    np.testing.assert_allclose(pm.QueryRidge().fit(X, y, qid).coef_, whole.coef_, rtol=1e-9)


def test_a_common_offset_of_a_query_changes_nothing():
    X, y, qid = judged_lists()
    moved = X + 1e6 * (1 + qid[:, None])
    plain, other = (pm.QueryRidge().fit(Z, y, qid) for Z in (X, moved))
    np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-6)


def test_is_a_ranker_like_the_others(tmp_path):
    X, y, qid = judged_lists(n_queries=20)
    model = clone(pm.QueryRidge(scaling="minmax")).fit(X, y, qid)
    assert model.score(X, y, qid) > 0.7
    model.save(tmp_path / "model.json")
    loaded = pm.load(tmp_path / "model.json")
    assert type(loaded) is pm.QueryRidge
    np.testing.assert_array_equal(loaded.predict(X, qid), model.predict(X, qid))
    np.testing.assert_array_equal(loaded.rank(X, qid), model.rank(X, qid))


def test_the_search_chooses_on_the_validation_set(tmp_path):
    X, y, qid = judged_lists(n_queries=20)
    other = judged_lists(seed=1)
    alphas = [0.01, 0.1, 1.0, 10.0]
    with ignoring_the_ends():
        model = pm.QueryRidgeCV(alphas=alphas).fit(X, y, qid, validation=other)
    fits = [pm.QueryRidge(alpha).fit(X, y, qid) for alpha in sorted(alphas)[::-1]]
    cuts = range(1, 11)
    measured = [
        np.mean(pm.metrics.ndcg(other[1], fit.predict(other[0]), other[2], cuts))
        for fit in fits
    ]
    np.testing.assert_allclose(model.cv_results_["mean_score"], measured, rtol=1e-12)
    best = fits[int(np.argmax(measured))]
    assert model.alpha_ == best.alpha
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=1e-12)
    model.save(tmp_path / "model.json")
    assert pm.load(tmp_path / "model.json").alpha_ == model.alpha_


def test_folds_and_defaults():
    X, y, qid = judged_lists(n_queries=20)
    model = pm.QueryRidgeCV(cv=4)
    with ignoring_the_ends():
        model.fit(X, y, qid)
    assert model.cv_results_["scores"].shape == (11, 4)
    expected = pm.QueryRidge(model.alpha_).fit(X, y, qid)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)


def test_what_it_refuses():
    X, y, qid = judged_lists()
    with pytest.raises(errors.InvalidOptionError, match="alpha must be .* above 0; got 0"):
        pm.QueryRidge(0).fit(X, y, qid)
    with pytest.raises(
        errors.InvalidOptionError, match="every alpha must be above 0; got 0"
    ):
        pm.QueryRidgeCV(alphas=[0.0, 1.0]).fit(X, y, qid)
    with pytest.raises(errors.GradeError, match="documents of different grades"):
        pm.QueryRidge().fit(X, np.ones(len(y), dtype=int), qid)
    with pytest.raises(errors.PrecisionError, match="Divide the features"):
        pm.QueryRidge(scale_features=False).fit(X * 1e200, y, qid)
    with pytest.raises(errors.NotFittedError, match="fitted QueryRidge"):
        pm.QueryRidge().predict(X)
