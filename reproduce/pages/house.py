"""The page of `python -m reproduce house`: losses by gap, and how exact the model is."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch.decoding import best_matching
from permatch.pages.html import Page, drawing, figure_svg, table
from reproduce.experiments.cmu_house import Config, summarise
from reproduce.experiments.evidence import house_effects
from reproduce.experiments.house_frames import House
from reproduce.experiments.rows import Row
from reproduce.plots.house import HOUSE_STYLES, gap_curve, matched_landmarks


def _labels(config: Config) -> dict[str, str]:
    """Return the methods that were compared, with their names."""
    return {m: style[0] for m, style in HOUSE_STYLES.items() if m in config.methods}


def house_page(config: Config, house: House, rows: Sequence[Row]) -> Page:
    """Return the page.

    Parameters
    ----------
    config : Config
        What was done.
    house : House
        The frames.
    rows : sequence of dict
        What `reproduce.experiments.cmu_house.run` yielded.

    Returns
    -------
    Page
        Ready to be written.
    """
    lines = summarise(rows)
    page = Page(
        "Matching the landmarks of a rotating house",
        f"{house.size} landmarks in {len(house.contexts)} frames of a video: which "
        "correspond when two frames are far apart?",
    )
    page.add_text(
        "Each landmark is described by a shape context of "
        f"{house.contexts.shape[2]} bins, a histogram of the positions of the other "
        "landmarks around it. The features of an edge between landmarks of two frames are "
        "the squared differences of the bins; the methods learn one weight per bin. Pairs "
        "starting with frame 0, 3, 6, ... are used for training, 1, 4, 7, ... for choosing "
        "the penalty by Hamming loss, and 2, 5, 8, ... for testing. Features are divided "
        "by their standard deviation over the training pairs. So every test frame has "
        "neighbours that were learned from, with the same landmarks in almost the same "
        "places: how much of the gain is left without that is measured by python -m "
        "reproduce house-protocols."
    )
    page.add_heading("Loss by gap")
    _add_losses(page, _labels(config), lines, rows)
    page.add_heading("One pair before and after learning")
    _add_example(page, house, rows)
    page.add_heading("Accuracy of the likelihood")
    _add_check(page, config, house, lines)
    page.add_heading("Chosen penalties and times")
    _add_choices(page, _labels(config), rows)
    page.add_heading("Run it yourself")
    _add_commands(page, config, rows)
    return page


def _add_losses(
    page: Page, labels: dict[str, str], lines: list[Row], rows: Sequence[Row]
) -> None:
    words = "; ".join(
        f"at a gap of {line['gap']} "
        + ", ".join(f"{labels[m]} {line[m]:.3f}" for m in labels)
        for line in lines
    )
    with drawing(7.5, 4.4) as (figure, axes):
        gap_curve(lines, axes)
        page.add_figure(
            figure_svg(figure),
            "Fraction of incorrectly matched landmarks on test pairs against the gap "
            "between the frames. Bars: one standard error over test pairs.",
            f"Hamming loss by gap: {words}.",
        )
    page.add_html(
        table(
            ["gap", *labels.values(), "training pairs", "test pairs"],
            [
                [
                    line["gap"],
                    *(_loss(line[m], line[f"{m}_error"]) for m in labels),
                    line["n_train"],
                    line["n_test"],
                ]
                for line in lines
            ],
            "Hamming loss by gap, with standard errors.",
            ids=True,
        )
    )
    fewest = min(line["n_test"] for line in lines)
    page.add_text(
        f"There are few pairs, only {fewest} test pairs at the widest gap, and "
        "neighbouring pairs are similar: differences of one or two standard errors between "
        f"the methods are not meaningful. {_learners_against_unweighted(rows)}"
    )


def _learners_against_unweighted(rows: Sequence[Row]) -> str:
    """Say at which gaps every learner is clearly better than unweighted features."""
    clear = [
        gap
        for gap in sorted({row["gap"] for row in rows})
        if all(effect.side == 1 for effect in house_effects(rows, gap))
    ]
    if not clear:
        return "At no gap are all learned weights clearly better than unweighted features."
    gaps = ", ".join(map(str, clear))
    return (
        "All learned weights are better than unweighted features, with 95 % intervals "
        f"(paired by test pair) that exclude zero, at gaps of {gaps}."
    )


def _add_example(page: Page, house: House, rows: Sequence[Row]) -> None:
    gap = max(row["gap"] for row in rows)
    coefs = {row["method"]: row.get("coef") for row in rows if row["gap"] == gap}
    test = house.pairs(gap, "test")
    unweighted = -np.ones(house.contexts.shape[2])
    learned = np.asarray(coefs["map_drawn"])
    before, after = (
        [best_matching(graph.scores(coef)) for graph in test.graphs]
        for coef in (unweighted, learned)
    )
    gains = [
        int(np.sum(new == true)) - int(np.sum(old == true))
        for old, new, true in zip(before, after, test.matchings, strict=True)
    ]
    best = int(np.argmax(gains))
    first, second = house.frames(gap, "test")[best]
    left, right = house.nodes(first, second)
    for name, matching in (("Unweighted", before[best]), ("Learned", after[best])):
        n_right = int((matching == test.matchings[best]).sum())
        with drawing(8.0, 3.6) as (figure, axes):
            frames = house.points[first], house.points[second]
            partners = right[matching][np.argsort(left)]  # by landmark
            matched_landmarks(frames, partners, f"{name} features", axes)
            page.add_figure(
                figure_svg(figure),
                f"{name} features, frames {first} and {second}, the test pair that "
                f"improves most: {n_right} of {house.size} landmarks right. Dashed lines "
                "with a cross are wrong.",
                f"Landmarks of two frames with lines between matched ones, {name.lower()} "
                f"features, {n_right} of {house.size} right.",
            )


def _add_check(page: Page, config: Config, house: House, lines: list[Row]) -> None:
    page.add_text(
        f"The exact likelihood of a graph of {house.size} nodes takes seconds on a "
        "processor, and a fit needs it thousands of times. Both maximum a posteriori fits "
        f"are therefore approximate{_beside_exact(config)}. The Bethe "
        "approximation is smooth, deterministic and fast, but has no error estimate. "
        f"Sampled gradients (nesting importance sampling, {config.n_draws} draws per graph "
        "at the end of a fit) are unbiased and have standard errors."
    )
    checked = [line for line in lines if line.get("check_largest") is not None]
    if not checked:
        return
    page.add_html(
        table(
            ["gap", "largest error of an edge", "misplaced per landmark", "pairs"],
            [
                [
                    line["gap"],
                    f"{line['check_largest']:.3f}",
                    f"{100 * line['check_misplaced']:.1f} %",
                    line["check_n_pairs"],
                ]
                for line in checked
            ],
            "Bethe marginals compared with sampled ones on the first test pairs, at the "
            "weights learned with Bethe gradients.",
            ids=True,
        )
    )
    worst = max(line["check_largest"] for line in checked)
    error = max(line["check_sampler_error"] for line in checked)
    text = (
        f"The sampled marginals have standard errors of at most {error:.3f}; the Bethe "
        f"marginals differ from them by up to {worst:.2f} for a single edge."
    )
    if worst > 4.0 * error:
        text += (
            " These are errors of the Bethe approximation, which tends to favour one of "
            "two matchings that are about equally good. Do not use its marginals as "
            "probabilities here; use the engine 'nesting' instead. Predicted matchings are "
            "not affected: they depend only on the weights."
        )
    page.add_text(text)


def _add_choices(page: Page, labels: dict[str, str], rows: Sequence[Row]) -> None:
    learners = [method for method in labels if method != "unweighted"]
    by_key = {(row["gap"], row["method"]): row for row in rows}
    gaps = sorted({row["gap"] for row in rows})
    page.add_html(
        table(
            ["gap", *(f"{labels[m]}: alpha" for m in learners)]
            + [f"{labels[m]}: time" for m in learners],
            [
                [gap]
                + [_alpha(by_key[gap, m]) for m in learners]
                + [f"{by_key[gap, m]['seconds']:.0f}\u00a0s" for m in learners]
                for gap in gaps
            ],
            "Penalty (alpha) chosen on the validation pairs, and time for all penalties.",
            ids=True,
        )
    )
    n_edge = sum(row.get("is_edge", False) for row in rows)
    n_open = sum(not row.get("is_converged", True) for row in rows)
    errors = [row["gradient_error"] for row in rows if row["method"] == "map_drawn"]
    page.add_text(
        f"*: at an end of the grid ({n_edge} of {len(gaps) * len(learners)} choices); if "
        "all losses are zero the strongest penalty is chosen. "
        + (
            "All chosen fits converged. "
            if n_open == 0
            else f"{n_open} of the chosen fits did not converge. "
        )
        + "With sampled gradients, converged means within the error of the gradient, whose "
        f"largest entry is {min(errors):.2g} to {max(errors):.2g}, depending on the gap."
    )


def _add_commands(page: Page, config: Config, rows: Sequence[Row]) -> None:
    gap = max(row["gap"] for row in rows)
    is_quick = config.map_alphas == Config.quick().map_alphas
    page.add_code(f"python -m reproduce house --data DIR{' --quick' if is_quick else ''}")
    page.add_text("One gap in Python:")
    page.add_code(
        "\n".join(
            [
                "from permatch import MAPMatchingCV",
                "from reproduce.experiments.house_frames import load_house",
                "",
                'house = load_house("DIR")',
                f"train, validation, test = (house.pairs({gap}, part) for part in "
                '("train", "validation", "test"))',
                'model = MAPMatchingCV([1, 0.1, 0.01, 0.001], engine="nesting", tol=1e-4)',
                "model.fit(*train, validation=tuple(validation))",
                "print(model.alpha_, 1 - model.score(*test), model.gradient_error_)",
            ]
        )
    )


def _beside_exact(config: Config) -> str:
    return (
        "; a third one with exact gradients ran on a GPU" if config.device == "cuda" else ""
    )


def _loss(loss: float, error: float | None) -> str:
    # Spaces that do not break keep a cell on one line.
    return f"{loss:.3f}" if error is None else f"{loss:.3f}\u00a0±\u00a0{error:.3f}"


def _alpha(row: dict[str, Any]) -> str:
    text = f"{row['alpha']:g}".replace("e-0", "e-")
    return f"{text}\u00a0*" if row["is_edge"] else text
