"""Alpha chosen by evidence: the largest there is, without data held out."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.estimators.uncertainty.evidence import EvidenceFit
from tests.estimators import planted


@pytest.fixture
def judged(rng):
    X = rng.normal(size=(240, 4))
    y = np.digitize(X[:, 0] + rng.normal(size=240), [0.0, 1.0])
    return X, y, np.repeat(np.arange(20), 12)


def test_no_other_alpha_has_more_evidence(judged, rng):
    X, y, qid = judged
    chosen = pm.RankMatchCV(alphas="evidence").fit(X, y, qid=qid)
    path = chosen.cv_results_
    assert chosen.log_evidence_ == chosen.best_score_ == path["mean_score"].max()
    assert (np.diff(path["alphas"]) < 0.0).all()
    assert chosen.coef_path_.shape == (len(path["alphas"]), 1, 4)
    for factor in (0.5, 0.8, 1.0, 1.25, 2.0):
        model = pm.RankMatch(alpha=factor * chosen.alpha_).fit(X, y, qid=qid)
        found = model.inference(X, y, qid=qid).log_evidence
        if factor == 1.0:
            assert found == pytest.approx(chosen.log_evidence_, abs=1e-6)
            np.testing.assert_allclose(chosen.coef_, model.coef_, rtol=1e-4)
        else:
            assert found < chosen.log_evidence_


def test_matchings(rng, tmp_path):
    graphs, labels = planted(rng, 40, sizes=(3, 4))
    chosen = pm.MAPMatchingCV("evidence").fit(graphs, labels, feature_names=list("abcd"))
    posterior = chosen.inference(graphs, labels)
    assert posterior.penalty == chosen.alpha_
    assert posterior.log_evidence == pytest.approx(chosen.best_score_, abs=1e-6)
    for factor in (0.5, 2.0):
        other = pm.MAPMatching(factor * chosen.alpha_).fit(graphs, labels)
        assert other.inference(graphs, labels).log_evidence < chosen.log_evidence_
    chosen.save(tmp_path / "model.json")
    assert pm.load(tmp_path / "model.json").log_evidence_ == chosen.log_evidence_


def test_weights_count_as_copies(rng):
    graphs, labels = planted(rng, 12, sizes=(3,))
    one = pm.MAPMatchingCV("evidence").fit(graphs, labels, sample_weight=[2.0] * 12)
    two = pm.MAPMatchingCV("evidence").fit(graphs * 2, labels * 2)
    assert one.alpha_ == pytest.approx(two.alpha_)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_)


def test_what_has_no_evidence(judged, rng):
    X, y, qid = judged
    for model in (
        pm.RankMatchCV("pairs", alphas="evidence"),
        pm.RankMatchCV(alphas="evidence", query_weight="per_document"),
    ):
        with pytest.raises(
            InvalidOptionError, match="needs a likelihood of independent qu"
        ):
            model.fit(X, y, qid=qid)
    for model in (pm.DORMCV(alphas="evidence"), pm.QueryRidgeCV(alphas="evidence")):
        with pytest.raises(InvalidOptionError, match=r"a sequence of numbers; got 'evid"):
            model.fit(X, y, qid=qid)
    with pytest.raises(InvalidOptionError, match=r"numbers, or 'evidence'; got 'best'"):
        pm.RankMatchCV(alphas="best").fit(X, y, qid=qid)
    with pytest.raises(InvalidOptionError, match="takes no validation set"):
        pm.RankMatchCV(alphas="evidence").fit(X, y, qid=qid, validation=(X, y, qid))
    graphs, labels = planted(rng, 5, sizes=(3,))
    with pytest.raises(InvalidOptionError, match="needs coefficients without bounds"):
        pm.MAPMatchingCV("evidence", bounds="non-negative").fit(graphs, labels)
    with pytest.raises(InvalidOptionError, match="needs exact inference"):
        pm.MAPMatchingCV("evidence", engine="bethe").fit(graphs, labels)


def test_ctrl_c_keeps_the_best_so_far(judged, monkeypatch):
    X, y, qid = judged
    plain, calls = EvidenceFit.try_at, []

    def interrupted(self, decade):
        calls.append(decade)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return plain(self, decade)

    monkeypatch.setattr(EvidenceFit, "try_at", interrupted)
    model = pm.RankMatchCV(alphas="evidence")
    with pytest.warns(ConvergenceWarning, match="interrupted after 3 alphas"):
        model.fit(X, y, qid=qid)
    assert not model.is_converged_
    assert model.alpha_ == model.cv_results_["alphas"][-1]
    assert model.predict(X).shape == (240,)


def test_where_the_best_alpha_is_the_largest_one_tried():
    rng = np.random.default_rng(1)
    X, y, qid = rng.normal(size=(60, 2)), np.tile([0, 1, 1, 0], 15), np.arange(60) // 4
    with pytest.warns(UserWarning, match=r"largest one tried.*in place of 'evidence'"):
        pm.RankMatchCV(alphas="evidence").fit(X, y, qid=qid)
