"""What the page of the paper shows of the ranking experiments."""

from typing import Any

from permatch.pages.html import Page, drawing, figure_svg, table
from reproduce.experiments.outcomes import Outcome
from reproduce.experiments.rank_runtime import METHODS
from reproduce.experiments.rows import Row
from reproduce.pages.paper_matching import HEIGHT, WIDTH, show_spread
from reproduce.pages.ranking_notes import add_deviations
from reproduce.pages.rival_notes import add_published, add_rivals
from reproduce.plots import label_of, ndcg_panels, runtime_bars, sample_size_curve

_SHOWN = (1, 3, 5, 10)


def add_ranking(page: Page, outcome: Outcome) -> None:
    """Add NDCG at 1 to 10 of one data set."""
    lines, tests, published = outcome.summary
    labels = {line["method"]: label_of(line) for line in lines}
    name, n_repeats = outcome.config.dataset, outcome.config.n_repeats
    words = "; ".join(
        f"{label_of(line)} {line['ndcg'][0]:.3f} at 1, {line['ndcg'][-1]:.3f} at 10"
        for line in lines
    )
    bands = (
        f"Bands: one standard deviation over {n_repeats} repeats, for methods that draw "
        "subsets."
        if n_repeats > 1
        else "A single repeat, so no bands."
    )
    with drawing(WIDTH, 3.0 * HEIGHT) as (figure, _):
        ndcg_panels(lines, figure, is_stacked=True)
        page.add_figure(
            figure_svg(figure),
            f"NDCG@k on the test queries of {name}, mean over queries, folds and repeats; "
            f"RankMatch on subsets is in every panel. {bands} All lines were measured "
            "here; hollow points are published. The vertical axis does not start at 0.",
            f"NDCG at k from 1 to 10 on {name}: {words}.",
            is_narrow=True,
        )
    by_method = {test["method"]: test for test in tests}
    page.add_html(
        table(
            ["method", *(f"NDCG@{k}" for k in _SHOWN), "mean of 1 to 10", "gap", "p"],
            [[label_of(line), *_ndcg_cells(line, by_method)] for line in lines],
            f"{name}: NDCG with the paper's discount. Gap: difference of the mean from "
            "RankMatch on subsets; p: paired by query, after Holm's correction over all "
            "methods measured. *: LETOR's discount, the only one published.",
        )
    )
    page.add_heading("The rivals", level=3)
    add_rivals(page, name)
    add_published(page, published, labels)
    page.add_heading("Differences from the paper", level=3)
    add_deviations(page, outcome.config, lines)


def add_sample_size(page: Page, outcome: Outcome) -> None:
    """Add NDCG@1 against the number of subsets."""
    lines: list[Row] = outcome.summary
    by_key = {(line["n_subsets"], line["method"]): line for line in lines}
    shares = sorted({line["n_subsets"] for line in lines})
    n_repeats = max(line["n_repeats"] for line in lines)
    words = "; ".join(
        f"at {share:g} D M RankMatch {by_key[share, 'rankmatch']['mean']:.3f}, DORM "
        f"{by_key[share, 'dorm']['mean']:.3f}"
        for share in shares
    )
    bands = (
        f"Bands: one standard deviation over {n_repeats} repeats."
        if n_repeats > 1
        else "A single repeat, so no bands."
    )
    with drawing(WIDTH, HEIGHT) as (figure, axes):
        sample_size_curve(lines, axes)
        axes.set_xlabel("subsets per query\n(multiple of D M, log scale)")
        page.add_figure(
            figure_svg(figure),
            f"NDCG@1 on the test queries of {outcome.config.dataset} against the number of "
            f"subsets per query of D documents. {bands} The axis does not start at 0.",
            f"NDCG@1 by number of subsets: {words}.",
            is_narrow=True,
        )
    page.add_html(
        table(
            ["subsets", "RankMatch", "DORM", "RankMatch minus DORM", "detectable"],
            [
                [
                    f"{share:g}\u00a0D\u00a0M",
                    show_spread(by_key[share, "rankmatch"]),
                    show_spread(by_key[share, "dorm"]),
                    show_spread(by_key[share, "rankmatch - dorm"], is_signed=True),
                    f"{by_key[share, 'rankmatch - dorm']['detectable']:.3f}",
                ]
                for share in shares
            ],
            "NDCG@1 by number of subsets, with standard deviations over repeats. "
            "Detectable: the smallest true difference that is detected four times in five.",
        )
    )
    page.add_heading("Differences from the paper", level=3)
    page.add_text(
        "As in the paper: subsets that contain every grade, 0.03 to 1.0 times D M per "
        "query, the same for both methods. Not specified in the paper and chosen here: "
        "features are scaled to 0..1 within each query; smaller sets of subsets are "
        "contained in larger ones, so that the points of a curve share their draws; each "
        "method chooses alpha on the validation part of every fold by the mean of NDCG@1 "
        "to NDCG@10, because NDCG@1 of some twenty queries is too noisy."
    )


