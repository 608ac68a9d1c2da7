"""Association probabilities: against enumeration and pyehm, laws, and what is refused."""

import itertools

import numpy as np
import pytest

import permatch as pm
from permatch.errors import (
    InfeasibleGraphError,
    InfiniteScoreError,
    InvalidGraphError,
    InvalidOptionError,
    MarginalsUnavailableError,
    NaNScoreError,
    ScoreShapeError,
    ScoreTypeError,
    SizeLimitError,
)
from permatch.tracking import infer_association


def joint_events(likelihood):
    """Yield every joint event, a column per track, and the product of its likelihoods."""
    n, k = likelihood.shape
    for event in itertools.product(range(k), repeat=n):
        taken = [column for column in event if column]
        if len(set(taken)) == len(taken):
            yield event, float(np.prod(likelihood[np.arange(n), event]))


def enumerated(likelihood):
    """Return the probabilities of associations, and the sum of all products."""
    found, total = np.zeros(likelihood.shape), 0.0
    for event, weight in joint_events(likelihood):
        found[np.arange(len(event)), event] += weight
        total += weight
    return found / total if total else found, total


def random_frame(rng, n=None, k=None, share=0.7):
    """Return likelihoods of a few tracks and detections, some of them 0."""
    n = int(rng.integers(0, 5)) if n is None else n
    k = int(rng.integers(0, 6)) if k is None else k
    likelihood = np.exp(2.0 * rng.normal(size=(n, k + 1)))
    likelihood[:, 1:][rng.random((n, k)) > share] = 0.0
    return likelihood


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(3)
    return [random_frame(rng) for _ in range(60)]


# ---- values


def test_agrees_with_enumeration(frames):
    for likelihood, found in zip(frames, pm.associate(frames), strict=True):
        np.testing.assert_allclose(found, enumerated(likelihood)[0], atol=1e-14)


def test_tracks_that_must_be_detected(rng):
    likelihood = random_frame(rng, 3, 5, share=1.0)
    likelihood[1:, 0] = 0.0
    found = pm.associate(likelihood)
    np.testing.assert_allclose(found, enumerated(likelihood)[0], atol=1e-14)
    assert (found[1:, 0] == 0.0).all()


def test_as_many_detections_as_tracks_that_must_be_detected(rng):
    likelihood = random_frame(rng, 4, 4, share=1.0)
    likelihood[:, 0] = 0.0
    found = infer_association(likelihood)
    np.testing.assert_allclose(found.probabilities, enumerated(likelihood)[0], atol=1e-14)
    np.testing.assert_allclose(found.unassigned, 0.0, atol=1e-14)


def test_agrees_with_pyehm(rng):
    core = pytest.importorskip("pyehm.core")
    for _ in range(20):
        likelihood = random_frame(rng, 8, 12, share=0.5)
        expected = core.EHM2().run((likelihood > 0).astype(np.int32), likelihood)
        np.testing.assert_allclose(pm.associate(likelihood), expected, atol=1e-12)


def test_everything_else_agrees_with_enumeration(frames):
    found = infer_association(frames)
    assert found.is_exact
    assert found.bounds is None
    for g, likelihood in enumerate(frames):
        probabilities, total = enumerated(likelihood)
        assert found.log_likelihood[g] == pytest.approx(np.log(total), abs=1e-12)
        belongs = probabilities[:, 1:].sum(axis=0)
        np.testing.assert_allclose(found.unassigned[g], 1.0 - belongs, atol=1e-14)
        event = found.mode()[g] + 1
        weight = float(np.prod(likelihood[np.arange(len(event)), event]))
        best = max(weight for _, weight in joint_events(likelihood))
        assert weight == pytest.approx(best, rel=1e-12)


