"""What the pictures of the house show, read back from the Axes."""

import numpy as np
import pytest

from permatch.errors import MissingDependencyError
from reproduce.plots import HOUSE_STYLES, gap_curve, matched_landmarks

pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")
from matplotlib.figure import Figure  # noqa: E402

LINES = [
    {"gap": gap, "n_test": 7}
    | {method: loss * gap for method, loss in zip(HOUSE_STYLES, rates, strict=True)}
    | {f"{method}_error": 0.01 for method in HOUSE_STYLES}
    for gap, rates in ((90, (6e-3, 2e-3, 1e-3, 1e-3, 1e-3)), (50, (3e-3, *[1e-3] * 4)))
]


@pytest.fixture
def ax():
    return Figure().subplots()


def test_every_method_is_a_line_with_error_bars(ax):
    assert gap_curve(LINES, ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [style[0] for style in HOUSE_STYLES.values()]
    assert len(ax.containers) == len(HOUSE_STYLES)
    losses = ax.containers[0].lines[0].get_ydata()
    assert losses == pytest.approx([0.15, 0.54])  # by gap
    assert ax.get_ylim()[0] == 0.0
    assert list(ax.get_xticks()) == [50, 90]
    assert ax.get_xlabel()
    assert ax.get_ylabel()


def test_methods_differ_in_more_than_colour():
    assert len({style[2:] for style in HOUSE_STYLES.values()}) == len(HOUSE_STYLES)


def test_missing_methods_and_no_lines_are_drawn_all_the_same(ax):
    gap_curve([{"gap": 10, "map": 0.1, "map_error": None}], ax)
    assert len(ax.containers) == 1
    assert not gap_curve([], Figure().subplots()).has_data()


def test_landmarks_are_joined_and_wrong_ones_marked(ax):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 4, 2))
    assert matched_landmarks(points, [0, 2, 1, 3], ax=ax) is ax
    styles = [line.get_linestyle() for line in ax.get_lines()]
    assert styles == ["-", "--", "--", "-"]
    assert ax.get_title() == "2 right, 2 wrong"
    named = matched_landmarks(points, [0, 1, 2, 3], "Learned", Figure().subplots())
    assert named.get_title() == "Learned: 4 right, 0 wrong"
    left, right, wrong = (np.asarray(part.get_offsets()) for part in ax.collections)
    assert right[:, 0].min() > left[:, 0].max()
    np.testing.assert_allclose(wrong, right[[2, 1]])
    np.testing.assert_allclose(np.diff(right, axis=0), np.diff(points[1], axis=0))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[plots\]'"):
        gap_curve([])
