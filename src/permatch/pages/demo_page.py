"""The page of `permatch demo`: two registers linked, and a horse matched."""

from typing import Any

from permatch.metrics.calibration import PLAUSIBLE
from permatch.pages.demo_learning import METHODS, Demo, Example
from permatch.pages.demo_linking import Linking
from permatch.pages.explorer_page import percent
from permatch.pages.html import Page, drawing, figure_svg, table
from permatch.plots import STYLES, learning_curve, matched_silhouettes, reliability

_LABELS = [STYLES[method][0] for method in METHODS]
# What the example is matched by, and what that is called there.
_PARTS = {"Unweighted": "before", "Learned": "after"}


def demo_page(linking: Linking, demo: Demo) -> Page:
    """Return the page; its numbers are those that both parts write as JSON."""
    page = Page(
        "Two lists linked, a horse matched",
        "One-to-one links between the members of two libraries; then which points of a "
        "silhouette correspond to those of a sheared copy, learned from examples.",
    )
    page.add_heading("The members of two libraries")
    _add_linking(page, linking)
    page.add_heading("Learning to match a horse")
    _add_horse(page, demo)
    _add_curve(page, demo.rows)
    _add_reliability(page, demo)
    _add_commands(page, demo.numbers)
    return page


def _add_linking(page: Page, linking: Linking) -> None:
    n = linking.numbers
    page.add_text(
        f"Two libraries list {n['n_north']} and {n['n_south']} members. Names are "
        "misspelt, people have moved, families share a name and a street. A logistic "
        "regression, "
        f"trained on other people, gives each of {n['n_pairs']:,} candidate pairs a "
        f"probability of being the same person; {n['n_links']} people are in both lists. "
        "pm.link asks that nobody is linked twice and keeps the expected number of links; "
        "it uses no threshold and no labels."
    )
    page.add_html(
        table(
            ["links by", "precision", "recall", "F1", "Brier score"],
            [
                [row["method"]]
                + [f"{row[name]:.3f}" for name in ("precision", "recall", "f1")]
                + [f"{row['brier']:.4f}"]
                for row in linking.rows
            ],
            "The same probabilities, used in three ways.",
            ids=True,
        )
    )
    page.add_text(
        "With the best threshold, which only the true links tell, greedy is as good. A "
        "link that only pm.link finds here, and who else the two people could be:"
    )
    page.add_html(
        table(
            ["north", "south", "by itself", "one-to-one", "the truth"],
            [
                [
                    pair["north"],
                    pair["south"],
                    percent(pair["pair_probability"]),
                    percent(pair["probability"]),
                    "same person" if pair["is_true"] else "two people",
                ]
                for pair in linking.example
            ],
            "Probability of each pair by itself, and if nobody is linked twice.",
            is_text=True,
        )
    )
    page.add_text("In Python, from the classifier's probabilities:")
    page.add_code('links = pm.link(pairs, left="north", right="south", probability="p")')


def _add_horse(page: Page, demo: Demo) -> None:
    n = demo.numbers
    page.add_text(
        f"Each of {n['size']} points on an outline is described by its shape context, a "
        "histogram of the outline around it. The features of an edge between two points "
        f"are the {n['n_features']} squared differences of their histograms. With equal "
        "weights they match poorly, because a shear changes some bins far more than "
        f"others. permatch learns one weight per bin from {n['n_train']} labelled pairs, "
        "by maximum likelihood over all matchings, with exact gradients."
    )
    page.add_html(
        table(
            ["features", "wrong points", "right points in the pair below"],
            [
                ["unweighted", _share(n["loss_unweighted"]), n["example_right_before"]],
                ["learned", _share(n["loss_learnt"]), n["example_right_after"]],
                ["learned at other points", _share(n["loss_new_landmarks"]), ""],
            ],
            f"Fraction of points matched incorrectly on {n['n_test']} test pairs.",
            ids=True,
        )
    )
    page.add_text(
        "As in the paper, training and test pairs show the same points of the horse, so "
        "part of what is learned is these very points. The last row is learned and "
        "validated at other points of the outline and tested on the same pairs. All else "
        "on this page is of the model that learned at the same points."
    )
    _add_example(page, demo.example, n)


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
    page.add_heading("Learning curve", level=3)
    with drawing(7.0, 3.8) as (figure, axes):
        learning_curve(rows, axes)
        page.add_figure(
            figure_svg(figure),
            "Fraction of wrong points on the test pairs against the number of labelled "
            "training pairs, for one random draw of points and pairs. Training and test "
            "pairs show the same points.",
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
    n = demo.numbers
    page.add_heading("Calibration", level=3)
    page.add_text(
        "Every edge of every test pair has a predicted probability. If the model is "
        "calibrated, a fraction p of the edges with probability p are right. Nearly all "
        "edges are nearly impossible, which is easy to predict: only those of probability "
        f"{PLAUSIBLE:g} or more are counted, {n['n_plausible']:,} in all. The second curve "
        "has one prediction per point: is its most probable partner right as often as it "
        "is probable?"
    )
    error, by_node = n["calibration_error"], n["node_calibration_error"]
    curves = (
        (
            demo.reliability,
            f"Reliability of the plausible edges. Expected calibration error: {error:.4f}.",
            f"Reliability curve of edges, expected calibration error {error:.4f}.",
        ),
        (
            demo.node_reliability,
            f"Confidence in the most probable partner of a point, {n['confidence']:.3f} on "
            f"average, and how often it is right, {n['accuracy']:.3f}. Expected "
            f"calibration error: {by_node:.4f}.",
            f"Reliability curve of points: confidence {n['confidence']:.3f}, accuracy "
            f"{n['accuracy']:.3f}.",
        ),
    )
    for curve, caption, words in curves:
        with drawing(4.6, 4.6) as (figure, axes):
            reliability(curve, axes)
            page.add_figure(figure_svg(figure), caption, words, is_narrow=True)


def _add_commands(page: Page, n: dict[str, Any]) -> None:
    page.add_heading("Reproduce it in Python", level=3)
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


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _curve_cells(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """Return (training pairs, loss by method) lines; without learning it is constant."""
    losses = {(row["n"], row["method"]): row["hamming_loss"] for row in rows}
    sizes = sorted({row["n"] for row in rows if row["n"] > 0})
    unweighted, *learners = METHODS
    return [
        [
            n,
            _share(losses[0, unweighted]),
            *(_share(losses[n, method]) for method in learners),
        ]
        for n in sizes
    ]


def _curve_in_words(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for n, *cells in _curve_cells(rows):
        losses = ", ".join(f"{m} {c}" for m, c in zip(_LABELS, cells, strict=True))
        lines.append(f"with {n} training pairs {losses}")
    return lines