def test_rows_of_an_example_of_matlab():
    # the example of jpdaEvents: its three best events have probabilities 3 : 2 : 2
    matrix = np.array([[1, 1, 1], [1, 3, 2], [1, 4, 1], [1, 6, 1], [1, 5, 3]]) / 10
    likelihood = np.column_stack([matrix[0, 1:], (matrix[1:, 1:] / matrix[1:, :1]).T])
    found = infer_association(likelihood)
    assert found.mode().tolist() == [2, 3]
    best = pm.k_best(
        np.log(likelihood[:, 1:]), 3, unmatched_left=np.log(likelihood[:, 0]),
        unmatched_right=0.0,
    )  # fmt: skip
    weights = np.exp(best.scores)
    np.testing.assert_allclose(weights / weights.sum(), np.array([3, 2, 2]) / 7)


# ---- forms


def test_one_frame_a_stack_and_a_list_agree(rng):
    stack = np.array([random_frame(rng, 3, 4) for _ in range(7)])
    found = infer_association(stack)
    assert found.probabilities.shape == (7, 3, 5)
    assert found.unassigned.shape == (7, 4)
    assert found.log_likelihood.shape == (7,)
    assert found.mode().shape == (7, 3)
    for g, likelihood in enumerate(stack):
        one = infer_association(likelihood)
        np.testing.assert_array_equal(one.probabilities, found.probabilities[g])
        np.testing.assert_array_equal(one.unassigned, found.unassigned[g])
        assert one.log_likelihood == found.log_likelihood[g]
        np.testing.assert_array_equal(one.mode(), found.mode()[g])
    np.testing.assert_array_equal(pm.associate(list(stack)), found.probabilities)


@pytest.mark.parametrize("shape", [(0, 1), (0, 4), (3, 1), (1, 4), (0, 2, 3), (5, 0, 1)])
def test_sizes_at_the_edge(shape):
    found = pm.associate(np.ones(shape))
    assert found.shape == shape
    np.testing.assert_allclose(found.sum(axis=-1), 1.0)


def test_no_frames():
    assert pm.associate([]) == []
    found = infer_association(np.ones((0, 2, 3)))
    assert found.mode().shape == (0, 2)
    assert found.unassigned.shape == (0, 2)


def test_nested_lists_and_integers():
    assert pm.associate([[1, 1], [1, 0]]).tolist() == [[0.5, 0.5], [1.0, 0.0]]


# ---- laws


def test_scaling_a_row_changes_nothing(rng):
    likelihood = random_frame(rng, 4, 5)
    scaled = likelihood * np.array([1e-200, 1.0, 1e200, 3.0])[:, None]
    np.testing.assert_allclose(
        pm.associate(scaled), pm.associate(likelihood), rtol=1e-12, atol=1e-300
    )


def test_order_of_tracks_and_detections_does_not_matter(rng):
    likelihood = random_frame(rng, 5, 6)
    rows, columns = rng.permutation(5), np.append(0, 1 + rng.permutation(6))
    np.testing.assert_allclose(
        pm.associate(likelihood[rows][:, columns]),
        pm.associate(likelihood)[rows][:, columns],
        atol=1e-14,
    )


def test_one_track_is_bayes_rule(rng):
    likelihood = random_frame(rng, 1, 9)
    np.testing.assert_allclose(pm.associate(likelihood), likelihood / likelihood.sum())


