"""What the pictures show, read back from the Axes."""

from types import SimpleNamespace

import numpy as np
import pytest

import permatch as pm
from permatch.errors import MissingDependencyError
from permatch.plots import coefficients, learning_curve, matched_silhouettes, reliability
from permatch.plots.matching import BLUE, VERMILION

pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")
from matplotlib.colors import to_rgb  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

ROWS = [
    {"method": "unweighted", "n": 0, "repeat": 0, "hamming_loss": 0.5},
    {"method": "unweighted", "n": 0, "repeat": 1, "hamming_loss": 0.6},
    {"method": "map", "n": 20, "repeat": 0, "hamming_loss": 0.1},
    {"method": "map", "n": 5, "repeat": 0, "hamming_loss": 0.2},
    {"method": "map", "n": 5, "repeat": 1, "hamming_loss": 0.4},
    {"method": "other", "n": 5, "repeat": 0, "hamming_loss": 0.3},
]


@pytest.fixture
def ax():
    return Figure().subplots()


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_learning_curve_shows_means_by_size(ax):
    assert learning_curve(ROWS, ax) is ax
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert lines["unweighted features"].get_ydata() == pytest.approx([0.55, 0.55])
    assert lines["MAP"].get_xdata().tolist() == [5, 20]
    assert lines["MAP"].get_ydata() == pytest.approx([0.3, 0.1])
    assert labels(ax) == ["unweighted features", "MAP", "other"]
    (band, _) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.1)  # no spread where there is one repeat
    assert heights.max() == pytest.approx(0.3 + np.std([0.2, 0.4], ddof=1))
    assert ax.get_ylim()[0] == 0.0


def test_learning_curve_of_nothing_is_empty(ax):
    assert not learning_curve([], ax).get_lines()


def test_reliability_leaves_out_empty_bins(ax):
    calibration = SimpleNamespace(
        mean_predicted=np.array([0.1, np.nan, 0.9]),
        observed=np.array([0.2, np.nan, 0.8]),
        counts=np.array([90, 0, 10]),
        expected_calibration_error=0.1,
        unit="edge",
    )
    reliability(calibration, ax)
    assert ax.get_lines()[1].get_xdata() == pytest.approx([0.1, 0.9])
    assert "calibration error 0.1000" in labels(ax)[1]
    sizes = ax.collections[0].get_sizes()
    assert sizes[0] > sizes[1]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "predicted probability of an edge",
        "share of right edges",
    )
    calibration.unit = "node"
    ax.cla()
    assert reliability(calibration, ax).get_xlabel() == "confidence"
    assert ax.get_ylabel() == "share of right nodes"


@pytest.mark.parametrize("is_whole", [True, False])
def test_right_and_wrong_matches_are_told_apart(ax, is_whole):
    outline = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    chances = np.array([1.0, 0.1, 0.3])
    matching, truth = np.array([1, 2, 0]), np.array([1, 0, 2])
    table = np.zeros((3, 3))
    table[np.arange(3), matching] = chances
    matched_silhouettes(
        (outline, 5 * outline + 7),
        (outline[:3], 5 * outline[1:] + 7),
        matching,
        table if is_whole else chances,
        truth,
        ax,
    )
    lines = sorted(ax.get_lines(), key=lambda line: line.get_ydata()[0])
    assert len(lines) == 3
    by_style = {
        style: [line for line in lines if line.get_linestyle() == style]
        for style in ("-", "--")
    }
    (right,) = by_style["-"]
    assert right.get_color() == pytest.approx(to_rgb(BLUE))
    # Left point 0 is at the origin, right point 1 at the second outline's upper right.
    np.testing.assert_allclose(right.get_xydata(), [[0.0, 0.0], [4.35, 1.0]])
    assert len(by_style["--"]) == 2
    for line in by_style["--"]:
        assert min(line.get_color()) > min(to_rgb(VERMILION))  # paler
    assert labels(ax) == ["1 right", "2 wrong", "paler: less probable"]


def test_without_truth_nothing_is_wrong(ax):
    outline = np.eye(3)[:, :2]
    matched_silhouettes(
        (outline, outline), (outline, outline), [2, 0, 1], np.ones(3), ax=ax
    )
    assert labels(ax) == ["3 matched", "paler: less probable"]


def test_a_new_figure_is_made_where_no_axes_are_given():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    drawn = learning_curve(ROWS)
    assert len(pyplot.get_fignums()) == len(before) + 1
    pyplot.close(drawn.figure)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[plots\]'"):
        learning_curve(ROWS)


def test_coefficients_have_their_intervals(ax):
    posterior = pm.Posterior(
        names=("a", "b", "c"),
        params=np.array([1.0, -2.0, 0.0]),
        covariance=np.diag([1.0, 4.0, 0.0]),
        is_fixed=np.array([False, False, True]),
        cov_type="laplace",
        model="MAPMatching",
        units="graphs",
        nobs=10.0,
        n_clusters=10,
        penalty=0.0,
        llf=-1.0,
    )
    assert coefficients(posterior, alpha=0.05, ax=ax) is ax
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c"]
    assert ax.get_xlabel() == "coefficient, 95 % confidence interval"
    (bars,) = ax.containers
    low, high = np.array(bars.lines[2][0].get_segments())[:, :, 0].T
    np.testing.assert_allclose(high - low, [2 * 1.959964, 4 * 1.959964, 0.0], rtol=1e-6)
