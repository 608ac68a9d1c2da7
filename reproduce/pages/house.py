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

_LABELS = {method: style[0] for method, style in HOUSE_STYLES.items()}
_LEARNERS = tuple(method for method in HOUSE_STYLES if method != "unweighted")


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
        "Matching the landmarks of a turning house",
        f"{house.size} landmarks in {len(house.contexts)} frames of a film, and the "
        "question which is which when two frames are far apart.",
    )
    page.add_text(
        f"Every landmark carries a shape context of {house.contexts.shape[2]} bins, a "
        "histogram of where the other landmarks lie around it. An edge between landmarks "
        "of two frames carries the squared differences of the bins, and the learners find "
        "one weight per bin. Pairs that begin with frame 0, 3, 6, ... train, those with 1, "
        "4, 7, ... choose the penalty by their Hamming loss, those with 2, 5, 8, ... test. "
        "Features are divided by their spread over the training pairs."
    )
    page.add_heading("Losses by gap")
    _add_losses(page, lines, rows)
    page.add_heading("One pair, before and after")
    _add_example(page, house, rows)
    page.add_heading("How exact the likelihood is")
    _add_check(page, config, house, lines)
    page.add_heading("What was chosen, and what it took")
    _add_choices(page, rows)
    page.add_heading("Run it yourself")
    _add_commands(page, config, rows)
    return page


def _add_losses(page: Page, lines: list[Row], rows: Sequence[Row]) -> None:
    words = "; ".join(
        f"at a gap of {line['gap']} "
        + ", ".join(f"{_LABELS[m]} {line[m]:.3f}" for m in _LABELS)
        for line in lines
    )
    with drawing(7.5, 4.4) as (figure, axes):
        gap_curve(lines, axes)
        page.add_figure(
            figure_svg(figure),
            "Share of wrongly matched landmarks on test pairs against the number of frames "
            "between the two. Bars: one standard error over test pairs.",
            f"Hamming loss by gap: {words}.",
        )
    page.add_html(
        table(
            ["gap", *_LABELS.values(), "training pairs", "test pairs"],
            [
                [
                    line["gap"],
                    *(_loss(line[m], line[f"{m}_error"]) for m in _LABELS),
                    line["n_train"],
                    line["n_test"],
                ]
                for line in lines
            ],
            "The same in numbers, with standard errors.",
            ids=True,
        )
    )
    fewest = min(line["n_test"] for line in lines)
    page.add_text(
        f"There are few pairs, at the widest gap only {fewest} to test, and neighbouring "
        "pairs look alike: differences of one or two standard errors between the learners "
        f"mean nothing. {_learners_against_unweighted(rows)}"
    )


def _learners_against_unweighted(rows: Sequence[Row]) -> str:
    """Say at which gaps every learner is clearly better than unweighted features."""
    clear = [
        gap
        for gap in sorted({row["gap"] for row in rows})
        if all(effect.side == 1 for effect in house_effects(rows, gap))
    ]
    if not clear:
        return "No gap shows all learners clearly ahead of the unweighted features."
    gaps = ", ".join(map(str, clear))
    return (
        "All learners are ahead of the unweighted features with the whole of a 95 % "
        f"interval, paired by test pair, at gaps of {gaps}."
    )


