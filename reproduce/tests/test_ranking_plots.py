"""What the pictures of rankings show, read back from the Axes."""

import numpy as np
import pytest

from permatch.errors import MissingDependencyError
from reproduce.plots import (
    STYLES,
    label_of,
    ndcg_curves,
    runtime_bars,
    sample_size_curve,
)

pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")
from matplotlib.figure import Figure  # noqa: E402

LINES = [
    {"method": "rankmatch", "subset_size": 3, "variant": "paper"}
    | {"ndcg": np.linspace(0.55, 0.46, 10).tolist(), "spread": [0.01] * 10},
    {"method": "ranksvm", "subset_size": None, "variant": "letor"}
    | {"ndcg": [0.45] * 10, "spread": None},
    {"method": "other", "subset_size": None, "variant": "paper"}
    | {"ndcg": [0.5] * 10, "spread": None},
]
TIMES = [
    {"task": "ranking", "size": 3, "model": 1e-5, "margin": 2e-5}
    | {"paper_model": 6e-4, "paper_margin": 9e-4},
    {"task": "images", "size": 20, "model": 0.5, "margin": None}
    | {"paper_model": 36.0, "paper_margin": 0.9},
    {"task": "ranking", "size": "all", "model": 0.01, "margin": 0.001}
    | {"paper_model": None, "paper_margin": None},
]


@pytest.fixture
def ax():
    return Figure().subplots()


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_labels_name_the_size_of_subsets():
    assert label_of({"method": "dorm", "subset_size": 2}) == "DORM, M = 2"
    assert label_of({"method": "ridge"}) == STYLES["ridge"][0]
    assert label_of({"method": "new", "subset_size": None}) == "new"


def test_styles_differ_in_more_than_colour():
    kinds = [style[2:] for style in STYLES.values()]
    ranking = kinds[list(STYLES).index("rankmatch") :]
    assert len(set(ranking)) == len(ranking)


def test_curves_have_bands_where_there_are_repeats(ax):
    assert ndcg_curves(LINES, ax) is ax
    assert labels(ax) == [
        "RankMatch, M = 3",
        "RankSVM, published (LETOR's NDCG)",
        "other",
    ]
    model, published, _ = ax.get_lines()
    assert model.get_xdata().tolist() == list(range(1, 11))
    assert model.get_ydata() == pytest.approx(LINES[0]["ndcg"])
    assert published.get_linestyle() != "-"
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.45, 0.56))
    bottom = ax.get_ylim()[0]
    assert 0 < bottom < 0.45
    assert f"axis begins at {bottom:.2f}, not at 0" in ax.get_ylabel()
    assert ax.get_xlabel()


def test_nothing_to_draw_is_drawn(ax):
    assert not ndcg_curves([], ax).get_lines()
    assert not sample_size_curve([], ax).get_lines()
    assert not runtime_bars([], ax).get_lines()


def test_sample_sizes_are_on_a_log_scale_and_differences_left_out(ax):
    lines = [
        {"method": method, "n_subsets": share, "mean": 0.5 + share / 10, "spread": 0.01}
        for method in ("rankmatch", "dorm", "rankmatch - dorm")
        for share in (1.0, 0.03)
    ]
    sample_size_curve(lines, ax)
    assert labels(ax) == ["RankMatch", "DORM"]
    assert ax.get_lines()[0].get_xdata().tolist() == [0.03, 1.0]
    assert ax.get_xscale() == "log"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.03", "1"]
    assert "not at 0" in ax.get_ylabel()


def test_run_times_stand_beside_the_papers(ax):
    runtime_bars(TIMES, ax)
    heights = sorted(bar.get_height() for bar in ax.patches)
    known = [line[name] for line in TIMES for name in line if name not in ("task", "size")]
    assert heights == sorted(value for value in known if value is not None)
    assert ax.get_yscale() == "log"
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    assert ticks == ["3", "20\n(images)", "whole list"]
    hatched = [bar for bar in ax.patches if bar.get_hatch()]
    assert len(hatched) == 4


def test_a_figure_is_saved_as_png_and_svg(tmp_path):
    figure = Figure(layout="constrained")
    ndcg_curves(LINES, figure.subplots())
    for ending in ("png", "svg"):
        figure.savefig(tmp_path / f"figure.{ending}")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure.svg").read_text()


@pytest.mark.parametrize(
    "draw", [ndcg_curves, sample_size_curve, runtime_bars], ids=lambda draw: draw.__name__
)
def test_without_matplotlib_the_extra_is_named(monkeypatch, draw):
    monkeypatch.setattr("permatch._optional.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install '\.\[plots\]'"):
        draw([])
