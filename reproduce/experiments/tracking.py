"""Linking boxes across frames, and tracking, on TUD-Campus with an imitated detector.

    links_time, links_people   boxes of two frames a gap apart, split by time or by people
    tracks                     every gap-th frame, split by time, tracked and judged by
                               py-motmetrics

Boxes are dropped, moved and resized at random, anew in every repeat.  Both parts of a split
are tested in turn and counted together.  Learners see some views of the training part, each
with chance of its own, and so do the thresholds of their rivals.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from permatch._validation import check_count
from permatch.datasets import Boxes
from permatch.errors import InvalidOptionError
from permatch.tracking import frame_pairs
from reproduce.experiments.box_tracker import (
    Link,
    follow,
    judge_tracks,
    lessons,
    link_by_iou,
    link_by_model,
)
from reproduce.experiments.frame_links import METHODS, Lessons, answer, fit_permatch
from reproduce.experiments.link_measures import measure_links
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint
from reproduce.experiments.tud_campus import (
    Campus,
    imitate_detector,
    load_campus,
    thin_out,
)

#: What together names a row.
KEY = ("config", "task", "gap", "repeat", "method")
TRACKERS = ("iou", "permatch")

#: Raised whenever rows of before can no longer be compared with new ones.
_SCHEMA = 1

# Work of a row, in any unit.
_COSTS = {"links_time": 1.0, "links_people": 0.7, "tracks": 3.0}


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    gaps : tuple of int
        Frames between two frames whose boxes are linked.
    strides : tuple of int
        Of the frames that are tracked, every which one is seen.
    n_repeats : int
        How often the detector is imitated.
    n_views : int
        Imitations of the training part to learn from.
    drop, jitter : float
        Share of boxes not found; standard deviation of centres and sizes, relative to the
        size.
    reach : float
        Largest distance of candidate pairs, in heights.
    alphas : tuple of float
        Penalties that permatch chooses from.
    thresholds : tuple of float
        Intersections over unions that the rival tracker chooses from.
    max_missed : tuple of int
        Frames that a track may be missed for, from which both trackers choose.
    seed : int
        Seed of all chance.
    data : str, optional
        Where to look for the boxes; None looks where ``PERMATCH_DATA`` says.
    """

    gaps: tuple[int, ...] = (1, 5, 10)
    strides: tuple[int, ...] = (1, 5)
    n_repeats: int = 10
    n_views: int = 3
    drop: float = 0.2
    jitter: float = 0.05
    reach: float = 1.5
    alphas: tuple[float, ...] = (1.0, 0.1, 0.01, 1e-3, 1e-4)
    thresholds: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    max_missed: tuple[int, ...] = (1, 2, 5, 10)
    seed: int = 0
    data: str | None = None

    def __post_init__(self) -> None:
        check_count(self.n_repeats, "n_repeats", 1)
        check_count(self.n_views, "n_views", 1)
        for name in ("gaps", "strides", "alphas", "thresholds", "max_missed"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for gap in self.gaps + self.strides:
            check_count(gap, "every entry of gaps and strides", 1)
        if not (0.0 <= self.drop < 1.0 and self.jitter >= 0.0):
            raise InvalidOptionError(
                "drop must be at least 0 and below 1, and jitter at least 0; got "
                f"{self.drop} and {self.jitter}."
            )

    @classmethod
    def tiny(cls, data: str | None = None) -> "Config":
        """Return a configuration of a few seconds on a small sequence, for tests."""
        return cls(
            gaps=(2,),
            strides=(1,),
            n_repeats=2,
            n_views=1,
            alphas=(0.1, 0.01),
            thresholds=(0.1, 0.3),
            max_missed=(2,),
            data=data,
        )

    @classmethod
    def quick(cls, data: str | None = None) -> "Config":
        """Return a smaller experiment of the same kind, under a minute."""
        return cls(
            gaps=(1, 5),
            strides=(5,),
            n_repeats=2,
            n_views=1,
            alphas=(0.1, 0.01, 1e-3),
            thresholds=(0.0, 0.2, 0.4),
            max_missed=(2, 5),
            data=data,
        )

    def fingerprint(self, campus: Campus) -> str:
        """Return what names this configuration, on this data, in its rows."""
        left_out = ("gaps", "strides", "n_repeats", "data")
        return fingerprint(asdict(self), left_out, schema=_SCHEMA, content=campus.digest)


@experiment(KEY)
def run(config: Config, n_jobs: int | None = None) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``task``, ``gap``, ``repeat``, ``method``, ``seconds``; ``chosen``, what
        was chosen on training data, one entry per part; for links the measures of
        `link_measures.MEASURES`, for tracks those of `box_tracker.judge_tracks`.

    Notes
    -----
    About ten minutes on two cores with the default configuration.
    """
    campus = load_campus(config.data)
    n_frames = int(campus.truth.frame.max())
    if 2 * (max(config.gaps + config.strides) + 1) > n_frames:
        raise InvalidOptionError(
            f"gaps and strides must be below half of the {n_frames} frames; got "
            f"{max(config.gaps + config.strides)}."
        )
    tasks = [
        (task, gap, repeat, method)
        for task, gaps, methods in (
            ("links_time", config.gaps, METHODS),
            ("links_people", config.gaps, METHODS),
            ("tracks", config.strides, TRACKERS),
        )
        for gap in gaps
        for repeat in range(config.n_repeats)
        for method in methods
    ]
    return Plan(
        config.fingerprint(campus),
        tasks,
        lambda key, show: _measure(config, campus, key, n_jobs),
        lambda key: _COSTS[key["task"]],
    )


def _measure(config: Config, campus: Campus, key: Row, n_jobs: int | None) -> Row:
    """Return how good one method is in one repeat, and what it took."""
    start = time.perf_counter()
    measure = _measure_tracks if key["task"] == "tracks" else _measure_links
    with threadpool_limits(1):  # threads only wait for each other on such small arrays
        row = measure(config, campus, key, n_jobs)
    return row | {"seconds": round(time.perf_counter() - start, 3)}


def _views(
    config: Config, campus: Campus, split: str, repeat: int, part: int
) -> tuple[list[Boxes], Boxes, Boxes]:
    """Return views of the part to learn from, one of the other, and the truth of that."""
    halves = [campus.truth[mask] for mask in campus.halves(split)]
    views = [
        imitate_detector(
            halves[part if k else 1 - part],
            config.drop,
            config.jitter,
            np.random.default_rng([config.seed, repeat, part, k]),
        )
        for k in range(config.n_views + 1)
    ]
    return views[1:], views[0], halves[1 - part]


def _measure_links(config: Config, campus: Campus, key: Row, n_jobs: int | None) -> Row:
    split = key["task"].removeprefix("links_")
    true, taken, probability, chosen, n_links = [], [], [], [], 0
    for part in (0, 1):
        views, seen, _ = _views(config, campus, split, key["repeat"], part)
        lesson, test = (
            Lessons.of(
                [
                    frame_pairs(
                        boxes, key["gap"], size=campus.size, max_distance=config.reach
                    )
                    for boxes in several
                ]
            )
            for several in (views, [seen])
        )
        found = answer(key["method"], lesson, test, config.alphas, n_jobs)
        true.append(test.is_true)
        taken.append(found.is_taken)
        probability.append(found.probability)
        chosen.append(found.chosen)
        n_links += test.n_links
    pooled = (np.concatenate(values) for values in (true, taken, probability))
    return measure_links(*pooled, n_true=n_links) | {"chosen": chosen}


def _measure_tracks(config: Config, campus: Campus, key: Row, n_jobs: int | None) -> Row:
    stride, chosen = key["gap"], []
    judged: list[tuple[Boxes, Boxes]] = []
    for part in (0, 1):
        views, seen, truth = _views(config, campus, "time", key["repeat"], part)
        own = campus.truth[campus.halves("time")[part]]
        lesson = [
            (thin_out(own, stride, phase), thin_out(view, stride, phase))
            for view in views
            for phase in range(stride)
        ]
        link, max_missed, choice = _tune(config, campus, key["method"], lesson, n_jobs)
        chosen.append(choice)
        for phase in range(stride):
            boxes = thin_out(seen, stride, phase)
            judged.append((thin_out(truth, stride, phase), follow(boxes, link, max_missed)))
    return judge_tracks(judged) | {"chosen": chosen}


def _tune(
    config: Config,
    campus: Campus,
    method: str,
    lesson: list[tuple[Boxes, Boxes]],
    n_jobs: int | None,
) -> tuple[Link, int, dict[str, Any]]:
    """Return how to link and when to give up: the best IDF1 on the training part."""
    choices: list[tuple[Link, int, dict[str, Any]]] = []
    for max_missed in config.max_missed:
        links: list[tuple[Link, dict[str, Any]]] = []
        if method == "permatch":
            known = [
                lessons(boxes, max_missed, campus.size, config.reach) for _, boxes in lesson
            ]
            model = fit_permatch(Lessons.of(known), config.alphas, n_jobs)
            link = link_by_model(model, campus.size, config.reach)
            links.append((link, {"alpha": float(model.alpha_)}))
        else:
            links += [(link_by_iou(t), {"threshold": t}) for t in config.thresholds]
        choices += [
            (link, max_missed, choice | {"max_missed": max_missed})
            for link, choice in links
        ]
    scores = [
        judge_tracks([(true, follow(boxes, link, max_missed)) for true, boxes in lesson])
        for link, max_missed, _ in choices
    ]
    return choices[int(np.argmax([score["idf1"] for score in scores]))]
