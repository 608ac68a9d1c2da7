"""The data associator for Stone Soup: against its own, in its own trackers."""

import sys
from datetime import datetime

import numpy as np
import pytest

from permatch.errors import InfeasibleGraphError, MissingDependencyError

pytest.importorskip("stonesoup", reason="Stone Soup is not installed")

from stonesoup.base import Property
from stonesoup.dataassociator.probability import JPDA, JPDAwithEHM2
from stonesoup.deleter.error import CovarianceBasedDeleter
from stonesoup.hypothesiser import Hypothesiser
from stonesoup.initiator.simple import SimpleMeasurementInitiator
from stonesoup.tracker.simple import MultiTargetMixtureTracker
from stonesoup.types.detection import Detection, MissedDetection
from stonesoup.types.hypothesis import SingleProbabilityHypothesis
from stonesoup.types.multihypothesis import MultipleHypothesis
from stonesoup.types.numeric import Probability
from stonesoup.types.state import GaussianState
from stonesoup.types.track import Track

import permatch as pm
from benchmarks.crossing import crossing
from permatch.integrations.stonesoup import JPDAwithPermatch

NOW = datetime(2024, 1, 1)


class Listed(Hypothesiser):
    """Gives the hypotheses it was given: pairs of a detection, or None, and a weight."""

    listed: dict = Property()

    def hypothesise(self, track, detections, timestamp, **kwargs):
        return MultipleHypothesis(
            [
                SingleProbabilityHypothesis(
                    None,
                    MissedDetection(timestamp=timestamp) if one is None else one,
                    weight,
                )
                for one, weight in self.listed[track]
            ]
        )


def listed(likelihood):
    """Return a hypothesiser for likelihoods (tracks, detections + 1), and its tracks."""
    tracks = [Track() for _ in likelihood]
    detections = [Detection([[j]], timestamp=NOW) for j in range(likelihood.shape[1] - 1)]
    every = [None, *detections]
    hypotheses = {
        track: [(one, Probability(p)) for one, p in zip(every, row, strict=True) if p]
        for track, row in zip(tracks, likelihood.tolist(), strict=True)
    }
    return Listed(hypotheses), tracks, detections


def probabilities(associated, tracks):
    return [[float(one.probability) for one in associated[track]] for track in tracks]


# ---- one step


def test_probabilities_are_those_of_associate(rng):
    likelihood = np.exp(rng.normal(size=(5, 8)))
    likelihood[:, 1:][rng.random((5, 7)) < 0.4] = 0.0
    hypothesiser, tracks, detections = listed(likelihood)
    found = JPDAwithPermatch(hypothesiser).associate(tracks, set(detections), NOW)
    expected = pm.associate(likelihood)
    for row, own, track in zip(likelihood, expected, tracks, strict=True):
        np.testing.assert_allclose(
            [float(one.probability) for one in found[track]], own[row > 0], atol=1e-14
        )


@pytest.mark.parametrize("other", [JPDA, JPDAwithEHM2])
def test_hypotheses_are_those_of_stone_soup(other):
    scene = crossing(3, 0.02)
    tracks = scene.tracks()
    for time, detections in scene.frames[:12]:
        expected = other(scene.hypothesiser).associate(tracks, set(detections), time)
        found = JPDAwithPermatch(scene.hypothesiser).associate(
            tracks, set(detections), time
        )
        assert set(found) == set(expected)
        for track, own in found.items():
            assert isinstance(own, MultipleHypothesis)
            theirs = expected[track]
            assert len(own) == len(theirs)
            assert isinstance(own[0].measurement, MissedDetection)
            assert own[0].measurement.timestamp == time
            assert sum(float(one.probability) for one in own) == pytest.approx(1.0)
            for one in own:
                assert isinstance(one.probability, Probability)
                same = theirs[one.measurement if one else 0]
                assert one.prediction.timestamp == same.prediction.timestamp
                assert (one.measurement_prediction is None) == (not one)
                assert float(one.probability) == pytest.approx(
                    float(same.probability), abs=1e-10
                )
        scene.update(tracks, found, time)


def test_the_hypotheses_it_was_given_stay_as_they_are(rng):
    hypothesiser, tracks, detections = listed(np.array([[1.0, 2.0], [1.0, 3.0]]))
    given = {track: hypothesiser.hypothesise(track, detections, NOW) for track in tracks}
    before = probabilities(given, tracks)
    JPDAwithPermatch(hypothesiser)._with_probabilities(given)
    assert probabilities(given, tracks) == before


def test_no_tracks_and_no_detections():
    scene = crossing(2, 0.02)
    associator = JPDAwithPermatch(hypothesiser=scene.hypothesiser)
    assert associator.associate(set(), set(scene.frames[0][1]), NOW) == {}
    tracks = scene.tracks()
    alone = associator.associate(tracks, set(), scene.frames[0][0])
    assert probabilities(alone, tracks) == [[1.0], [1.0]]


