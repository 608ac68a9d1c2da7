"""Verdicts on made-up numbers: every claim, both ways, and where nothing can be told."""

import json
import re
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from reproduce.experiments.claims import (
    Effect,
    Verdict,
    effect_of,
    from_error,
    judge,
    ratio_of,
    widest,
)
from reproduce.experiments.evidence import (
    JUDGED,
    STYLED,
    house_effects,
    ranking_effects,
    runtime_effects,
    sample_size_effects,
    silhouette_effects,
    weak_start_effects,
)
from reproduce.experiments.outcomes import CLAIMS, conclude, explain, not_run
from reproduce.experiments.ranking_summary import compare
from reproduce.rivals import RIVALS

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


def test_equal_values_have_no_interval_and_decide_nothing():
    assert effect_of([0.2, 0.2], "x").side == 0
    assert effect_of([0.3 - 0.1, 0.2], "x").side == 0  # equal but for rounding
    assert effect_of([-0.2, -0.2], "x").side == 0
    assert effect_of([0.2, 0.21], "x").side == 1
    for values in ([0.2] * 3, [-0.2] * 3, [0.0] * 27, [0.3 - 0.1, 0.2, 0.2]):
        effect = effect_of(values, "x")
        assert (effect.low, effect.high, effect.side) == (-inf, inf, 0)
        assert "without an interval" in explain([effect])


@pytest.mark.parametrize(("p_holm", "side"), [(0.3, 0), (0.05, 0), (0.04, 1), (None, 1)])
def test_a_test_may_leave_open_what_the_interval_does_not(p_holm, side):
    effect = Effect("x", 0.2, 0.1, 0.3, "9 queries", p_holm=p_holm)
    assert effect.side == side
    said = explain([effect])
    if p_holm is None:
        assert "Holm" not in said
    else:
        assert f"p\u00a0=\u00a0{p_holm:.3f} after Holm's correction, " in said
    assert said.endswith("as claimed." if side else "so it is open.")


def test_what_is_told_beside_a_claim_has_no_part_in_the_verdict():
    good, bad = effect_of([0.1, 0.2, 0.15], "a"), effect_of([-0.1, -0.2, -0.15], "NDCG@1")
    beside = replace(bad, is_judged=False)
    assert judge([good, bad]) is NO
    assert judge([good, beside]) is YES
    assert judge([beside]) is OPEN
    assert "Beside the claim, not judged: NDCG@1: \u22120.150 (95" in explain([beside])
    assert "against" not in explain([beside])
    assert beside.to_json()["is_judged"] is False


def test_a_bound_other_than_zero_is_named():
    effect = replace(effect_of([-0.01, -0.02, -0.015], "x"), null=-0.05)
    assert effect.side == 1
    assert "X: \u22120.015, claimed to be above \u22120.050 (95" in explain([effect])
    assert "claimed to be above" not in explain([effect_of([0.1, 0.2], "x")])


def test_ratios_are_held_against_one():
    slower = ratio_of([10.0, 12.0, 11.0], [1.0, 1.0, 1.0], "x")
    assert slower.mean == pytest.approx((10 * 11 * 12) ** (1 / 3))
    assert slower.low > 1.0
    assert slower.side == 1
    assert ratio_of([1.0, 1.0, 1.0], [10.0, 12.0, 11.0], "x").side == -1
    assert ratio_of([1.0, 2.0, 0.5], [1.0, 1.0, 1.0], "x").side == 0
    assert ratio_of([10.0, 12.0, 11.0], [1.0, 1.0, 1.0], "x", null=20.0).side == -1
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
        (0.03, 0.03, YES),  # a lead at the end is all that is claimed
        (0.0, -0.03, NO),
        (0.03, 0.0, OPEN),
        (0.0, 0.0, OPEN),
    ],
)
def test_silhouettes(first, last, verdict):
    lead, growth = silhouette_effects(silhouettes(first, last))
    assert judge([lead, growth]) is verdict
    assert (lead.is_judged, growth.is_judged) == (True, False)
    assert growth.mean == pytest.approx(last - first, abs=0.005)


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
        (-0.1, -0.05, 0.0, YES),  # gains more, though from behind
        (0.05, 0.0, 0.0, NO),
        (0.0, 0.0, 0.0, OPEN),
        (0.05, 0.05, 0.0, OPEN),  # ahead all the time
        # Clear over queries, but repeats contradict each other.
        (0.0, 0.05, 0.2, OPEN),
        (0.0, -0.05, 0.2, OPEN),
    ],
)
def test_subsets(first, last, by_repeat, verdict):
    growth, lead = sample_size_effects(subsets(first, last, by_repeat))
    assert judge([growth, lead]) is verdict
    assert (growth.is_judged, lead.is_judged) == (True, False)


def test_one_repeat_of_subsets_decides_nothing():
    assert judge(sample_size_effects(subsets(0.0, 0.3, n_repeats=1))) is OPEN


