"""What the pictures of rankings show, read back from the Axes."""

import numpy as np
import pytest

from permatch.errors import MissingDependencyError
from reproduce.experiments.published_rankings import PUBLISHED
from reproduce.plots import (
    STYLES,
    label_of,
    ndcg_curves,
    ndcg_panels,
    runtime_bars,
    sample_size_curve,
)
from reproduce.rivals import RIVALS

pytest.importorskip("matplotlib", reason="needs matplotlib (extra 'plots')")
from matplotlib.figure import Figure  # noqa: E402

LINES = [
    {"method": "rankmatch", "subset_size": 3, "variant": "paper"}
    | {"ndcg": np.linspace(0.55, 0.46, 10).tolist(), "spread": [0.01] * 10},
    {"method": "ranksvm_published", "subset_size": None, "variant": "letor"}
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
    assert published.get_linestyle() == "None"  # hollow points
    assert published.get_markerfacecolor() == "none"
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.45, 0.56))
    bottom = ax.get_ylim()[0]
    assert 0 < bottom < 0.45
    assert f"axis begins at {bottom:.2f}, not at 0" in ax.get_ylabel()
    assert ax.get_xlabel()


def test_panels_show_every_line_once_and_the_baseline_in_all():
    methods = [method for method in STYLES if method != "rankmatch"]
    lines = [LINES[0], *(LINES[2] | {"method": method} for method in [*methods, "other"])]
    figure = Figure()
    assert ndcg_panels(lines, figure) is figure
    assert len(figure.axes) == 3
    drawn = [labels(axes) for axes in figure.axes]
    assert all(names[0] == "RankMatch, M = 3" for names in drawn)
    shown = [name for names in drawn for name in names[1:]]
    assert sorted(shown) == sorted([*(STYLES[m][0] for m in methods), "other"])
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert [bool(axes.get_ylabel()) for axes in figure.axes] == [True, False, False]
    ndcg_panels(lines, figure, is_stacked=True)  # again: cleared first
    assert len(figure.axes) == 3
    assert all(axes.get_ylabel() for axes in figure.axes)
    assert [bool(axes.get_xlabel()) for axes in figure.axes] == [False, False, True]


def test_panels_that_would_be_empty_are_left_out():
    figure = ndcg_panels([LINES[0], LINES[2] | {"method": "listnet"}], Figure())
    (axes,) = figure.axes
    assert labels(axes) == ["RankMatch, M = 3", "ListNet"]
    assert len(ndcg_panels([LINES[0]], Figure()).axes) == 1


def test_rivals_are_called_as_in_their_table():
    for method, rival in RIVALS.items():
        if not rival.needs_similarity:
            assert STYLES[method][0] == rival.name
    for method, name in PUBLISHED.items():
        assert STYLES[method][0] == f"{name}, published"
        assert STYLES[method][1:3] == STYLES[name.lower()][1:3]  # colour and marker


def test_nothing_to_draw_is_drawn(ax):
    assert not ndcg_curves([], ax).get_lines()
    assert not ndcg_panels([], Figure()).axes[0].get_lines()
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
