"""Inference on data in parts: the same as in memory."""

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError, InvalidQueriesError
from tests.estimators import planted

dask = pytest.importorskip("dask", reason="needs dask (extra 'dask')")

# Sums in another order.
RELATIVE = 1e-9


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def test_rankings(rng):
    X = rng.normal(size=(160, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=160), [0.0, 1.0])
    qid = np.repeat(np.arange(20), 8)
    parts = [
        dask.delayed((X[rows], y[rows], qid[rows]))
        for rows in (slice(0, 44), slice(44, 120), slice(120, 160))
    ]
    model = pm.RankMatch(alpha=0.1)
    for cov_type in ("sandwich", "laplace"):
        one = model.fit(X, y, qid=qid).inference(X, y, qid=qid, cov_type=cov_type)
        two = model.fit(parts).inference(parts, cov_type=cov_type)
        np.testing.assert_allclose(two.covariance, one.covariance, rtol=1e-6)
        assert (two.nobs, two.n_clusters) == (one.nobs, one.n_clusters)
        assert two.log_evidence == pytest.approx(one.log_evidence, rel=RELATIVE)
    with pytest.raises(InvalidOptionError, match="clusters need data in memory"):
        model.inference(parts, clusters=qid)
    narrow = [dask.delayed((X[:, :2], y, qid))]
    with pytest.raises(InvalidQueriesError, match="have the 3 features .*; got 2."):
        model.inference(narrow)
    chosen = pm.RankMatchCV(alphas="evidence").fit(parts)
    expected = pm.RankMatchCV(alphas="evidence").fit(X, y, qid=qid)
    assert chosen.log_evidence_ == pytest.approx(expected.log_evidence_, rel=RELATIVE)


def test_matchings(rng):
    graphs, labels = planted(rng, 12, sizes=(3, 4))
    parts = [
        dask.delayed((graphs[own], labels[own])) for own in (slice(0, 5), slice(5, 12))
    ]
    model = pm.MAPMatching(0.1)
    for cov_type in ("sandwich", "laplace"):
        one = model.fit(graphs, labels).inference(graphs, labels, cov_type=cov_type)
        two = model.fit(parts).inference(parts, cov_type=cov_type)
        np.testing.assert_allclose(two.covariance, one.covariance, rtol=1e-6)
        assert two.hessian_method == one.hessian_method
        assert two.log_evidence == pytest.approx(one.log_evidence, rel=RELATIVE)
    with pytest.raises(InvalidOptionError, match="intervals need graphs in memory"):
        model.predict_marginals(parts, uncertainty=two)
    with pytest.raises(InvalidOptionError, match="clusters need graphs in memory"):
        model.inference(parts, clusters=np.arange(12))
