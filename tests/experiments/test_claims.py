"""Verdicts on made-up numbers: every claim, both ways, and where nothing can be told."""

import json
from math import inf, nan

import numpy as np
import pytest

from permatch.experiments.claims import (
    Effect,
    Verdict,
    effect_of,
    from_error,
    judge,
    ratio_of,
    widest,
)
from permatch.experiments.evidence import (
    house_effects,
    ranking_effects,
    runtime_effects,
    sample_size_effects,
    silhouette_effects,
    weak_start_effects,
)
from permatch.experiments.outcomes import CLAIMS, conclude, explain, not_run

YES, NO, OPEN = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.UNDECIDED


# ---- the rule ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sides", "verdict"),
    [
        ([1], YES),
        ([1, 1], YES),
        ([1, 0], OPEN),
        ([0], OPEN),
        ([], OPEN),
        ([1, -1], NO),
        ([0, -1], NO),
    ],
)
def test_all_must_hold_and_one_is_enough_against(sides, verdict):
    bounds = {1: (0.1, 0.3), 0: (-0.1, 0.3), -1: (-0.3, -0.1)}
    effects = [Effect("x", sum(bounds[s]) / 2, *bounds[s], "5 repeats") for s in sides]
    assert [effect.side for effect in effects] == sides
    assert judge(effects) is verdict


def test_the_interval_is_students():
    effect = effect_of([1.0, 2.0, 3.0, 4.0, 5.0], "x")
    half = 2.7764451 * np.sqrt(2.5 / 5)  # t of 4 degrees of freedom
    assert (effect.mean, effect.over) == (3.0, "5 repeats")
    np.testing.assert_allclose([effect.low, effect.high], [3 - half, 3 + half])
    assert effect_of([1.0] * 106, "x", "query").over == "106 queries"


def test_a_single_value_decides_nothing():
    effect = effect_of([1e9], "x")
    assert (effect.low, effect.high, effect.side) == (-inf, inf, 0)
    assert effect.over == "1 repeat"
    assert "without an interval from 1 repeat" in explain([effect])
    assert from_error("x", 1.0, inf, 6, "7 test pairs").side == 0


def test_equal_values_are_certain_unless_they_are_zero():
    assert effect_of([0.2, 0.2], "x").side == 1
    assert effect_of([0.0, 0.0], "x").side == 0


def test_a_stricter_test_may_leave_it_open():
    assert Effect("x", 0.2, 0.1, 0.3, "9 queries", is_certain=False).side == 0


def test_ratios_are_held_against_one():
    slower = ratio_of([10.0, 12.0, 11.0], [1.0, 1.0, 1.0], "x")
    assert slower.mean == pytest.approx((10 * 11 * 12) ** (1 / 3))
    assert slower.low > 1.0
    assert slower.side == 1
    assert ratio_of([1.0, 1.0, 1.0], [10.0, 12.0, 11.0], "x").side == -1
    assert ratio_of([1.0, 2.0, 0.5], [1.0, 1.0, 1.0], "x").side == 0
    single = ratio_of([10.0], [1.0], "x")
    assert (single.low, single.high, single.side) == (0.0, inf, 0)


def test_the_wider_interval_counts():
    narrow, wide = effect_of([0.1, 0.11, 0.12], "x"), effect_of([0.3, -0.1, 0.13], "x")
    assert widest([narrow, wide]) is wide
    assert widest([effect_of([0.1], "x"), narrow]).side == 0


# ---- the claims, from rows ---------------------------------------------------------------


def silhouettes(first, last, n_repeats=5):
    """Rows in which MAP is ahead by `first` with 5 pairs and by `last` with 60."""
    rng = np.random.default_rng(0)
    rows = []
    for repeat in range(n_repeats):
        for n, lead in ((5, first), (60, last)):
            base = 0.3 + 0.05 * rng.normal()  # repeats differ more than methods
            noise = 0.002 * rng.normal()
            for method, loss in (("map", base - lead + noise), ("max_margin", base)):
                rows.append(
                    {"repeat": repeat, "n": n, "method": method, "hamming_loss": loss}
                )
        rows.append({"repeat": repeat, "n": 0, "method": "unweighted", "hamming_loss": 0.5})
    return rows