def test_logarithms_are_the_same(frames):
    with np.errstate(divide="ignore"):
        logs = [np.log(likelihood) for likelihood in frames]
    for found, expected in zip(
        pm.associate(logs, log=True), pm.associate(frames), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_an_invalid_pair_is_one_of_likelihood_zero(rng):
    likelihood = random_frame(rng, 4, 5, share=1.0)
    valid = rng.random((4, 6)) < 0.6
    valid[:, 0] = True
    expected = pm.associate(np.where(valid, likelihood, 0.0))
    for mask in (valid, valid.astype(int), valid.tolist()):
        np.testing.assert_array_equal(pm.associate(likelihood, valid=mask), expected)
    logs = pm.associate(np.log(likelihood), valid=valid, log=True)
    np.testing.assert_array_equal(logs, expected)
    twice = pm.associate([likelihood] * 2, valid=[valid] * 2)
    np.testing.assert_array_equal(twice, [expected] * 2)
    stack = pm.associate(np.array([likelihood] * 2), valid=np.array([valid] * 2))
    np.testing.assert_array_equal(stack, [expected] * 2)


def test_what_is_not_valid_may_be_anything():
    likelihood = [[1.0, np.nan], [1.0, 3.0]]
    found = pm.associate(likelihood, valid=[[True, False], [True, True]])
    assert found.tolist() == [[1.0, 0.0], [0.25, 0.75]]


def test_threads_change_nothing(frames):
    for one, two in zip(pm.associate(frames), pm.associate(frames, n_jobs=2), strict=True):
        np.testing.assert_array_equal(one, two)


# ---- extremes


def test_tiny_likelihoods():
    likelihood = np.array([[1e-300, 3e-300, 0.0], [1e300, 1e300, 2e300]])
    tame = np.array([[1.0, 3.0, 0.0], [1.0, 1.0, 2.0]])
    np.testing.assert_allclose(pm.associate(likelihood), enumerated(tame)[0], atol=1e-14)


def test_wide_spread():
    logs = np.array([[0.0, 300.0, -300.0], [-300.0, 299.0, 0.0]])
    found = infer_association(logs, log=True)
    assert found.mode().tolist() == [0, 1]
    assert found.log_likelihood == pytest.approx(300.0 + np.log1p(np.exp(-1.0)))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, atol=1e-14)
    assert found.probabilities[0, 0] == pytest.approx(1.0 / (1.0 + np.e), rel=1e-12)


# ---- exact, or not


def crowd(size, rng):
    return np.exp(rng.normal(size=(size, size + 1)))


def test_too_wide_for_an_exact_answer_is_refused(rng):
    words = (
        r"^an exact answer within 10 seconds needs smaller groups .* the frame has one of "
        r"40 tracks and 40 detections with 1600 possible pairs, which would take .* or "
        r"accept an error: tol=0\.01\.$"
    )
    with pytest.raises(SizeLimitError, match=words):
        pm.associate(crowd(40, rng))
    with pytest.raises(SizeLimitError, match="frame 1 has one of 14 .*valid=., raise bu"):
        pm.associate([crowd(2, rng), crowd(14, rng)], budget=1e-4)
    with pytest.raises(SizeLimitError, match=r"take years. Use a smaller gate .*, or acc"):
        pm.associate(crowd(80, rng))  # no budget would do


def test_an_error_is_accepted_where_it_is_asked_for(rng):
    likelihood = crowd(19, rng)
    likelihood[:, 1:] *= 0.02
    exact = pm.associate(likelihood)
    found = infer_association(likelihood, tol=0.1, budget=0.03)
    assert not found.is_exact
    assert np.abs(found.probabilities - exact).max() < 0.1
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, atol=1e-12)
    low, high = found.bounds
    assert (low - 1e-12 <= exact).all()
    assert (exact <= high + 1e-12).all()
    assert (high - low).max() < 0.2


def test_a_tolerance_changes_nothing_where_the_answer_is_exact(frames):
    found = infer_association(frames, tol=0.1)
    assert found.is_exact
    for one, other in zip(found.probabilities, pm.associate(frames), strict=True):
        np.testing.assert_array_equal(one, other)


def test_another_engine(rng):
    likelihood = random_frame(rng, 4, 4)
    expected = pm.associate(likelihood)
    for engine in ("enumeration", pm.Frontier()):
        found = pm.associate(likelihood, engine=engine)
        np.testing.assert_allclose(found, expected, atol=1e-14)
    rough = infer_association(likelihood, engine=pm.PathTree(tol=0.05))
    low, high = rough.bounds
    assert (low - 1e-12 <= expected).all()
    assert (expected <= high + 1e-12).all()


# ---- what is refused