def _add_example(page: Page, house: House, rows: Sequence[Row]) -> None:
    gap = max(row["gap"] for row in rows)
    coefs = {row["method"]: row.get("coef") for row in rows if row["gap"] == gap}
    test = house.pairs(gap, "test")
    unweighted = -np.ones(house.contexts.shape[2])
    learnt = np.asarray(coefs["map_drawn"])
    before, after = (
        np.array([best_matching(graph.scores(coef)) for graph in test.graphs])
        for coef in (unweighted, learnt)
    )
    truth = np.arange(house.size)
    gains = np.sum(after == truth, axis=1) - np.sum(before == truth, axis=1)
    best = int(np.argmax(gains))
    first, second = house.frames(gap, "test")[best]
    for name, matching in (("Unweighted", before[best]), ("Learnt", after[best])):
        n_right = int((matching == truth).sum())
        with drawing(8.0, 3.6) as (figure, axes):
            frames = house.points[first], house.points[second]
            matched_landmarks(frames, matching, f"{name} features", axes)
            page.add_figure(
                figure_svg(figure),
                f"{name} features, frames {first} and {second}, the test pair that "
                f"learning helps most: {n_right} of {house.size} landmarks right. Dashed "
                "lines with a cross are wrong.",
                f"Landmarks of two frames with lines between those matched, {name.lower()} "
                f"features, {n_right} of {house.size} right.",
            )


def _add_check(page: Page, config: Config, house: House, lines: list[Row]) -> None:
    page.add_text(
        f"An exact likelihood of a graph of {house.size} nodes takes seconds, and a fit "
        "asks for it thousands of times. So both fits by maximum a posteriori are "
        "approximate, in different ways. The Bethe approximation is smooth, deterministic "
        "and fast, but makes no statement about its error. Sampled gradients (nesting "
        f"importance sampling, {config.n_draws} draws a graph at the end of a fit) are "
        "right on average and come with standard errors."
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
            "Bethe marginals against sampled ones on the first test pairs, at the weights "
            "learnt with Bethe gradients.",
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
            " These are errors of the Bethe approximation, which tends to decide for one "
            "of two matchings that are about equally good. Do not read its marginals as "
            "probabilities here; use the engine 'nesting' for those. Matchings are another "
            "matter: they depend on the weights only."
        )
    page.add_text(text)


def _add_choices(page: Page, rows: Sequence[Row]) -> None:
    by_key = {(row["gap"], row["method"]): row for row in rows}
    gaps = sorted({row["gap"] for row in rows})
    page.add_html(
        table(
            ["gap", *(f"{_LABELS[m]}: alpha" for m in _LEARNERS)]
            + [f"{_LABELS[m]}: time" for m in _LEARNERS],
            [
                [gap]
                + [_alpha(by_key[gap, m]) for m in _LEARNERS]
                + [f"{by_key[gap, m]['seconds']:.0f}\u00a0s" for m in _LEARNERS]
                for gap in gaps
            ],
            "The penalty chosen on validation pairs, and the time for all penalties tried.",
            ids=True,
        )
    )
    n_edge = sum(row.get("is_edge", False) for row in rows)
    n_open = sum(not row.get("is_converged", True) for row in rows)
    errors = [row["gradient_error"] for row in rows if row["method"] == "map_drawn"]
    page.add_text(
        f"* the first or last one tried ({n_edge} of {len(gaps) * len(_LEARNERS)} "
        "choices); where all losses are zero the strongest penalty is taken. "
        + (
            "All chosen fits converged. "
            if n_open == 0
            else f"{n_open} of the chosen fits did not converge. "
        )
        + "With sampled gradients that means: down to the errors of the gradient, of which "
        f"the largest is {min(errors):.2g} to {max(errors):.2g}, depending on the gap."
    )


def _add_commands(page: Page, config: Config, rows: Sequence[Row]) -> None:
    gap = max(row["gap"] for row in rows)
    is_quick = config.map_alphas == Config.quick().map_alphas
    page.add_code(f"python -m reproduce house --data DIR{' --quick' if is_quick else ''}")
    page.add_text("One gap by hand:")
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


def _loss(loss: float, error: float | None) -> str:
    # Spaces that do not break keep a cell on one line.
    return f"{loss:.3f}" if error is None else f"{loss:.3f}\u00a0±\u00a0{error:.3f}"


def _alpha(row: dict[str, Any]) -> str:
    text = f"{row['alpha']:g}".replace("e-0", "e-")
    return f"{text}\u00a0*" if row["is_edge"] else text