def add_runtime(page: Page, outcome: Outcome) -> None:
    """Add training times per observation."""
    lines = [line | _ranges(outcome.rows, line) for line in outcome.summary]
    words = "; ".join(
        f"{_size(line)}: exponential model {show_time(line['model'])}, max-margin "
        f"{show_time(line['margin'])}"
        for line in lines
    )
    n_repeats = outcome.config.n_repeats
    with drawing(WIDTH, HEIGHT + 0.6) as (figure, axes):
        runtime_bars(lines, axes)
        axes.set_xlabel("nodes per side, M")
        _legend_below(axes)
        page.add_figure(
            figure_svg(figure),
            "Training time per observation at one alpha, log scale; hatched: the paper. "
            + (
                f"Bars: the median of {n_repeats} repeats; lines: the fastest and slowest."
                if n_repeats > 1
                else "A single repeat, so no spread."
            ),
            f"Time per observation: {words}.",
            is_narrow=True,
        )
    page.add_html(
        table(
            ["M", "exponential model", "max-margin", "ratio", "paper's ratio"],
            [
                [
                    _size(line),
                    show_time(line["model"]),
                    show_time(line["margin"]),
                    f"{line['model'] / line['margin']:.2g}",
                    _paper_ratio(line),
                ]
                for line in lines
            ],
            "Training time per observation, median over repeats.",
        )
    )
    page.add_heading("Differences from the paper", level=3)
    page.add_text(
        "As in the paper: 3 to 5 documents from the ranking experiments, 20 points from "
        "the images. Different: everything is exact, because marginals of 20 nodes take "
        "milliseconds with the algorithm used here, while the paper used sampling; the "
        "machine and the programs are not those of 2009, so compare ratios, not times. "
        "Added: subsets of 20 documents, and whole lists, on which the paper does not "
        f"train. Threads: {outcome.config.n_jobs}."
    )


def show_time(seconds: float) -> str:
    """Write a time to three digits, in a unit that needs no power of ten."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * scale:
            return _in_unit(seconds / scale, unit)
    return _in_unit(seconds / 1e-6, "µs")


def _in_unit(value: float, unit: str) -> str:
    # Three digits; '#' keeps zeros at the end, as in 1.00, and spaces do not break.
    digits = f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:,.0f}"
    return f"{digits}\u00a0{unit}"


def _ndcg_cells(line: Row, tests: dict[str, Row]) -> list[Any]:
    mark = "" if line["variant"] == "paper" else "\u00a0*"
    spread = {"mean": line["mean"], "spread": line["mean_spread"]}
    test = tests.get(line["method"])
    return [
        *(f"{line['ndcg'][k - 1]:.4f}{mark}" for k in _SHOWN),
        show_spread(spread, 4) + mark,
        "" if test is None else f"{test['difference']:+.4f}",
        "" if test is None else f"{test['p_holm']:.3f}",
    ]


def _legend_below(axes: Any) -> None:
    """Move the legend where it hides nothing."""
    axes.legend(
        frameon=False,
        fontsize="small",
        ncols=2,
        loc="upper center",
        bbox_to_anchor=(0.45, -0.2),
    )


def _ranges(rows: list[Row], line: Row) -> Row:
    """Return the fastest and the slowest repeat of either column."""
    found: Row = {}
    for column, method in zip(("model", "margin"), METHODS[line["task"]], strict=True):
        times = [
            row["seconds_per_observation"]
            for row in rows
            if (row["task"], row["size"], row["method"])
            == (line["task"], line["size"], method)
        ]
        found[f"{column}_range"] = (min(times), max(times))
    return found


def _size(line: Row) -> str:
    if line["size"] == "all":
        return "whole lists"
    return f"{line['size']}, images" if line["task"] == "images" else str(line["size"])


def _paper_ratio(line: Row) -> str:
    is_its_own = line["task"] == "images" or line["size"] != 20  # its 20 are images
    if line["paper_model"] is None or not is_its_own:
        return ""
    return f"{line['paper_model'] / line['paper_margin']:.2g}"
