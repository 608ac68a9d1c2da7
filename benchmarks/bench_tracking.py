"""Association of tracks that cross in clutter, against Stone Soup's associators and pyehm.

The association step is timed on hypotheses that are there: what Stone Soup's hypothesiser
takes is the same for all, and shows in the time of the whole filter.
"""

import math

import numpy as np

import permatch as pm
from benchmarks.crossing import crossing, why_missing
from benchmarks.harness import (
    Report,
    against_slow,
    milliseconds,
    race,
    spreads,
    timed,
)
from benchmarks.rivals import ehm2

#: False detections per unit of area, some of which lie in every gate of about 25 units; and
#: how often the rival can be run.
CLUTTER = {0.005: 3, 0.01: 2, 0.02: 1}
MEDIUM = 0.01
#: Seconds a frame after which enumeration is given up.
PATIENCE = 10.0


def run(is_quick: bool) -> Report:
    report = Report("Tracks and detections: association probabilities, one thread")
    missing = why_missing()
    if missing:
        report.add("Stone Soup", "none", "", "", 0.0, "rows", None, note=missing)
    else:
        n_targets = 5 if is_quick else 12
        for clutter, rounds in list(CLUTTER.items())[: 1 if is_quick else None]:
            _steps(report, n_targets, clutter, rounds)
        _filters(report, n_targets, rounds=1 if is_quick else 2)
        _enumeration(report, 0.05 if is_quick else PATIENCE)
    _frames(report, 50 if is_quick else 1000, rounds=1 if is_quick else 2)
    return report


class Ready:
    """Hypotheses that are there already, in the place of a hypothesiser."""

    def __init__(self, hypotheses):
        self.hypotheses = hypotheses

    def hypothesise(self, track, detections, timestamp, **kwargs):
        return self.hypotheses[track]


class Frames:
    """The frames of a scene with their hypotheses, made along exact tracks."""

    def __init__(self, n_targets, clutter):
        from permatch.integrations.stonesoup import JPDAwithPermatch

        scene = crossing(n_targets, clutter)
        exact = JPDAwithPermatch(hypothesiser=scene.hypothesiser)
        self.tracks = scene.tracks()
        self.inputs, self.truth = [], []
        for time, detections in scene.frames:
            ready = Ready(exact.generate_hypotheses(self.tracks, detections, time))
            self.inputs.append((ready, detections, time))
            found = self.associate(JPDAwithPermatch, *self.inputs[-1])
            self.truth.append(found)
            scene.update(self.tracks, found, time)

    def associate(self, kind, ready, detections, time):
        return kind(hypothesiser=ready).associate(self.tracks, detections, time)

    def all(self, kind):
        return [self.associate(kind, *given) for given in self.inputs]

    def largest_difference(self, found):
        """Return how far probabilities are from the exact ones at most."""
        return max(
            abs(float(one.probability) - float(own[track][one.measurement].probability))
            for own, theirs in zip(self.truth, found, strict=True)
            for track, several in theirs.items()
            for one in several
            if one
        )

    @property
    def combinations(self):
        """Products of the numbers of hypotheses: what enumeration goes through."""
        return [
            math.prod(len(ready.hypotheses[track]) for track in self.tracks)
            for ready, _, _ in self.inputs
        ]


def _steps(report, n_targets, clutter, rounds):
    """Add the association steps of all frames, hypotheses given."""
    from stonesoup.dataassociator.probability import JPDAwithEHM2, JPDAwithLBP

    from permatch.integrations.stonesoup import JPDAwithPermatch

    frames = Frames(n_targets, clutter)
    what = f"{n_targets} targets cross in clutter of {clutter:g}, association steps"
    goal = 5.0 if n_targets == 12 else None
    for rival, target in ((JPDAwithEHM2, goal), (JPDAwithLBP, None)):
        ours, theirs, found = against_slow(
            lambda: frames.all(JPDAwithPermatch),
            lambda rival=rival: frames.all(rival),
            rounds,
        )
        gap = frames.largest_difference(found)
        _add(report, what, f"Stone Soup {rival.__name__}", ours, theirs, target, gap)


