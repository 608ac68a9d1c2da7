"""What the page of the paper shows of the matching experiments."""

from permatch.pages.html import Page, drawing, figure_svg, table
from permatch.plots import learning_curve
from reproduce.experiments.outcomes import Outcome
from reproduce.experiments.rows import Row
from reproduce.plots import HOUSE_STYLES, gap_curve

#: Inches, so that writing can be read on a phone.
WIDTH, HEIGHT = 4.4, 3.5


# What the protocol of the silhouettes is, as a difference from the paper.
_LEARNED_FROM = {
    "same-landmarks": "As in the paper, training and test pairs have the same landmarks: "
    "part of what is learned is these very points. The protocols new-landmarks and "
    "other-silhouette learn from other points and from other silhouettes.",
    "new-landmarks": "Training, validation and test pairs each have landmarks of their "
    "own on the same outline; in the paper they share them. The test pairs are those of "
    "Figure 3, left.",
    "other-silhouette": "Training pairs show one other silhouette, validation pairs "
    "another one, both drawn anew for every repeat: dingbats of the font DejaVu Sans "
    "(chess pieces, an aeroplane, an umbrella and so on) unless a folder is given. None of "
    "them is a horse: a database with several silhouettes of a class is not available "
    "here. The test pairs are those of Figure 3, left.",
}


def add_silhouettes(page: Page, outcome: Outcome) -> None:
    """Add losses against the number of training pairs."""
    lines: list[Row] = outcome.summary
    by_key = {(line["n"], line["method"]): line for line in lines}
    sizes = sorted({line["n"] for line in lines if line["n"] > 0})
    config = outcome.config
    n_repeats = max(line["n_repeats"] for line in lines)
    words = "; ".join(
        f"with {n} pairs MAP {by_key[n, 'map']['mean']:.3f}, max-margin "
        f"{by_key[n, 'max_margin']['mean']:.3f}"
        for n in sizes
    )
    unweighted = by_key[0, "unweighted"]
    with drawing(WIDTH, HEIGHT) as (figure, axes):
        learning_curve(outcome.rows, axes)
        axes.set(
            xlabel="training pairs (number)",
            ylabel="Hamming loss on test pairs\n(fraction of points, 0 to 1)",
        )
        page.add_figure(
            figure_svg(figure),
            f"Hamming loss on {config.n_test} test pairs against the number of training "
            f"pairs. Bands: one standard deviation over {n_repeats} repeats.",
            f"Hamming loss: {words}; unweighted features {unweighted['mean']:.3f}.",
            is_narrow=True,
        )
    methods = ("map", "max_margin", "map - max_margin")
    page.add_html(
        table(
            ["pairs", "unweighted", "MAP", "max-margin", "MAP minus max-margin"],
            [
                [
                    n,
                    show_spread(unweighted),
                    *(show_spread(by_key[n, m], is_signed=" - " in m) for m in methods),
                ]
                for n in sizes
            ],
            "Hamming loss by training pairs, with standard deviations over repeats.",
        )
    )
    boosted, pairs = (by_key.get((sizes[-1], method)) for method in ("boosted", "pairs"))
    if boosted and pairs:
        page.add_text(
            f"Boosted trees, with {sizes[-1]} pairs in the first {boosted['n_repeats']} "
            f"repeats: {show_spread(boosted)} by the likelihood of whole matchings, "
            f"{show_spread(pairs)} pair by pair, with assignment."
        )
    page.add_heading("Differences from the paper", level=3)
    page.add_text(
        f"As in the paper: {config.n_points} points on a silhouette, {config.n_images} "
        "sheared copies, N training and N validation pairs, squared differences of shape "
        f"contexts; {config.n_test} test pairs (500 in the paper). Different: the horse of "
        "scikit-image, because the paper's database of mythological creatures is not "
        "available; exact gradients instead of sampled ones, by an algorithm that the "
        "paper did not use. Not specified in the paper and chosen here: shears from "
        f"{config.shear[0]:g} to {config.shear[1]:g}, {config.n_contour} points of the "
        f"outline, the alphas, and {n_repeats} repeats with different points, shears and "
        f"pairs. {_LEARNED_FROM[config.protocol]}"
    )


def add_house(page: Page, outcome: Outcome) -> None:
    """Add losses against the gap between frames."""
    lines: list[Row] = outcome.summary
    methods = outcome.config.methods
    labels = {m: style[0] for m, style in HOUSE_STYLES.items() if m in methods}
    words = "; ".join(
        f"at a gap of {line['gap']} "
        + ", ".join(f"{labels[m]} {line[m]:.3f}" for m in labels)
        for line in lines
    )
    with drawing(WIDTH, HEIGHT) as (figure, axes):
        gap_curve(lines, axes)
        axes.set(
            xlabel="gap between the frames (frames)",
            ylabel="Hamming loss on test pairs\n(fraction of landmarks, 0 to 1)",
        )
        page.add_figure(
            figure_svg(figure),
            "Hamming loss against the gap between the two frames. Bars: one standard error "
            "over test pairs.",
            f"Hamming loss by gap: {words}.",
            is_narrow=True,
        )
    page.add_html(
        table(
            ["gap", *labels.values(), "test pairs"],
            [
                [
                    line["gap"],
                    *(_with_error(line, method) for method in labels),
                    line["n_test"],
                ]
                for line in lines
            ],
            "Hamming loss by gap between frames, with standard errors over test pairs.",
        )
    )
    fewest = min(line["n_test"] for line in lines)
    page.add_text(
        f"At the widest gap there are only {fewest} test pairs, and neighbouring pairs "
        "look alike, so standard errors and intervals are too narrow."
    )
    page.add_heading("Differences from the paper", level=3)
    page.add_text(
        "This experiment is not in the paper. The claim comes from the max-margin work "
        "with which the paper compares itself (Caetano, McAuley, Cheng, Le and Smola, "
        "2009), and the frames are split in the same way: pairs starting with frame 0, 3, "
        "6, ... for training, 1, 4, 7, ... for validation, 2, 5, 8, ... for testing. "
        "Different: only features of single landmarks, no terms for pairs of landmarks. "
        "Graphs of 30 nodes are too large for an exact likelihood in every step, so MAP is "
        "fitted once with the Bethe approximation and once with sampled gradients. The "
        "page of the single experiment reports the error of the approximation."
    )


def show_spread(line: Row, digits: int = 3, *, is_signed: bool = False) -> str:
    """Write a mean and, where there is one, its spread."""
    mean = f"{line['mean']:+.{digits}f}" if is_signed else f"{line['mean']:.{digits}f}"
    spread = line["spread"]
    # Spaces that do not break keep a cell on one line.
    return mean if spread is None else f"{mean}\u00a0±\u00a0{spread:.{digits}f}"


def _with_error(line: Row, method: str) -> str:
    error = line[f"{method}_error"]
    loss = f"{line[method]:.3f}"
    return loss if error is None else f"{loss}\u00a0±\u00a0{error:.3f}"
