"""Outlines of images, sheared copies, and pairs of them."""

import importlib.util

import numpy as np
import pytest

from permatch.datasets import Silhouettes, silhouettes
from permatch.datasets.outline import read_outline, resample
from permatch.errors import ImageError, InvalidOptionError, MissingDependencyError
from permatch.features.shape_context import outline_tangents, shape_context

skimage = pytest.importorskip("skimage", reason="needs scikit-image (extra 'vision')")
from skimage import io  # noqa: E402


@pytest.fixture(scope="module")
def image():
    """A light, lopsided shape on a dark background, with a speck beside it."""
    picture = np.zeros((60, 80))
    picture[10:50, 10:30] = 0.9
    picture[10:25, 30:70] = 0.8
    picture[55:57, 2:4] = 1.0
    return picture


@pytest.fixture(scope="module")
def data(image):
    return silhouettes(image, n_points=6, n_images=8, n_contour=50)


def test_outline_goes_around_the_largest_object(image):
    outline = read_outline(image)
    assert outline.min(axis=0).tolist() == [10.5, -50.5]  # half-way to the background
    assert outline.max(axis=0).tolist() == [70.5, -10.5]
    steps = np.roll(outline, -1, axis=0) - outline
    assert np.hypot(*steps.T).max() <= 1.0  # closed, and no vertex left out


@pytest.mark.parametrize(
    "change",
    [
        lambda picture: 1.0 - picture,
        lambda picture: picture > 0.5,
        lambda picture: picture < 0.5,
        lambda picture: (picture * 200).astype(np.uint8),
    ],
    ids=["inverted", "boolean", "inverted boolean", "bytes"],
)
def test_shades_do_not_matter(image, change):
    np.testing.assert_array_equal(read_outline(change(image)), read_outline(image))


def test_an_object_that_touches_the_edge_is_closed():
    picture = np.zeros((20, 30), dtype=bool)
    picture[5:15, 20:] = True
    assert read_outline(picture)[:, 0].max() == 30.5


def test_resampled_points_are_at_equal_steps():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    expected = [[0, 0], [0.5, 0], [1, 0], [1, 0.5], [1, 1], [0.5, 1], [0, 1], [0, 0.5]]
    np.testing.assert_allclose(resample(square, 8), expected, atol=1e-15)


@pytest.mark.parametrize("kind", ["grey", "colour", "transparent", "two frames"])
@pytest.mark.parametrize("as_path", [str, lambda path: path])
def test_files_are_read(tmp_path, image, kind, as_path):
    pixels = (image * 255).astype(np.uint8)
    ending = "png"
    if kind == "colour":
        pixels = np.stack([pixels] * 3, axis=2)
    elif kind == "transparent":
        pixels = np.stack([pixels * 0] * 3 + [pixels], axis=2)
    elif kind == "two frames":
        pixels, ending = np.stack([pixels, 0 * pixels]), "tif"
    path = tmp_path / f"picture.{ending}"
    io.imsave(path, pixels, check_contrast=False)
    np.testing.assert_array_equal(read_outline(as_path(path)), read_outline(image))


def test_files_that_are_no_images_are_refused(tmp_path):
    path = tmp_path / "notes.png"
    path.write_text("no picture")
    with pytest.raises(ImageError, match=r"notes\.png must be an image in a format"):
        silhouettes(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.png"):
        silhouettes(tmp_path / "missing.png")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((5, 7)), "5 x 7 pixels that are all 0.0"),
        (np.ones((3, 3), dtype=bool), "all True"),
        (np.zeros((4, 4, 3)), r"2-D array.*got shape \(4, 4, 3\)"),
        (np.zeros((0, 4)), r"got shape \(0, 4\)"),
        ([["a"]], "dtype <U1"),
        ([[1.0], [1.0, 2.0]], "must be a 2-D array"),
        ([[np.nan, 1.0]], "finite grey levels"),
        (np.pad([[1.0]], 3), "at least n_points=20 vertices; got 4"),
    ],
)
def test_bad_images_are_refused(image, message):
    with pytest.raises(ImageError, match=message):
        silhouettes(image)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_points": 0}, "n_points must be a whole number"),
        ({"n_images": 0}, "n_images must be a whole number"),
        ({"n_points": 10, "n_contour": 9}, "at least n_points=10; got 9"),
        ({"shear": 2.0}, "shear must be a pair"),
        ({"shear": (1.0, -1.0)}, "shear must be a pair"),
        ({"shear": (0.0, np.inf)}, "shear must be a pair"),
        ({"context": "outline"}, "one of 'contour', 'landmarks'; got 'outline'"),
        ({"rng": -1}, "rng must be"),
    ],
)
def test_bad_options_are_refused(image, options, message):
    with pytest.raises(InvalidOptionError, match=message):
        silhouettes(image, **options)


def test_copies_are_sheared_and_keep_their_landmarks(data):
    assert repr(data) == "Silhouettes(n_images=8, n_points=6, n_contour=50)"
    np.testing.assert_allclose(data.contour.mean(axis=0), 0.0, atol=1e-12)
    assert len(set(data.landmarks)) == 6
    assert (np.abs(data.shears) <= 2.0).all()
    for k in range(data.n_images):
        outline = data.outline(k)
        np.testing.assert_array_equal(outline[:, 1], data.contour[:, 1])
        np.testing.assert_allclose(
            outline[:, 0], data.contour[:, 0] + data.shears[k] * data.contour[:, 1]
        )
        np.testing.assert_array_equal(data.points[k], outline[data.landmarks])