@pytest.mark.parametrize(
    ("first", "last", "verdict"),
    [
        (0.0, 0.03, YES),
        (0.03, 0.0, NO),  # the lead is lost as pairs are added
        (0.0, -0.03, NO),
        (0.03, 0.03, OPEN),  # ahead, but no further than at first
        (0.0, 0.0, OPEN),
    ],
)
def test_silhouettes(first, last, verdict):
    assert judge(silhouette_effects(silhouettes(first, last))) is verdict


def test_one_repeat_of_silhouettes_decides_nothing():
    assert judge(silhouette_effects(silhouettes(0.0, 0.3, n_repeats=1))) is OPEN


def subsets(first, last, by_repeat=0.0, n_repeats=5):
    """Rows in which RankMatch is ahead by `first` with few subsets, `last` with many."""
    rng = np.random.default_rng(0)
    rows = []
    for repeat in range(n_repeats):
        for share, lead in ((0.03, first), (1.0, last)):
            shift = by_repeat * (-1) ** repeat * (share == 1.0)
            for method, plus in (("rankmatch", lead + shift), ("dorm", 0.0)):
                values = 0.5 + plus + 0.01 * rng.normal(size=(40, 10))
                rows.append(
                    {
                        "repeat": repeat,
                        "fold": 1,
                        "n_subsets": share,
                        "method": method,
                        "queries": list(range(40)),
                        "per_query": values.tolist(),
                    }
                )
    return rows


@pytest.mark.parametrize(
    ("first", "last", "by_repeat", "verdict"),
    [
        (0.0, 0.05, 0.0, YES),
        (0.05, 0.0, 0.0, NO),
        (0.0, 0.0, 0.0, OPEN),
        # Clear over queries, but repeats contradict each other.
        (0.0, 0.05, 0.2, OPEN),
        (0.0, -0.05, 0.2, OPEN),
    ],
)
def test_subsets(first, last, by_repeat, verdict):
    assert judge(sample_size_effects(subsets(first, last, by_repeat))) is verdict


def test_one_repeat_of_subsets_decides_nothing():
    assert judge(sample_size_effects(subsets(0.0, 0.3, n_repeats=1))) is OPEN


def paired_test(method, difference, p_holm):
    """A rival's line: a positive difference is a lead over RankMatch."""
    return {
        "method": method,
        "difference": difference,
        "low": difference - 0.01,
        "high": difference + 0.01,
        "p_holm": p_holm,
        "n_queries": 106,
    }


@pytest.mark.parametrize(
    ("dorm", "rankboost", "verdict"),
    [
        ((-0.05, 0.001), (-0.05, 0.001), YES),
        ((-0.05, 0.001), (-0.05, 0.2), OPEN),
        ((+0.05, 0.001), (-0.05, 0.001), NO),
        ((-0.003, 0.8), (-0.011, 0.9), OPEN),
    ],
)
def test_rankings(dorm, rankboost, verdict):
    tests = [
        paired_test("ridge", 0.5, 0.001),  # not in the paper, so not asked
        paired_test("dorm", *dorm),
        paired_test("rankboost", *rankboost),
    ]
    assert judge(ranking_effects(tests)) is verdict


def test_a_rival_without_queries_leaves_its_part_open():
    effects = ranking_effects([paired_test("dorm", -0.05, 0.001)])
    assert judge(effects) is OPEN
    assert "RankBoost: not known, no single queries published." in explain(effects)
    assert effects[1].to_json()["mean"] is None
    assert judge(ranking_effects([paired_test("dorm", 0.05, 0.001)])) is NO


