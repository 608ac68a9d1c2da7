"""Sequences to labelled graphs: who is whose partner, who comes and who goes."""

import numpy as np
import pytest

import permatch as pm
from permatch.datasets import Boxes
from permatch.errors import BoxError, InvalidOptionError
from permatch.tracking import box_graph, frame_pairs, label_detections, match_ids


def walkers(n_frames=12, n_people=4, step=3.0, noise=0.5, seed=0):
    """Return people who walk to the right; the last comes late, the first goes early."""
    rng = np.random.default_rng(seed)
    frame, id, box = [], [], []
    for t in range(n_frames):
        for k in range(n_people):
            if (k == 0 and t >= 8) or (k == n_people - 1 and t < 3):
                continue
            frame.append(t + 1)
            id.append(10 + k)
            left = 60 * k + step * t + noise * rng.normal()
            box.append([left, 20 + noise * rng.normal(), 20 + k, 50 + 2 * k])
    return Boxes(frame, id, box)


@pytest.mark.parametrize("gap", [1, 3, 5])
def test_labels_join_the_same_objects(gap):
    boxes = walkers()
    pairs = frame_pairs(boxes, gap)
    assert pairs.frames.tolist() == [[t, t + gap] for t in range(1, 13 - gap)]
    n_links = 0
    for graph, matching, (a, b) in zip(
        pairs.graphs, pairs.matchings, pairs.frames, strict=True
    ):
        left, right = boxes.at(a).id, boxes.at(b).id
        assert (graph.n_left, graph.n_right) == (len(left), len(right))
        for i, j in enumerate(matching):
            if j >= 0:
                assert left[i] == right[j]
            else:
                assert left[i] not in right
        n_links += (matching >= 0).sum()
    assert (pairs.n_links, pairs.n_out_of_reach) == (n_links, 0)
    assert len(pairs) == 12 - gap


def test_who_moves_too_far_is_counted():
    boxes = Boxes(
        [1, 2, 1, 2], [1, 1, 2, 2], np.array([0, 400, 800, 805])[:, None] + [0, 1, 9, 9]
    )
    pairs = frame_pairs(boxes)
    assert pairs.matchings[0].tolist() == [-1, 1]
    assert (pairs.n_links, pairs.n_out_of_reach) == (2, 1)
    assert frame_pairs(boxes, max_distance=100.0).n_out_of_reach == 0


def test_empty_frames_are_kept_with_one_side():
    boxes = Boxes([1, 4, 5], [1, 1, 1], np.tile([5.0, 5.0, 4.0, 9.0], (3, 1)))
    pairs = frame_pairs(boxes)
    assert pairs.frames.tolist() == [[1, 2], [3, 4], [4, 5]]  # 2 and 3 are both empty
    shapes = [(graph.n_left, graph.n_right) for graph in pairs.graphs]
    assert shapes == [(1, 0), (0, 1), (1, 1)]
    model = pm.MAPMatching(0.1).fit(pairs.graphs, pairs.matchings)
    assert [m.tolist() for m in model.predict(pairs.graphs)] == [[-1], [], [0]]


def test_frames_far_apart_take_no_time():
    far = 10**12
    boxes = Boxes([1, 2, far], [1, 1, 1], np.tile([5.0, 5.0, 4.0, 9.0], (3, 1)))
    assert frame_pairs(boxes).frames.tolist() == [[1, 2], [2, 3], [far - 1, far]]


def test_boxes_without_identity_have_no_partner():
    box = np.tile([5.0, 5.0, 4.0, 9.0], (4, 1))
    pairs = frame_pairs(Boxes([1, 1, 2, 2], [-1, 3, -1, 3], box))
    assert pairs.matchings[0].tolist() == [-1, 1]
    assert pairs.n_links == 1


def test_nodes_have_features_of_their_own():
    boxes = walkers()
    graph = frame_pairs(boxes).graphs[0]
    assert graph.left_features.shape == (3, 3)
    graph = frame_pairs(boxes, use_confidence=True, size=(300, 100)).graphs[0]
    assert graph.right_features.shape == (3, 4)
    assert graph.right_features[:, 3].tolist() == [1.0] * 3
    graph = box_graph(boxes.at(1).box, boxes.at(2).box, left_missed=[0, 2, 0])
    assert graph.left_features[:, 1] == pytest.approx(np.log([1, 3, 1]))
    assert graph.right_features.shape == (3, 1)


