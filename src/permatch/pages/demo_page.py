"""The page of `permatch demo`: what learning did to the matching of two silhouettes."""

from pathlib import Path
from typing import Any

from permatch._files import whole_file
from permatch._optional import require
from permatch.pages.demo_learning import METHODS, Demo, Example
from permatch.pages.html import Page, drawing, figure_svg, table
from permatch.plots import STYLES, learning_curve, matched_silhouettes, reliability

_LABELS = [STYLES[method][0] for method in METHODS]
# What the example is matched by, and what that is called there.
_PARTS = {"Unweighted": "before", "Learned": "after"}


def demo_page(demo: Demo) -> Page:
    """Return the page; its numbers are those of ``demo.to_json()``."""
    n = demo.numbers
    page = Page(
        "Learning to match a horse",
        f"Which of the {n['size']} points on the outline of a silhouette correspond to "
        "those on a sheared copy?",
    )
    page.add_text(
        "Each point is described by its shape context, a histogram of the outline around "
        f"it. The features of an edge between two points are the {n['n_features']} squared "
        "differences of their histograms. With equal weights they match poorly, because a "
        "shear changes some bins far more than others. permatch learns one weight per bin "
        f"from {n['n_train']} labelled pairs, by maximum likelihood over all matchings, "
        "with exact gradients."
    )
    page.add_heading("Before and after learning")
    page.add_html(
        table(
            ["features", "wrong points", "right points in the pair below"],
            [
                ["unweighted", _loss(n["loss_unweighted"]), n["example_right_before"]],
                ["learned", _loss(n["loss_learnt"]), n["example_right_after"]],
            ],
            f"Fraction of points matched incorrectly on {n['n_test']} test pairs.",
            ids=True,
        )
    )
    _add_example(page, demo.example, n)
    _add_curve(page, demo.rows)
    _add_reliability(page, demo)
    _add_commands(page, n)
    return page


def save_picture(demo: Demo, path: Path) -> None:
    """Save the example before and after learning, one above the other, as PNG."""
    figure_of = require("matplotlib.figure", "plots", what="a picture").Figure
    figure = figure_of(figsize=(8.0, 5.6), layout="constrained")
    for name, axes in zip(_PARTS, figure.subplots(2), strict=True):
        _draw(demo.example, name, axes)
        axes.set_title(f"{name} features", fontsize=11)
    with whole_file(path) as file:
        figure.savefig(file.buffer, format="png", dpi=120, metadata={"Software": None})


def _draw(example: Example, name: str, axes: Any) -> None:
    """Draw the matching by features of this name."""
    part = _PARTS[name]
    matched_silhouettes(
        example.outlines,
        example.points,
        getattr(example, part),
        getattr(example, f"{part}_marginals"),
        example.truth,
        axes,
    )


def _add_example(page: Page, example: Example, numbers: dict[str, Any]) -> None:
    size = numbers["size"]
    for name, part in _PARTS.items():
        right = numbers[f"example_right_{part}"]
        with drawing(9.0, 4.2) as (figure, axes):
            _draw(example, name, axes)
            page.add_figure(
                figure_svg(figure),
                f"{name} features on the test pair that improves most: {right} of {size} "
                "points right. Darker lines are more probable matches; dashed lines with a "
                "cross are wrong.",
                f"Two silhouettes with lines between matched points, {name.lower()} "
                f"features, {right} of {size} right.",
            )


def _add_curve(page: Page, rows: list[dict[str, Any]]) -> None:
    page.add_heading("Learning curve")
    with drawing(7.0, 3.8) as (figure, axes):
        learning_curve(rows, axes)
        page.add_figure(
            figure_svg(figure),
            "Fraction of wrong points on the test pairs against the number of labelled "
            "training pairs, for one random draw of points and pairs.",
            "Learning curve: " + "; ".join(_curve_in_words(rows)) + ".",
        )
    page.add_html(
        table(
            ["training pairs", *_LABELS],
            [[k, *cells] for k, *cells in _curve_cells(rows)],
            "The values of the learning curve.",
            ids=True,
        )
    )


def _add_reliability(page: Page, demo: Demo) -> None:
    error = demo.numbers["calibration_error"]
    page.add_heading("Calibration")
    page.add_text(
        "Every edge of every test pair has a predicted probability. If the model is "
        "calibrated, a fraction p of the edges with probability p are right."
    )
    with drawing(4.6, 4.6) as (figure, axes):
        reliability(demo.reliability, axes)
        page.add_figure(
            figure_svg(figure),
            "Reliability of all edge probabilities on the test pairs. Expected calibration "
            f"error: {error:.4f}.",
            f"Reliability curve with an expected calibration error of {error:.4f}.",
            is_narrow=True,
        )


def _add_commands(page: Page, n: dict[str, Any]) -> None:
    page.add_heading("Reproduce it in Python")
    n_train = n["n_train"]
    lines = [
        "import permatch as pm",
        "data = pm.datasets.silhouettes()",
        f"graphs, matchings, _ = data.pairs({n_train + n['n_test']}, rng=0)",
        f"model = pm.MAPMatching(alpha={n['alpha']:g}, n_jobs=2)",
        f"model.fit(graphs[:{n_train}], matchings[:{n_train}])",
        f"print(1 - model.score(graphs[{n_train}:], matchings[{n_train}:]))",
    ]
    page.add_code("\n".join(lines))
    page.add_text(
        f"alpha = {n['alpha']:g} was chosen on {n['n_train']} validation pairs. The last "
        f"fit took {n['evaluations']} evaluations of the likelihood; the whole demo took "
        f"{n['seconds']:.0f} seconds."
    )


def _loss(share: float) -> str:
    return f"{100 * share:.1f} %"


def _curve_cells(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Return (training pairs, loss by method) lines; without learning it is constant."""
    losses = {(row["n"], row["method"]): row["hamming_loss"] for row in rows}
    sizes = sorted({row["n"] for row in rows if row["n"] > 0})
    unweighted, *learners = METHODS
    return [
        [
            n,
            _loss(losses[0, unweighted]),
            *(_loss(losses[n, method]) for method in learners),
        ]
        for n in sizes
    ]


def _curve_in_words(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for n, *cells in _curve_cells(rows):
        losses = ", ".join(f"{m} {c}" for m, c in zip(_LABELS, cells, strict=True))
        lines.append(f"with {n} training pairs {losses}")
    return lines