def rankings(rankmatch=0.5, n_repeats=5, by_repeat=0.0, fewer=0, **rivals):
    """Rows of RankMatch and rivals with these means at every k, or at 1 and at 10.

    Of RankBoost the first `fewer` queries are missing.
    """
    rng = np.random.default_rng(1)
    hardness = 0.1 * rng.permuted(np.linspace(-1, 1, 50))[:, None]  # the same for all
    rows = []
    for method, level in ({"rankmatch": rankmatch} | rivals).items():
        ndcg = np.linspace(*level, 10) if isinstance(level, tuple) else np.full(10, level)
        for repeat in range(n_repeats if method in ("rankmatch", "dorm") else 1):
            row = {"method": method, "repeat": repeat, "fold": 1}
            shift = by_repeat * (-1) ** repeat * (method == "rankmatch")
            values = ndcg + hardness + shift + 0.02 * rng.normal(size=(50, 10))
            queries = list(range(fewer if method == "rankboost" else 0, 50))
            row |= {"queries": queries, "per_query": values[queries].tolist()}
            row["ndcg"] = row["ndcg_letor"] = values[queries].mean(axis=0).tolist()
            rows.append(row)
    return rows


def judge_ranking(rows):
    return judge(ranking_effects(rows, compare(rows, "rankmatch", n_resamples=2000)))


#: The rivals that are judged, and those that are told beside the claim.
FOR = ("rankboost", "ranksvm", "listnet", "adarank_map", "adarank_ndcg")
BESIDE = ("frank", "qbrank", "isorank", "dorm")
WELL = dict.fromkeys((*FOR, *BESIDE), 0.4)


@pytest.mark.parametrize(
    ("levels", "verdict"),
    [
        ({}, YES),
        # One judged rival that is surely ahead is enough against, one that is level opens.
        *(({method: 0.6}, NO) for method in FOR),
        *(({method: 0.5}, OPEN) for method in FOR),
        # Only in the style of what was published, or no win is claimed.
        *(({method: 0.6}, YES) for method in BESIDE),
        # Not on all three data sets, or not in the paper, or published: not asked.
        ({"sortnet": 0.9, "structrank": 0.9, "ridge": 0.9}, YES),
        ({"rankboost_published": 0.9}, YES),
    ],
)
def test_rankings(levels, verdict):
    assert judge_ranking(rankings(**WELL | levels)) is verdict


def test_what_is_judged_of_a_ranking():
    rows = rankings(**WELL | {"ranksvm": 0.3, "dorm": 0.6})
    effects = ranking_effects(rows, compare(rows, "rankmatch", n_resamples=2000))
    assert [effect.is_judged for effect in effects] == [True] * 5 + [False] * 4
    found = [effect.mean for effect in effects]
    expected = [0.1, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, -0.1]
    np.testing.assert_allclose(found, expected, atol=0.006)
    assert effects[0].what.endswith("RankMatch is ahead of RankBoost")
    assert effects[5].what.endswith("RankMatch is ahead of FRank-style")
    assert all(effect.p_holm < 0.05 for effect in effects)


def test_the_rule_names_the_rivals_it_judges_by():
    rule = CLAIMS["figure-2-ohsumed"].rule
    judged, told = rule.split("The leads over")
    for rival in RIVALS.values():
        name = rival.name.removesuffix("-style")
        assert (name in judged) == (rival.method in JUDGED)
        assert (name in told.partition("are told")[0]) == (rival.method in STYLED)
    assert (*JUDGED, *STYLED) == (*FOR, *BESIDE[:-1])


def test_a_ranking_needs_repeats_that_agree():
    assert judge_ranking(rankings(**WELL, n_repeats=1)) is OPEN
    assert judge_ranking(rankings(**WELL, by_repeat=0.2)) is OPEN
    worse = dict.fromkeys(WELL, 0.6)
    assert judge_ranking(rankings(**worse)) is NO
    assert judge_ranking(rankings(**worse, by_repeat=0.2)) is OPEN


def test_a_p_value_above_one_in_twenty_leaves_a_ranking_open():
    rows = rankings(**WELL)
    tests = compare(rows, "rankmatch", n_resamples=2000)
    open_ = [test | {"p_holm": 0.2} for test in tests]
    assert judge(ranking_effects(rows, open_)) is OPEN


def test_a_ranker_that_is_not_there_leaves_its_part_open():
    some = {method: level for method, level in WELL.items() if method != "ranksvm"}
    rows = rankings(**some)
    tests = compare(rows, "rankmatch", n_resamples=2000)
    effects = ranking_effects(rows, tests)
    assert judge(effects) is OPEN
    assert "RankSVM: not known, no results." in explain(effects)
    assert effects[1].to_json()["mean"] is None
    assert judge_ranking(rankings(**some | {"rankboost": 0.6})) is NO


@pytest.mark.parametrize(
    ("first", "last", "verdict"),
    [
        (0.7, 0.5, YES),  # of RankBoost, at 1 and at 10; RankMatch has 0.5
        (0.7, 0.3, YES),
        (0.7, 0.53, YES),  # a little behind is fairly well
        (0.9, 0.9, NO),  # behind everywhere
        (0.3, 0.3, NO),  # ahead at first
        (0.5, 0.5, OPEN),
        (0.7, 0.55, OPEN),
    ],
)
def test_a_weak_start(first, last, verdict):
    assert judge(weak_start_effects(rankings(rankboost=(first, last)))) is verdict


