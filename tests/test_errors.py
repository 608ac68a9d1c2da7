"""Bad input: each kind has an error of its own type that says what to do."""

import re

import numpy as np
import pytest

import permatch as pm
from permatch import errors
from permatch.inference.sampling import matching_samples
from permatch.inference.sampling.matching_samples import MatchingSamples
from tests.helpers import ENGINES

NAN, INF = np.nan, np.inf

BAD_SCORES = {
    "nan": (
        [[0, NAN], [1, 2]],
        errors.NaNScoreError,
        r"1 of them, the first at \(0, 1\).*-np.inf",
    ),
    "+inf": ([[0, INF], [1, 2]], errors.InfiniteScoreError, r"got inf at \(0, 1\).*given="),
    "overflow": ([[1e301]], errors.InfiniteScoreError, r"at most 1e\+300"),
    "underflow": (
        [[-1e301]],
        errors.InfiniteScoreError,
        r"at most 1e\+300 in size, or -inf",
    ),
    "one-dimensional": (np.zeros(4), errors.ScoreShapeError, r"shape \(4,\)"),
    "four-dimensional": (
        np.zeros((1, 1, 2, 2)),
        errors.ScoreShapeError,
        r"stack \(b, n, k\)",
    ),
    "nan in list": (
        [np.zeros((1, 1)), [[0, NAN], [0, 0]]],
        errors.NaNScoreError,
        "graph 1 must",
    ),
    "ragged": ([[1, 2], [3]], errors.ScoreShapeError, "lengths differ"),
    "ragged deep": ([[[1, 2], [3]], [[1]]], errors.ScoreShapeError, "differ in length"),
    "text": ("scores", errors.ScoreTypeError, "real numbers"),
    "texts": ([["a", "b"], ["c", "d"]], errors.ScoreTypeError, "dtype <U1"),
    "none": (None, errors.ScoreTypeError, "dtype object"),
    "objects": (np.array([[1, None], [2, 3]]), errors.ScoreTypeError, "dtype object"),
    "complex": (np.zeros((2, 2), dtype=complex), errors.ScoreTypeError, "real part"),
    "mask": (
        np.ones((2, 2), dtype=bool),
        errors.ScoreTypeError,
        r"np.where\(mask, 0.0, -np.inf\)",
    ),
    "masked": (np.ma.masked_less(np.eye(2), 1), errors.ScoreTypeError, "filled"),
    "dates": (np.zeros((2, 2), dtype="M8[s]"), errors.ScoreTypeError, "datetime64"),
    "infeasible": (
        [[0, -INF], [1, -INF]],
        errors.InfeasibleGraphError,
        "2 of 4 edges allowed",
    ),
    "empty row": ([[-INF, -INF], [1, 0]], errors.InfeasibleGraphError, "Allow more edges"),
    "too large": (
        np.zeros((1001, 1001)),
        errors.SizeLimitError,
        r"at most 1000, got 1001.*about .*seconds.*AutoEngine\(max_size=1001\)",
    ),
    "far too large": (
        np.zeros((2001, 2001)),
        errors.SizeLimitError,
        r"got 2001.*permatch.EdgeScores\), or use engine=permatch.Bethe\(max_size=2001\)",
    ),
}


@pytest.mark.parametrize("name", BAD_SCORES)
def test_bad_scores(name):
    scores, kind, message = BAD_SCORES[name]
    with pytest.raises(kind, match=message):
        pm.infer(scores)


@pytest.mark.parametrize("name", [name for name in BAD_SCORES if name != "nan in list"])
def test_bad_scores_of_a_distribution(name):
    scores, kind, _ = BAD_SCORES[name]
    if kind is errors.ScoreShapeError:
        kind = (errors.ScoreShapeError, errors.ScoreTypeError)
    with pytest.raises(kind):
        _ = pm.MatchingDistribution(scores).log_partition


def test_every_kind_of_error_has_its_own_type_and_a_builtin_one():
    kinds = {kind for _, kind, _ in BAD_SCORES.values()}
    assert len(kinds) == 6
    assert all(issubclass(kind, ValueError) for kind in kinds)
    assert issubclass(errors.ScoreTypeError, TypeError)


@pytest.mark.parametrize("case", ENGINES, ids=str)
def test_every_engine_refuses_what_has_no_perfect_matching(case):
    stack = np.zeros((5, 3, 3))
    stack[2, :, 1] = stack[4, 0, :] = -INF
    with pytest.raises(
        errors.InfeasibleGraphError, match=r"graph 2 \(like 1 other\) of size 3"
    ):
        case.engine.infer(stack)


