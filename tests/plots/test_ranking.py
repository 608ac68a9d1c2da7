"""What the pictures of rankings compared show, read back from the Axes."""

import numpy as np
import pytest

from permatch.errors import MissingDependencyError
from permatch.plots import query_differences
from permatch.plots import ranking as ranking_plots

pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")
from matplotlib.figure import Figure  # noqa: E402


@pytest.fixture
def ax():
    return Figure().subplots()


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_differences_are_sorted_and_counted(ax):
    query_differences([0.1, -0.2, 0.0, 0.3], "A", "B", interval=(-0.1, 0.2), ax=ax)
    assert set(labels(ax)) == {"won by A: 2", "won by B: 1", "mean +0.0500, 1 equal"}
    bars = sorted((bar.get_x(), bar.get_height()) for bar in ax.patches[:3])
    assert [height for _, height in bars] == pytest.approx([0.3, 0.1, -0.2])
    assert ax.get_title() == "A minus B"


def test_many_differences_are_one_outline_per_side(ax, rng, monkeypatch):
    monkeypatch.setattr(ranking_plots, "_MOST_BARS", 10)
    values = rng.normal(size=11)
    query_differences(values, "A", "B", measure="MAP", ax=ax)
    assert not ax.patches
    heights = [outline.get_paths()[0].vertices[:, 1] for outline in ax.collections]
    assert heights[0].max() == values.max()
    assert heights[1].min() == values.min()
    assert ax.get_ylabel() == "difference of MAP"


def test_dollar_signs_begin_no_formula(ax):
    query_differences([0.1, -0.2], "$a", "b$_", ax=ax)
    ax.figure.savefig("/dev/null", format="svg")
    assert ax.get_title() == r"\$a minus b\$_"


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[plots\]'"):
        query_differences(np.zeros(2), "A", "B")
