"""Targets that cross in clutter, as Stone Soup sees them: states, detections, a filter."""

import datetime
from dataclasses import dataclass

import numpy as np

START = datetime.datetime(2024, 1, 1)


def why_missing() -> str:
    """Return why there is no Stone Soup, empty if there is one."""
    try:
        import stonesoup  # noqa: F401
    except ImportError:
        return "Stone Soup is not installed (pip install '.[stonesoup]')"
    return ""


@dataclass(frozen=True, eq=False)
class Scene:
    """Where tracks begin, what is detected, and what Stone Soup needs to filter it."""

    priors: list
    frames: list  # of (time, detections)
    hypothesiser: object
    updater: object

    def tracks(self) -> list:
        from stonesoup.types.track import Track

        return [Track([prior]) for prior in self.priors]

    def update(self, tracks: list, hypotheses, time) -> None:
        """Append the mean of every track's mixture, as Stone Soup's tutorial does."""
        from stonesoup.functions import gm_reduce_single
        from stonesoup.types.array import StateVectors
        from stonesoup.types.update import GaussianStateUpdate

        for track in tracks:
            states = [
                self.updater.update(one) if one else one.prediction
                for one in hypotheses[track]
            ]
            mean, covar = gm_reduce_single(
                StateVectors([state.state_vector for state in states]),
                np.stack([state.covar for state in states], axis=2),
                np.array([float(one.probability) for one in hypotheses[track]]),
            )
            track.append(GaussianStateUpdate(mean, covar, hypotheses[track], time))

    def run(self, associator) -> np.ndarray:
        """Return the means (tracks, frames + 1, 4) of the tracks of an associator."""
        tracks = self.tracks()
        for time, detections in self.frames:
            self.update(tracks, associator.associate(tracks, detections, time), time)
        return np.array(
            [[state.state_vector for state in track] for track in tracks], float
        )


def crossing(n_targets: int, clutter: float, seed: int = 0, n_frames: int = 20) -> Scene:
    """Return two formations side by side that change places, each through the other.

    Targets are three units apart; noise has variance 0.75, one detection in ten is missed,
    and `clutter` are the false ones per unit of area.
    """
    from stonesoup.hypothesiser.probability import PDAHypothesiser
    from stonesoup.models.measurement.linear import LinearGaussian
    from stonesoup.models.transition.linear import (
        CombinedLinearGaussianTransitionModel,
        ConstantVelocity,
    )
    from stonesoup.predictor.kalman import KalmanPredictor
    from stonesoup.types.detection import Detection
    from stonesoup.types.state import GaussianState
    from stonesoup.updater.kalman import KalmanUpdater

    rng = np.random.default_rng(seed)
    moves = CombinedLinearGaussianTransitionModel([ConstantVelocity(0.005)] * 2)
    sees = LinearGaussian(ndim_state=4, mapping=(0, 2), noise_covar=0.75 * np.eye(2))
    updater = KalmanUpdater(sees)
    height = 3.0 * (np.arange(n_targets) - 0.5 * (n_targets - 1))
    speed = (height[np.roll(np.arange(n_targets), n_targets // 2)] - height) / n_frames
    priors = [
        GaussianState([[0.0], [1.0], [y], [v]], np.diag([1.5, 0.5] * 2), timestamp=START)
        for y, v in zip(height, speed, strict=True)
    ]
    low, high = (-5.0, height[0] - 5.0), (n_frames + 5.0, height[-1] + 5.0)
    area = float(np.prod(np.subtract(high, low)))
    frames = []
    for k in range(1, n_frames + 1):
        truth = np.column_stack([np.full(n_targets, float(k)), height + k * speed])
        seen = truth[rng.random(n_targets) < 0.9]
        places = np.vstack(
            [
                seen + np.sqrt(0.75) * rng.normal(size=seen.shape),
                rng.uniform(low, high, size=(rng.poisson(clutter * area), 2)),
            ]
        )
        time = START + datetime.timedelta(seconds=k)
        frames.append(
            (time, [Detection(place[:, None], timestamp=time) for place in places])
        )
    hypothesiser = PDAHypothesiser(
        predictor=KalmanPredictor(moves),
        updater=updater,
        clutter_spatial_density=clutter,
        prob_detect=0.9,
    )
    return Scene(priors, frames, hypothesiser, updater)