def test_several_hypotheses_about_one_detection_share_its_probability():
    detection = Detection([[0]], timestamp=NOW)
    tracks = [Track(), Track()]
    twice = [(None, 0.5), (detection, 0.3), (detection, 0.2)]
    hypothesiser = Listed({tracks[0]: twice, tracks[1]: [(None, 1.0), (detection, 1.0)]})
    found = JPDAwithPermatch(hypothesiser).associate(tracks, {detection}, NOW)
    missed, one, other = probabilities(found, tracks)[0]
    (expected, _) = pm.associate([[0.5, 0.5], [1.0, 1.0]])
    np.testing.assert_allclose([missed, one + other], expected)
    assert one / other == pytest.approx(1.5)


def test_hypotheses_of_probability_zero():
    detection = Detection([[0]], timestamp=NOW)
    track = Track()
    hypothesiser = Listed({track: [(None, 1.0), (detection, 0.0)]})
    found = JPDAwithPermatch(hypothesiser).associate([track], {detection}, NOW)
    assert probabilities(found, [track]) == [[1.0, 0.0]]


def test_likelihoods_that_float64_cannot_hold():
    logs = np.array([[0.0, -2000.0, -2001.0], [-2000.0, 3.0, -5000.0]])
    hypothesiser, tracks, detections = listed(np.ones((2, 3)))
    for own, row in zip(hypothesiser.listed.values(), logs, strict=True):
        own[:] = [
            (one, Probability(value, log_value=True))
            for (one, _), value in zip(own, row, strict=True)
        ]
    found = JPDAwithPermatch(hypothesiser).associate(tracks, set(detections), NOW)
    np.testing.assert_allclose(
        probabilities(found, tracks), pm.associate(logs, log=True), atol=1e-14
    )


def test_tracks_that_cannot_all_be_detected():
    hypothesiser, tracks, detections = listed(np.array([[0.0, 1.0], [0.0, 1.0]]))
    with pytest.raises(InfeasibleGraphError, match="2 of its 2 tracks must be detected"):
        JPDAwithPermatch(hypothesiser).associate(tracks, set(detections), NOW)


# ---- whole runs


def test_tracks_in_little_clutter_are_those_of_ehm2():
    scene = crossing(4, 0.01, seed=1)
    found = scene.run(JPDAwithPermatch(hypothesiser=scene.hypothesiser))
    expected = scene.run(JPDAwithEHM2(hypothesiser=scene.hypothesiser))
    assert found.shape == (4, 21, 4, 1)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def mixture_tracker(kind):
    """Return the states of Stone Soup's own tracker, which begins and ends tracks."""
    scene = crossing(2, 0.005, seed=2)
    prior = GaussianState(np.zeros((4, 1)), np.diag([0.0, 1.0] * 2), timestamp=NOW)
    tracker = MultiTargetMixtureTracker(
        initiator=SimpleMeasurementInitiator(prior, scene.updater.measurement_model),
        deleter=CovarianceBasedDeleter(covar_trace_thresh=8.0),
        detector=[(time, set(detections)) for time, detections in scene.frames],
        data_associator=kind(hypothesiser=scene.hypothesiser),
        updater=scene.updater,
    )
    found = []
    for _, tracks in tracker:
        found.append(sorted(tuple(track.state_vector.ravel()) for track in tracks))
    return found


def test_a_tracker_of_stone_soup_runs_with_it():
    found, expected = mixture_tracker(JPDAwithPermatch), mixture_tracker(JPDAwithEHM2)
    assert max(map(len, found)) >= 2
    for own, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, theirs, atol=1e-9)


def test_a_crowd_is_approximated_and_said_to_be(rng):
    likelihood = np.exp(rng.normal(size=(26, 27)))
    likelihood[:, 1:] *= 0.01
    hypothesiser, tracks, detections = listed(likelihood)
    associator = JPDAwithPermatch(hypothesiser, tol=0.05, budget=5.0)
    words = (
        r"26 tracks and 26 detections is too crowded .* approximated \(error at most 0.0"
    )
    with pytest.warns(RuntimeWarning, match=words):
        found = associator.associate(tracks, set(detections), NOW)
    np.testing.assert_allclose(np.sum(probabilities(found, tracks), axis=1), 1.0)


def test_a_tolerance_that_was_not_reached_is_said(rng):
    hypothesiser, tracks, detections = listed(np.exp(rng.normal(size=(40, 41))))
    associator = JPDAwithPermatch(hypothesiser, tol=1e-6, budget=0.2)
    with pytest.warns(RuntimeWarning, match=r", tol=1e-06 not reached\)\.") as caught:
        found = associator.associate(tracks, set(detections), NOW)
    assert len(caught) == 1
    np.testing.assert_allclose(np.sum(probabilities(found, tracks), axis=1), 1.0)


# ---- without Stone Soup


def test_a_missing_stone_soup_is_named_with_its_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "permatch.integrations.stonesoup")
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    words = (
        r"^permatch.integrations.stonesoup needs stonesoup: install the extra 'stonesoup' "
    )
    with pytest.raises(MissingDependencyError, match=words):
        import permatch.integrations.stonesoup  # noqa: F401