def _filters(report, n_targets, rounds):
    """Add the whole filter: prediction, gates, association, update."""
    from stonesoup.dataassociator.probability import JPDAwithEHM2

    from permatch.integrations.stonesoup import JPDAwithPermatch

    def follow(kind):
        scene = crossing(n_targets, MEDIUM)  # fresh: Stone Soup keeps predictions
        return scene.run(kind(hypothesiser=scene.hypothesiser))

    ours, theirs, found = against_slow(
        lambda: follow(JPDAwithPermatch), lambda: follow(JPDAwithEHM2), rounds
    )
    gap = np.abs(follow(JPDAwithPermatch) - found).max()
    what = f"{n_targets} targets cross in clutter of {MEDIUM:g}, the whole filter"
    rival, note = "Stone Soup JPDAwithEHM2", _shares(JPDAwithPermatch, n_targets)
    _add(report, what, rival, ours, theirs, None, gap, of="tracks", note=note)


def _shares(kind, n_targets):
    """Return in words where the time of the filter goes."""
    scene = crossing(n_targets, MEDIUM)
    associator, tracks = kind(hypothesiser=scene.hypothesiser), scene.tracks()
    seconds = np.zeros(3)
    for time, detections in scene.frames:
        given, hypotheses = timed(
            lambda t=time, d=detections: associator.generate_hypotheses(tracks, d, t)
        )
        ready = kind(hypothesiser=Ready(hypotheses))
        found, answer = timed(
            lambda r=ready, t=time, d=detections: r.associate(tracks, d, t)
        )
        updated, _ = timed(lambda a=answer, t=time: scene.update(tracks, a, t))
        seconds += given.best, found.best, updated.best
    hypotheses, association, update = (milliseconds(s) for s in seconds / len(scene.frames))
    return (
        f"ours takes {hypotheses} a frame for the hypotheses (Stone Soup), {association} "
        f"for the association, {update} for the update (Stone Soup)"
    )


def _enumeration(report, patience):
    """Add the number of targets at which enumeration stops, on the worst frame of each."""
    from stonesoup.dataassociator.probability import JPDA

    from permatch.integrations.stonesoup import JPDAwithPermatch

    n_targets, cost = 1, 0.0
    while True:
        n_targets += 1
        frames = Frames(n_targets, MEDIUM)
        n_combinations = max(frames.combinations)
        worst = frames.inputs[frames.combinations.index(n_combinations)]
        (ours,) = race(lambda f=frames, w=worst: f.associate(JPDAwithPermatch, *w))
        if cost * n_combinations > patience:
            break
        theirs, _ = timed(lambda f=frames, w=worst: f.associate(JPDA, *w))
        cost = theirs.best / n_combinations
        last = theirs.best
    report.add(
        f"targets that cross: the most within {patience:g} s a frame",
        "Stone Soup JPDA",
        f"{milliseconds(ours.best)} with {n_targets}",
        f"{milliseconds(last)} with {n_targets - 1}",
        n_targets - 1,
        "targets",
        None,
        is_lower_better=False,
        accuracy="exact",
        spread=f"{ours.spread:.2f}",
        note=f"with {n_targets} targets JPDA has {n_combinations:,} combinations to go "
        f"through in the worst frame: about {milliseconds(cost * n_combinations)}",
    )


def _frames(report, n_frames, rounds):
    """Add many frames in one call."""
    rng = np.random.default_rng(3)
    likelihood = np.exp(rng.normal(size=(n_frames, 12, 21)))
    likelihood[:, :, 1:][rng.random((n_frames, 12, 20)) > 0.15] = 0.0
    what = f"{n_frames:,} frames of 12 tracks and 20 detections, no Stone Soup"
    missing = ehm2.why_missing()
    if missing:
        (ours,) = race(lambda: pm.associate(likelihood))
        report.add(
            what, "none", milliseconds(ours.best), "", ours.best, "s", None, note=missing
        )
        return
    ours, theirs, found = against_slow(
        lambda: pm.associate(likelihood),
        lambda: np.array([ehm2.association(frame) for frame in likelihood]),
        rounds,
    )
    gap = np.abs(pm.associate(likelihood) - found).max()
    _add(report, what, "pyehm EHM2, frame by frame", ours, theirs, None, gap)


def _add(report, what, rival, ours, theirs, target, gap, of="probabilities", note=""):
    report.add(
        what,
        rival,
        milliseconds(ours.best),
        milliseconds(theirs.best),
        theirs.best / ours.best,
        "times faster",
        target,
        is_lower_better=False,
        accuracy=f"{of} differ by {gap:.0e}",
        spread=spreads(ours, theirs),
        note=note,
    )