@pytest.mark.parametrize("case", ENGINES, ids=str)
def test_every_engine_knows_its_limit_and_its_cost(case):
    size = case.engine.max_size + 1
    with pytest.raises(
        errors.SizeLimitError, match=r"got \d+. It would take .* memory"
    ) as info:
        case.engine.infer(np.zeros((size, size)))
    message = str(info.value)
    assert type(case.engine).__name__ in message
    # Following the advice works: the engine named there accepts the graph.
    advice = re.search(r"engine=permatch\.(\w+)\(max_size=(\d+)\)", message)
    if advice:
        kind = getattr(pm, advice[1], type(case.engine))
        kind(max_size=int(advice[2])).check_size(size)
    else:
        assert "Use engine='auto'" in message
        pm.AutoEngine().check_size(size)


def test_exact_engines_say_what_too_large_a_graph_would_cost():
    with pytest.raises(errors.SizeLimitError, match="more than a billion years"):
        pm.infer(np.zeros((999, 999)), "glynn")


@pytest.mark.parametrize("kind", [pm.Glynn, pm.SubsetDP, pm.Ryser])
def test_no_engine_takes_more_than_its_masks_hold(kind):
    with pytest.raises(errors.InvalidOptionError, match="at most 60, got 65"):
        kind(max_size=65)
    with pytest.raises(errors.SizeLimitError) as info:
        kind().infer(np.zeros((65, 65)))
    assert "max_size=" not in str(info.value)


def test_more_memory_than_there_is():
    d = pm.MatchingDistribution(np.zeros((45, 45)), engine=pm.SubsetDP(max_size=45))
    both = (
        "SubsetDP needs about 512 TiB of memory for graphs of size 45; about .* available"
    )
    with pytest.raises(errors.SizeLimitError, match=both):
        d.sample(1)
    with pytest.raises(errors.SizeLimitError, match=both):
        _ = d.log_partition
    d = pm.MatchingDistribution(np.zeros((20, 20)))
    for n in (10**14, 10**30):
        with pytest.raises(errors.SizeLimitError, match=f"{n} samples needs"):
            d.sample(n)
        with pytest.raises(errors.SizeLimitError, match="k_best of .* needs"):
            d.k_best(n)


def test_limits_are_found_before_any_work(monkeypatch):
    monkeypatch.setattr(pm.SmallBatch, "_infer_stack", lambda *_: pytest.fail("worked"))
    with pytest.raises(errors.SizeLimitError):
        pm.infer([np.zeros((3, 3)), np.zeros((1500, 1500))])


def test_a_raised_limit_is_taken(rng):
    scores = rng.normal(size=(10, 10))
    assert pm.Enumeration(max_size=10).max_size == 10
    with pytest.raises(errors.SizeLimitError):
        pm.Glynn(max_size=9).infer(scores)


def test_sampling_says_what_its_table_would_take(rng):
    d = pm.MatchingDistribution(np.zeros((36, 36)), "subset_dp")
    with pytest.raises(errors.SizeLimitError, match=r"1.0 TiB.*engine='auto'") as info:
        d.sample(1)
    assert "raise the limit" not in str(info.value)
    with pytest.raises(errors.SizeLimitError, match="at most 3, got 4"):
        pm.MatchingDistribution(np.zeros((4, 4)), pm.SubsetDP(max_size=3)).sample(1)
    d = pm.MatchingDistribution(5.0 * rng.normal(size=(90, 90)))
    with pytest.raises(
        errors.SizeLimitError, match="at size 90; .* use engine='swap_chain'"
    ):
        d.sample(1000)


def test_draws_that_promised_too_much_end_in_the_same_error(rng, monkeypatch):
    samples = MatchingSamples.build(rng.normal(size=(30, 30)))
    monkeypatch.setattr(matching_samples, "_check_share", lambda *args: None)
    monkeypatch.setattr(matching_samples, "_MOST_DRAWS", 10)
    with pytest.raises(
        errors.SizeLimitError, match="at most 10 draws at size 30; .* engine='swap_chain'"
    ):
        samples.sample(5000, rng)


@pytest.mark.parametrize("size", [1, 25, 31, 32, 100, 1000])
def test_no_more_draws_are_promised_than_are_made(size):
    most = matching_samples._most_draws(size)
    assert 0 < most <= 1e8
    assert most * size**2 <= 1e11


BAD_MATCHINGS = {
    "repeated": ([0, 0, 1], "right node 0 has the left nodes 0 and 1"),
    "out of range": ([1, 2, 3], "counted from 0"),
    "negative": ([-3, 0, 1], "left node 0 has -3"),
    "too short": ([0, 1], r"shape \(2,\)"),
    "floats": ([0.0, 1.0, 2.0], "dtype float64"),
    "text": ("abc", "dtype <U3"),
    "none": (None, "dtype object"),
    "ragged": ([[0, 1, 2], [1]], "different lengths"),
    "three-dimensional": (np.zeros((1, 1, 3), dtype=int), r"shape \(1, 1, 3\)"),
}


