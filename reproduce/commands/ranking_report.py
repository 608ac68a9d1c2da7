"""Tables of ``python -m reproduce``'s rankings: on the screen, and for CSV files."""

from typing import Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.report import plural

_CUTS = range(1, 11)

RANKING_FIELDS = [
    "method",
    "subset_size",
    "variant",
    "n_repeats",
    *(f"ndcg@{k}" for k in _CUTS),
    "mean",
    *(f"sd@{k}" for k in _CUTS),
    "mean_sd",
    *(f"letor_ndcg@{k}" for k in _CUTS),
    "difference",
    "low",
    "high",
    "p_value",
    "p_holm",
    "detectable",
    "n_fits",
    "fit_seconds",
    "seconds",
]
SAMPLE_SIZE_FIELDS = [
    "n_subsets",
    "method",
    "mean",
    "spread",
    "n_repeats",
    "mean_of_ten",
    "n_observations",
    "seconds",
    "n_edge",
    "detectable",
]
RUNTIME_FIELDS = [
    "task",
    "size",
    "model",
    "paper_model",
    "margin",
    "paper_margin",
    "model_evaluations",
    "margin_evaluations",
    "n_observations",
]

_SHOWN = (1, 3, 5, 10)


def ranking_lines(
    summary: list[dict[str, Any]], tests: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return one flat line per method, its test against the baseline included."""
    by_method = {test["method"]: test for test in tests}
    lines = []
    for found in summary:
        line = {name: found.get(name) for name in ("method", "subset_size", "variant")}
        line |= {"n_repeats": found["n_repeats"], "mean": found["mean"]}
        line |= {"mean_sd": found["mean_spread"]}
        line |= {name: found.get(name) for name in ("n_fits", "fit_seconds", "seconds")}
        for k in _CUTS:
            line[f"ndcg@{k}"] = found["ndcg"][k - 1]
            line[f"letor_ndcg@{k}"] = found["ndcg_letor"][k - 1]
            line[f"sd@{k}"] = None if found["spread"] is None else found["spread"][k - 1]
        lines.append(line | by_method.get(found["method"], {}))
    return lines


def report_ranking(
    console: Console,
    n_repeats: int,
    summary: list[dict[str, Any]],
    tests: list[dict[str, Any]],
    published: list[dict[str, Any]],
) -> None:
    """Print a line per method, and how near rivals come to what is published."""
    from reproduce.plots import label_of
    from reproduce.rivals.table import RIVALS

    by_method = {test["method"]: test for test in tests}
    table = _table("method", *(f"@{k}" for k in _SHOWN), "mean", "gap", "p", "per fit")
    table.columns[0].justify = "left"
    table.columns[0].no_wrap = False  # on narrow screens names fold, numbers do not
    is_mixed = False
    for line in summary:
        is_letor = line["variant"] != "paper"
        is_mixed |= is_letor
        test = by_method.get(line["method"])
        table.add_row(
            label_of(line) + (" *" if is_letor else ""),
            *(f"{line['ndcg'][k - 1]:.4f}" for k in _SHOWN),
            _with_spread(line["mean"], line["mean_spread"], 4),
            "" if test is None else f"{test['difference']:+.4f}",
            "" if test is None else f"{test['p_holm']:.3f}",
            _seconds(line["fit_seconds"]) if "fit_seconds" in line else "",
        )
    console.print(table)
    queries = tests[0]["n_queries"] if tests else 0
    spread = "" if n_repeats == 1 else ", +- standard deviation over repeats"
    note = (
        "\nNDCG with the paper's discount on test queries, averaged over folds and "
        f"{plural(n_repeats, 'repeat')}; mean: of @1 to @10{spread}. Gap: difference from "
        "the first line; p: paired randomisation test with Holm's correction "
        f"over all methods measured ({queries} queries). Per fit: processor time."
    )
    if tests:
        size = max(test["detectable"] for test in tests)
        small = min(test["detectable"] for test in tests)
        note += (
            f" With this many queries, differences of {small:.3f} to {size:.3f} are "
            "detected four times in five; smaller ones are mostly noise."
        )
    if is_mixed:
        note += " *: LETOR's discount, the only one published."
    for line in published:
        note += (
            f" {RIVALS[line['method']].name} is {line['difference']:+.4f} from its "
            f"published mean, {'within' if line['is_within'] else 'beyond'} one standard "
            f"error ({line['error']:.4f})."
        )
    missing = [rival.name for rival in RIVALS.values() if rival.needs_similarity]
    note += (
        f" Not run: {', '.join(missing)}, which needs similarities of documents that this "
        "data does not have."
    )
    console.print(note + "\n")


def report_sample_size(console: Console, summary: list[dict[str, Any]]) -> None:
    """Print a line per number of subsets."""
    table = _table("subsets", "RankMatch", "DORM", "difference", "observations")
    by_key = {(line["n_subsets"], line["method"]): line for line in summary}
    for share in sorted({line["n_subsets"] for line in summary}):
        model, margin = by_key[share, "rankmatch"], by_key[share, "dorm"]
        gap = by_key[share, "rankmatch - dorm"]
        table.add_row(
            f"{share:g} D M",
            _with_spread(model["mean"], model["spread"]),
            _with_spread(margin["mean"], margin["spread"]),
            _with_spread(gap["mean"], gap["spread"], is_signed=True),
            f"{model['n_observations']:,.0f}",
        )
    console.print(table)
    n_repeats = max(line["n_repeats"] for line in summary)
    sizes = [line["detectable"] for line in summary if "detectable" in line]
    console.print(
        "\nNDCG@1 on test queries, mean over folds, +- standard deviation over "
        f"{plural(n_repeats, 'repeat')}, by number of subsets per query of D documents. "
        "Difference: RankMatch minus DORM, on the same subsets. With this many test "
        f"queries, differences of {min(sizes):.3f} to {max(sizes):.3f} are detected four "
        "times in five; smaller ones are mostly noise, whatever the spread over repeats.\n"
    )


def report_runtime(console: Console, n_jobs: int, summary: list[dict[str, Any]]) -> None:
    """Print a line per size."""
    table = _table("M", "exponential", "paper", "max-margin", "paper", "observations")
    for line in summary:
        name = "whole list" if line["size"] == "all" else str(line["size"])
        table.add_row(
            f"{name} (images)" if line["task"] == "images" else name,
            *(_seconds(line[name]) for name in RUNTIME_FIELDS[2:6]),
            f"{line['n_observations']:,.0f}",
        )
    console.print(table)
    threads = "all processors" if n_jobs == -1 else plural(n_jobs, "thread")
    console.print(
        f"\nTraining time per observation at one alpha, with {threads}, median over "
        "repeats, compared with the paper's Table 1. The paper's M = 20 are pairs of "
        "images, fitted by sampling; here all fits are exact.\n"
    )


def _table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _with_spread(
    mean: float, spread: float | None, digits: int = 3, *, is_signed: bool = False
) -> str:
    text = f"{mean:+.{digits}f}" if is_signed else f"{mean:.{digits}f}"
    return text if spread is None else f"{text} +- {spread:.{digits}f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g} s" if value >= 0.1 else f"{1e3 * value:.3g} ms"