@pytest.mark.parametrize(("lead", "verdict"), [(0.2, YES), (-0.2, NO), (0.0, OPEN)])
def test_a_weak_start(lead, verdict):
    rng = np.random.default_rng(0)
    rows = [
        {
            "method": method,
            "fold": 1,
            "queries": list(range(50)),
            "per_query": (0.5 + plus + 0.1 * rng.normal(size=(50, 10))).tolist(),
        }
        for method, plus in (("rankmatch", 0.0), ("rankboost", lead))
    ]
    assert judge(weak_start_effects(rows)) is verdict
    assert judge(weak_start_effects(rows[:1])) is OPEN


def times(ratio, task="images", n_repeats=3):
    names = {"images": ("map", "max_margin"), "ranking": ("rankmatch", "dorm")}
    return [
        {
            "repeat": repeat,
            "task": kind,
            "size": size,
            "method": method,
            "seconds_per_observation": seconds * (1 + 0.05 * repeat * (k + 1)),
        }
        for repeat in range(n_repeats)
        for kind, size, slow in (
            (task, 20, ratio),
            ("ranking", 3, 1.0),
            ("ranking", "all", 9),
        )
        for k, (method, seconds) in enumerate(
            zip(names[kind], (1e-3 * slow, 1e-3), strict=True)
        )
    ]


@pytest.mark.parametrize(("ratio", "verdict"), [(39, YES), (0.1, NO), (1.0, OPEN)])
@pytest.mark.parametrize("task", ["images", "ranking"])
def test_run_times(ratio, verdict, task):
    (effect,) = runtime_effects(times(ratio, task))
    assert judge([effect]) is verdict
    assert effect.mean == pytest.approx(ratio, rel=0.2)
    assert "of 20" in effect.what


def test_one_repeat_of_times_decides_nothing():
    assert judge(runtime_effects(times(39, n_repeats=1))) is OPEN


@pytest.mark.parametrize(
    ("learnt", "verdict"), [(0.1, YES), (0.9, NO), (0.45, OPEN)], ids=["yes", "no", "open"]
)
def test_the_house(learnt, verdict):
    methods = ("unweighted", "map", "map_drawn", "max_margin")
    near = {"gap": 10, "n_test": 30} | dict.fromkeys(methods, 0.0)
    far = {"gap": 90, "n_test": 7, "unweighted": 0.5, "map": learnt}
    far |= {"map_drawn": 0.1, "max_margin": 0.1}
    lines = [line | {f"{m}_error": 0.03 for m in methods} for line in (far, near)]
    assert judge(house_effects(lines)) is verdict
    unknown = [line | {"map_error": None} for line in lines]
    assert house_effects(unknown)[0].side == 0


# ---- what is written down ----------------------------------------------------------------


def test_an_outcome_is_plain_json():
    rows = silhouettes(0.03, 0.0)
    rows[0] |= {"path": [{"seconds": 1.5}, {"seconds": 2.0}], "seconds": 9.0}
    rows[1] |= {"path": [[0.1, 0.2]], "seconds": 0.5}
    outcome = conclude(
        CLAIMS["figure-3-left"],
        silhouette_effects(rows),
        config=None,
        rows=rows,
        summary=[{"n": 5}],
        date="2009-06-30",
    )
    content = json.loads(json.dumps(outcome.to_json(), allow_nan=False))
    assert content["verdict"] == "not reproduced"
    assert content["seconds"] == 4.0
    assert content["date"] == "2009-06-30"
    assert content["claim"] == CLAIMS["figure-3-left"].text
    assert "against the claim" in content["reason"]
    assert [effect["side"] for effect in content["effects"]] == [0, -1]
    assert not outcome.to_json().keys() & {"rows", "text"}


def test_what_was_not_run_says_why():
    content = not_run(CLAIMS["house"], "the frames are needed").to_json()
    assert content["verdict"] == "not run: no data"
    assert content["reason"] == "the frames are needed"
    assert content["effects"] == []
    assert json.dumps(content, allow_nan=False)


def test_no_number_is_no_number():
    effect = Effect("x", nan, -inf, inf, "nothing")
    assert effect.side == 0
    assert effect.to_json()["low"] is None