@pytest.mark.parametrize("name", BAD_MATCHINGS)
def test_bad_matchings(name):
    matching, message = BAD_MATCHINGS[name]
    d = pm.MatchingDistribution(np.zeros((3, 3)))
    with pytest.raises(errors.InvalidMatchingError, match=message):
        d.log_prob(matching)


BAD_GIVEN = {
    "no mapping": ([0, 1], "mapping from left to right node"),
    "row out of range": ({3: 0}, "left nodes 0 .. 2; got 3"),
    "column out of range": ({0: 3}, "right nodes 0 .. 2; got 3"),
    "negative column": ({0: -2}, "right nodes .* or -1 for unmatched; got -2"),
    "no index": ({0: 1.5}, "right nodes by their number.*got 1.5"),
    "boolean": ({True: 0}, "left nodes by their number.*got True"),
    "column twice": ({0: 1, 2: 1}, "at most once"),
}


@pytest.mark.parametrize("name", BAD_GIVEN)
def test_bad_given_edges(name):
    given, message = BAD_GIVEN[name]
    with pytest.raises(errors.InvalidMatchingError, match=message):
        pm.MatchingDistribution(np.zeros((3, 3)), given=given)
    with pytest.raises(errors.InvalidMatchingError, match=message):
        pm.MatchingDistribution(np.zeros((3, 3))).condition(given)


def test_given_edges_that_cannot_be():
    scores = np.array([[0.0, -INF], [0.0, 0.0]])
    with pytest.raises(errors.InfeasibleGraphError, match=r"edge \(0, 1\) has score -inf"):
        pm.MatchingDistribution(scores, given={0: 1})
    with pytest.raises(errors.InfeasibleGraphError, match="must be matched; .* has none"):
        _ = pm.MatchingDistribution(scores, given={1: 0}).marginals
    with pytest.raises(errors.InfeasibleGraphError, match="left node 0 must be matched"):
        pm.MatchingDistribution(scores, given={0: -1})
    with pytest.raises(errors.InvalidMatchingError, match="already given"):
        pm.MatchingDistribution(np.zeros((2, 2)), given={0: 0}).condition({0: 1})


BAD_OPTIONS = {
    "engine name": (lambda: pm.infer([[0.0]], engine="glyn"), "'glynn'.*got 'glyn'"),
    "engine type": (lambda: pm.infer([[0.0]], engine=7), "got 7"),
    "n_jobs zero": (lambda: pm.infer([[0.0]], n_jobs=0), "other than 0.*Use -1"),
    "n_jobs float": (lambda: pm.infer([[0.0]], n_jobs=1.5), "got 1.5"),
    "max_size": (lambda: pm.Glynn(max_size=-1), "max_size of Glynn.*got -1"),
    "small batch beyond its kernel": (
        lambda: pm.SmallBatch(max_size=9),
        "at most 8.*got 9",
    ),
    "tol": (lambda: pm.Glynn(tol=-1.0), "tol of Glynn.*got -1.0"),
    "tol nan": (lambda: pm.Glynn(tol=NAN), "got nan"),
    "tol infinite": (lambda: pm.Glynn(tol=INF), "got inf"),
    "tol boolean": (lambda: pm.Glynn(tol=True), "got True"),
    "n samples": (lambda: pm.MatchingDistribution([[0.0]]).sample(-1), "n must be.*got -1"),
    "rng": (lambda: pm.MatchingDistribution([[0.0]]).sample(1, rng="x"), "rng must be"),
    "negative seed": (lambda: pm.MatchingDistribution([[0.0]]).sample(1, rng=-4), "got -4"),
    "k": (lambda: pm.MatchingDistribution([[0.0]]).k_best(0), "k must be.*got 0"),
    "k float": (lambda: pm.MatchingDistribution([[0.0]]).k_best(2.0), "k must be"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(name):
    call, message = BAD_OPTIONS[name]
    with pytest.raises(errors.InvalidOptionError, match=message):
        call()


def test_kl_wants_another_distribution_of_the_same_size():
    d = pm.MatchingDistribution(np.zeros((2, 2)))
    with pytest.raises(errors.InvalidGraphError, match="of 2 x 2 nodes; got 3 x 3"):
        d.kl(pm.MatchingDistribution(np.zeros((3, 3))))
    with pytest.raises(errors.InvalidGraphError, match="got"):
        d.kl(np.zeros((2, 2)))


def test_marginals_of_an_engine_that_has_none():
    with pytest.raises(errors.MarginalsUnavailableError, match="Ryser.*'glynn'"):
        pm.marginals(np.zeros((3, 3)), engine="ryser")
    d = pm.MatchingDistribution(np.zeros((3, 3)), engine="ryser")
    assert d.log_partition == pytest.approx(np.log(6))
    with pytest.raises(errors.MarginalsUnavailableError):
        _ = d.marginals
    with pytest.raises(errors.MarginalsUnavailableError):
        _ = d.entropy
    assert "entropy" not in repr(d)