def test_a_weak_start_is_of_queries_that_both_have():
    first, last = weak_start_effects(rankings(rankboost=(0.7, 0.5), fewer=3))
    assert judge([first, last]) is YES
    few = weak_start_effects(rankings(rankboost=(0.7, 0.5), fewer=48, by_repeat=0.001))
    assert few[0].over in ("2 queries", "5 repeats")
    assert judge(weak_start_effects(rankings())) is OPEN
    assert judge(weak_start_effects(rankings(rankboost=(0.7, 0.5), n_repeats=1))) is OPEN


def times(large, small=1.0, task="images", n_repeats=3):
    """Rows in which the model takes so many times as long as max-margin."""
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
            (task, 20, large),
            ("ranking", 3, 1.0),
            ("ranking", 5, small),
            ("ranking", "all", 9),
        )
        for k, (method, seconds) in enumerate(
            zip(names[kind], (1e-3 * slow, 1e-3), strict=True)
        )
    ]


@pytest.mark.parametrize(
    ("large", "small", "verdict"),
    [
        (39, 1.0, YES),
        (39, 0.1, YES),  # faster than max-margin is competitive
        (1.05, 1.0, NO),  # longer, but not much
        (0.1, 1.0, NO),
        (2.0, 1.0, OPEN),
        (39, 9.0, NO),  # much longer where it should not be
        (39, 2.0, OPEN),
    ],
)
@pytest.mark.parametrize("task", ["images", "ranking"])
def test_run_times(large, small, verdict, task):
    effects = runtime_effects(times(large, small, task))
    assert judge(effects) is verdict
    assert [effect.null for effect in effects] == [2.0, 0.5, 0.5]
    assert effects[0].mean == pytest.approx(large, rel=0.2)
    assert effects[2].mean == pytest.approx(1 / small, rel=0.2)
    for effect, size in zip(effects, (20, 3, 5), strict=True):
        assert f"of {size}" in effect.what


def test_one_repeat_of_times_decides_nothing():
    assert judge(runtime_effects(times(39, n_repeats=1))) is OPEN


def house(learnt, spread=0.02, n_test=7):
    """Rows in which one learner loses `learnt` at the widest gap, the others 0.1.

    Pairs of frames differ far more than methods do, as on the real house.
    """
    rng = np.random.default_rng(0)
    rows = []
    for gap in (90, 10):
        hardness = 0.3 * rng.normal(size=n_test)
        for method in ("unweighted", "map", "map_drawn", "max_margin"):
            level = {"unweighted": 0.5, "map": learnt}.get(method, 0.1)
            losses = hardness + level * (gap == 90) + spread * rng.normal(size=n_test)
            rows.append({"gap": gap, "method": method, "losses": losses.tolist()})
    return rows


@pytest.mark.parametrize(
    ("learnt", "verdict"), [(0.4, YES), (0.6, NO), (0.5, OPEN)], ids=["yes", "no", "open"]
)
def test_the_house(learnt, verdict):
    rows = house(learnt)
    effects = house_effects(rows)
    assert judge(effects) is verdict
    assert effects[0].over == "7 test pairs"
    assert "a gap of 90 (MAP, Bethe)" in effects[0].what
    assert judge(house_effects(rows, 10)) is OPEN


def test_one_pair_of_frames_decides_nothing():
    assert judge(house_effects(house(0.1, n_test=1))) is OPEN


# ---- what is written down ----------------------------------------------------------------


def test_an_outcome_is_plain_json():
    rows = silhouettes(0.0, -0.03)
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
    assert [effect["side"] for effect in content["effects"]] == [-1, -1]
    assert [effect["is_judged"] for effect in content["effects"]] == [True, False]
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


# ---- what is published -------------------------------------------------------------------

RESULTS = (Path(__file__).parents[2] / "docs/results/paper.json").read_text("utf-8")


def test_the_published_verdicts_are_those_of_a_full_run_of_todays_claims():
    found = json.loads(RESULTS)
    assert not found["is_quick"]
    claims = {one["id"]: (one["claim"], one["rule"]) for one in found["experiments"]}
    assert claims == {claim.id: (claim.text, claim.rule) for claim in CLAIMS.values()}
    assert not re.search(r"(?<![\w.])/(?:home|root|tmp|work|Users)/", RESULTS)


def test_the_published_effects_are_still_judged_alike():
    for found in json.loads(RESULTS)["experiments"]:
        if found["verdict"] == Verdict.NOT_RUN:
            continue
        effects = []
        for content in found["effects"]:
            side = content.pop("side")
            ends = {"mean": nan, "low": -inf, "high": inf}
            known = {name: v for name, v in content.items() if v is not None}
            effects.append(Effect(**ends | known))
            assert effects[-1].side == side
        assert judge(effects).value == found["verdict"]
        assert explain(effects) == found["reason"]