@pytest.mark.parametrize(
    ("likelihood", "error", "words"),
    [
        ([1.0, 2.0], ScoreShapeError, r"column 0 for the missed .* got shape \(2,\)"),
        (np.ones((2, 0)), ScoreShapeError, r"got shape \(2, 0\).*shape \(tracks, 1\)"),
        (np.ones((1, 2, 3, 4)), ScoreShapeError, r"got shape \(1, 2, 3, 4\)"),
        ([np.ones((2, 2)), np.ones((2, 0))], ScoreShapeError, "likelihood of frame 1"),
        ([[1.0, 2.0], [1.0]], ScoreShapeError, "whose lengths differ"),
        ([["a", "b"]], ScoreTypeError, "real numbers"),
        (np.ones((2, 2), bool), ScoreTypeError, "goes into valid="),
        ([[1.0, -2.0]], InvalidGraphError, r"got -2 at track 0, column 1.*log=True"),
        ([[1.0, np.nan]], NaNScoreError, r"at track 0, column 1\. Use 0, or valid="),
        ([[1.0], [np.inf]], InfiniteScoreError, "got inf at track 1, column 0"),
        ([[1.0, 1.0], [0.0, 0.0]], InfeasibleGraphError, "; track 1 has none. Give col"),
        (
            np.array([[[1.0, 1.0]], [[0.0, 0.0]]]),
            InfeasibleGraphError,
            "track 0 of frame 1 has none",
        ),
        (
            [[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]],
            InfeasibleGraphError,
            "the frame has none: 2 of its 3 tracks must be detected",
        ),
        (
            [np.ones((1, 2)), np.array([[0.0, 1.0], [0.0, 1.0]])],
            InfeasibleGraphError,
            "frame 1 has none: 2 of its 2 tracks",
        ),
    ],
)
def test_bad_likelihoods(likelihood, error, words):
    with pytest.raises(error, match=words):
        pm.associate(likelihood)


@pytest.mark.parametrize(
    ("logs", "error", "words"),
    [
        ([[0.0, np.inf]], InfiniteScoreError, "got inf at track 0, column 1"),
        ([[0.0, np.nan]], NaNScoreError, "Use -inf, or valid="),
        ([[-np.inf, -np.inf]], InfeasibleGraphError, "track 0 has none"),
    ],
)
def test_bad_logarithms(logs, error, words):
    with pytest.raises(error, match=words):
        pm.associate(logs, log=True)


@pytest.mark.parametrize(
    ("valid", "error", "words"),
    [
        (np.ones((2, 2), bool), ScoreShapeError, r"likelihood, \(2, 3\).*got .*\(2, 2\)"),
        ([[True], [True, False]], ScoreShapeError, r"likelihood, \(2, 3\)"),
        (np.full((2, 3), 0.5), ScoreTypeError, "got dtype float64"),
        (np.full((2, 3), 2), ScoreTypeError, "True or False, or 1 or 0"),
    ],
)
def test_bad_masks(valid, error, words):
    with pytest.raises(error, match=words):
        pm.associate(np.ones((2, 3)), valid=valid)


def test_masks_for_other_frames():
    with pytest.raises(ScoreShapeError, match="as many frames as likelihood, 2; got 1"):
        pm.associate(np.ones((2, 2, 3)), valid=np.ones((1, 2, 3), bool))
    with pytest.raises(ScoreShapeError, match="as many frames as likelihood, 2; got True"):
        pm.associate(np.ones((2, 2, 3)), valid=True)


def test_bad_options():
    with pytest.raises(InvalidOptionError, match="options of engine='auto'"):
        pm.associate(np.ones((2, 3)), engine="frontier", tol=0.1)
    with pytest.raises(InvalidOptionError, match="tol of AutoEngine"):
        pm.associate(np.ones((2, 3)), tol=2.0)
    with pytest.raises(MarginalsUnavailableError):
        pm.associate(np.ones((2, 3)), engine="ryser")