def test_the_same_seed_gives_the_same_copies(image, data):
    again = silhouettes(image, n_points=6, n_images=8, n_contour=50, rng=0)
    other = silhouettes(image, n_points=6, n_images=8, n_contour=50, rng=1)
    np.testing.assert_array_equal(again.contexts, data.contexts)
    assert not np.array_equal(other.shears, data.shears)


def test_new_landmarks_are_other_points_of_the_same_copies(image, data):
    train = data.new_landmarks(rng=0)
    validation = data.new_landmarks(train, rng=0)
    for other in (train, validation):
        np.testing.assert_array_equal(other.shears, data.shears)
        np.testing.assert_array_equal(other.outline(3), data.outline(3))
        np.testing.assert_array_equal(other.points[3], data.outline(3)[other.landmarks])
    sets = [set(each.landmarks.tolist()) for each in (data, train, validation)]
    assert len(set.union(*sets)) == 18
    again = data.new_landmarks(rng=0)
    np.testing.assert_array_equal(again.contexts, train.contexts)


@pytest.mark.parametrize(
    "options", [{"rotation_invariant": True}, {"context": "landmarks", "n_radial": 3}]
)
def test_new_landmarks_are_described_as_the_old_ones(image, options):
    data = silhouettes(image, n_points=6, n_images=3, n_contour=50, **options)
    other = data.new_landmarks(rng=0)
    assert other.contexts.shape == data.contexts.shape
    outline = data.outline(2)
    if "context" in options:
        expected = shape_context(outline[other.landmarks], n_radial=3)
    else:
        tangents = outline_tangents(outline)[other.landmarks]
        expected = shape_context(
            outline[other.landmarks], outline, rotation_invariant=True, tangents=tangents
        )
    np.testing.assert_array_equal(other.contexts[2], expected)


def test_new_landmarks_need_free_points_of_the_same_contour(image, data):
    narrow = silhouettes(image, n_points=6, n_images=2, n_contour=11)
    with pytest.raises(InvalidOptionError, match="6 new landmarks .* got 5 of 11. Raise"):
        narrow.new_landmarks()
    with pytest.raises(InvalidOptionError, match="on the same contour; got another"):
        data.new_landmarks(narrow)


def test_contexts_count_contour_or_landmarks(image, data):
    others = data.contexts * 49
    np.testing.assert_allclose(others, np.rint(others), atol=1e-9)
    alone = silhouettes(image, n_points=6, n_images=8, n_contour=50, context="landmarks")
    np.testing.assert_array_equal(alone.points, data.points)
    np.testing.assert_allclose(alone.contexts * 5, np.rint(alone.contexts * 5), atol=1e-9)


def test_options_of_shape_contexts_pass_through(image):
    options = {"n_points": 6, "n_images": 2, "n_radial": 3, "n_angular": 4}
    straight = silhouettes(image, **options)
    turned = silhouettes(image, rotation_invariant=True, **options)
    assert straight.contexts.shape == turned.contexts.shape == (2, 6, 12)
    assert not np.array_equal(straight.contexts, turned.contexts)


def test_own_vertices_of_the_outline_can_be_kept(image):
    assert len(silhouettes(image, n_images=1, n_contour=None).contour) == len(
        read_outline(image)
    )


def test_pairs_hold_the_squared_differences_of_matched_contexts(data):
    graphs, matchings, images = data.pairs(10, rng=3)
    for graph, matching, (a, b) in zip(graphs, matchings, images, strict=True):
        assert sorted(matching) == list(range(6))
        expected = (data.contexts[a] - data.contexts[b]) ** 2
        np.testing.assert_array_equal(graph.features[np.arange(6), matching], expected)
        np.testing.assert_array_equal(
            data.right_points(b, matching)[matching], data.points[b]
        )


def test_pairs_are_different_and_grow_from_the_same_start(data):
    few, many = data.pairs(5, rng=7), data.pairs(28, rng=7)
    assert len({frozenset(pair) for pair in many.images.tolist()}) == 28
    assert {a < b for a, b in many.images.tolist()} == {True, False}
    np.testing.assert_array_equal(many.images[:5], few.images)
    for k in range(5):
        np.testing.assert_array_equal(many.matchings[k], few.matchings[k])
    with pytest.raises(
        InvalidOptionError, match="at most 28, the number of pairs of 8 images"
    ):
        data.pairs(29)


def test_the_horse_is_the_default():
    horse = silhouettes(n_images=3)
    assert isinstance(horse, Silhouettes)
    assert horse.contour.shape == (400, 2)
    assert horse.contexts.shape == (3, 20, 60)
    assert np.ptp(horse.contour, axis=0).astype(int).tolist() == [371, 304]
    # It stands on its feet: the outline passes the lowest tenth more than the top one.
    height = (horse.contour[:, 1] - horse.contour[:, 1].min()) / np.ptp(horse.contour[:, 1])
    assert (height < 0.1).sum() > (height > 0.9).sum()


def test_without_scikit_image_the_extra_is_named(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "permatch._optional.find_spec",
        lambda name: None if name == "skimage" else find(name),
    )
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[vision\]'"):
        silhouettes()
