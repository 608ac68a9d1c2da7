"""Features of boxes, against plain loops and what they must not depend on."""

import numpy as np
import pytest

from permatch.errors import BoxError, FeatureTypeError, InvalidOptionError
from permatch.features import box_features, box_iou, box_pairs

ROUNDING = 1e-12


def some_boxes(rng, n):
    return np.hstack([rng.uniform(0, 60, (n, 2)), rng.uniform(5, 40, (n, 2))])


def plain_iou(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    common = max(width, 0.0) * max(height, 0.0)
    return common / (a[2] * a[3] + b[2] * b[3] - common)


def test_iou_of_all_pairs(rng):
    left, right = some_boxes(rng, 7), some_boxes(rng, 9)
    plain = [[plain_iou(a, b) for b in right] for a in left]
    assert box_iou(left, right) == pytest.approx(np.array(plain), abs=ROUNDING)
    assert np.diag(box_iou(left, left)) == pytest.approx(1.0, abs=ROUNDING)
    assert box_iou(left, left).max() <= 1.0
    assert box_iou([], right).shape == (0, 9)


def test_pairs_are_those_within_reach(rng):
    left, right = some_boxes(rng, 8), some_boxes(rng, 6)
    pairs = box_pairs(left, right, max_distance=0.8)
    expected = {}
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            height = (a[3] * b[3]) ** 0.5
            dx = (b[0] + b[2] / 2 - a[0] - a[2] / 2) / height
            dy = (b[1] + b[3] / 2 - a[1] - a[3] / 2) / height
            sizes = abs(np.log(b[3] / a[3])), abs(np.log(b[2] / a[2]))
            if np.hypot(dx, dy) <= 0.8:
                far = np.hypot(dx, dy)
                expected[i, j] = [plain_iou(a, b), far, dx**2, dy**2, *sizes]
    assert 0 < len(expected) < 48
    assert list(zip(pairs.left, pairs.right, strict=True)) == list(expected)
    found = np.array([*expected.values()])
    assert pairs.features == pytest.approx(found, abs=ROUNDING)
    assert len(pairs.names) == pairs.features.shape[1]


def test_features_do_not_depend_on_place_and_scale(rng):
    left, right = some_boxes(rng, 8), some_boxes(rng, 6)
    before = box_pairs(left, right).features
    moved = [4.0 * boxes + [100.0, -50.0, 0.0, 0.0] for boxes in (left, right)]
    assert box_pairs(*moved).features == pytest.approx(before, abs=1e-9)
    back = box_pairs(right, left)
    order = np.lexsort((back.left, back.right))
    assert back.features[order] == pytest.approx(before, abs=1e-9)


def test_no_boxes_have_no_pairs():
    for left, right in ([], [[0, 0, 1, 1]]), ([[0, 0, 1, 1]], []), ([], []):
        assert box_pairs(left, right).features.shape == (0, 6)


def test_single_boxes():
    boxes = [[0, 0, 5, 10], [2, 0, 5, 10], [90, 85, 8, 10], [40, 40, 5, 10]]
    found = box_features(
        boxes, size=(100, 100), confidence=[4, 3, 2, 1], missed=[0, 1, 2, 3]
    )
    assert found.names == ("overlap", "border_x", "border_y", "confidence", "missed")
    columns = dict(zip(found.names, found.features.T.tolist(), strict=True))
    iou = 3 / 7
    assert columns["overlap"] == pytest.approx([iou, iou, 0, 0])
    assert columns["border_x"] == pytest.approx([0, 0.2, 0.2, 1])
    assert columns["border_y"] == pytest.approx([0, 0, 0.5, 1])
    assert columns["confidence"] == [4, 3, 2, 1]
    assert columns["missed"] == pytest.approx(np.log([1, 2, 3, 4]))


def test_a_box_beyond_the_border_is_at_the_border():
    found = box_features([[-30, 0, 5, 10]], size=(100, 100)).features
    assert found[0, 1] == 0.0


def test_features_of_no_boxes():
    assert box_features([], size=(9, 9), confidence=[], missed=[]).features.shape == (0, 5)
    assert box_features([]).features.shape == (0, 1)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: box_pairs([[0, 0, 1]], []), BoxError, r"left must have shape \(n, 4\)"),
        (lambda: box_pairs([], [[0, 0, 1, 0]]), BoxError, "right.*above 0; box 0 is"),
        (lambda: box_iou([[0, np.nan, 1, 1]], []), BoxError, "left must be finite"),
        (lambda: box_iou([["a"] * 4], []), FeatureTypeError, "left"),
        (lambda: box_pairs([], [], max_distance=0), InvalidOptionError, "above 0"),
        (
            lambda: box_features([[0, 0, 1, 1]], confidence=[1, 2]),
            BoxError,
            "confidence must be one finite number per box, 1 in all",
        ),
        (lambda: box_features([[0, 0, 1, 1]], missed=[np.inf]), BoxError, "missed"),
        (lambda: box_features([[0, 0, 1, 1]], missed=[-1]), BoxError, "at least 0.*got -1"),
        (lambda: box_features([], size=(9, 0)), InvalidOptionError, "above 0; got .9, 0"),
        (lambda: box_features([], size=9), InvalidOptionError, "width and the height"),
    ],
)
def test_what_is_wrong_is_said(call, error, says):
    with pytest.raises(error, match=says):
        call()