def test_a_model_learns_to_associate_with_births_and_deaths():
    train, test = frame_pairs(walkers(40, 6, seed=1)), frame_pairs(walkers(40, 6, seed=2))
    model = pm.MAPMatching(0.01, unmatched="any").fit(train.graphs, train.matchings)
    assert model.coef_[0] > 0.0 > model.coef_[1]
    quality = pm.metrics.link_quality(test.matchings, model.predict(test.graphs))
    assert quality.f1 > 0.98


def test_detections_get_the_identities_of_true_boxes(rng):
    truth = walkers()
    moved = truth.box + rng.normal(scale=1.0, size=(len(truth), 4))
    false = [[500.0, 500.0, 20.0, 50.0]] * 12
    detections = Boxes([*truth.frame, *range(1, 13)], None, np.vstack([moved, false]))[
        rng.permutation(len(truth) + 12)
    ]
    found = label_detections(detections, truth)
    is_false = found.box[:, 0] > 400.0
    assert (found.id[is_false] == -1).all()
    for frame in truth.frames():
        known = found.at(frame)[found.at(frame).id != -1]
        assert set(known.id) == set(truth.at(frame).id)
        for id, box in zip(known.id, known.box, strict=True):
            true = truth.at(frame)
            assert abs(box - true.box[true.id == id][0]).max() < 6.0
    assert (label_detections(detections, truth, min_iou=1.0).id == -1).all()


def test_no_object_is_given_to_two_detections():
    truth = Boxes([1], [4], [[0, 0, 10, 10]])
    detections = Boxes([1, 1, 2], None, [[1, 0, 10, 10], [0, 0, 10, 10], [0, 0, 10, 10]])
    assert label_detections(detections, truth).id.tolist() == [-1, 4, -1]


def test_ids_without_an_edge_are_unmatched():
    graph = box_graph([[0, 0, 5, 10]], [[900, 0, 5, 10], [1, 0, 5, 10]])
    assert match_ids(graph, [1], [1, 2]).tolist() == [-1]
    assert match_ids(graph, [2], [1, 2]).tolist() == [1]
    assert match_ids(graph, [-1], [-1, -1]).tolist() == [-1]


def test_what_is_wrong_is_said():
    boxes = walkers()
    with pytest.raises(BoxError, match=r"must have identities.*label_detections"):
        frame_pairs(boxes.with_id(None))
    with pytest.raises(BoxError, match="must have identities"):
        frame_pairs(Boxes([], [], []))
    with pytest.raises(InvalidOptionError, match="gap must be at most 11.*got 12"):
        frame_pairs(boxes, 12)
    with pytest.raises(InvalidOptionError, match="gap"):
        frame_pairs(boxes, 0)
    with pytest.raises(InvalidOptionError, match="min_iou must be above 0"):
        label_detections(boxes, boxes, 0.0)
    with pytest.raises(InvalidOptionError, match="at most 0, .* or a longer sequence"):
        frame_pairs(boxes.at(3))
    with pytest.raises(BoxError, match=r"got str. Read the file first: .*read_mot\(path\)"):
        frame_pairs("gt.txt")
    with pytest.raises(BoxError, match=r"detections must be .*Boxes; got list. Make them"):
        label_detections([[1, 2]], boxes)
    with pytest.raises(
        BoxError, match=r"truth must have identities.*\(detections, truth\)"
    ):
        label_detections(boxes, boxes.with_id(None))
    graph = box_graph([[0, 0, 5, 10]], [[1, 0, 5, 10]])
    with pytest.raises(BoxError, match=r"shapes \(1,\) and \(1,\); got \(2,\) and \(1,\)"):
        match_ids(graph, [1, 2], [1])


def test_boxes_outside_of_the_image_have_pairs():
    boxes = Boxes([1, 2], [1, 1], [[-9, -30, 5, 10], [-8, -30, 5, 10]])
    assert frame_pairs(boxes).matchings[0].tolist() == [0]
