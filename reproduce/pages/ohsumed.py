"""The page of `python -m reproduce ohsumed`: curves, tables, and what they do not show."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch.metrics import MeanNDCG
from permatch.pages.html import Page, drawing, figure_svg, table
from permatch.plots import query_differences
from reproduce.experiments.ohsumed import BASELINE, Config
from reproduce.experiments.published_rankings import PUBLISHED
from reproduce.experiments.ranking_summary import (
    beside_published,
    detectable_at,
    query_values,
    summarise,
)
from reproduce.experiments.rows import Row
from reproduce.pages.ranking_notes import (
    add_choices,
    add_commands,
    add_deviations,
    add_variants,
    alpha_table,
    time_table,
)
from reproduce.pages.rival_notes import add_published, add_rivals, choice_table
from reproduce.plots import label_of, ndcg_panels

_LEVEL = 0.05


def ohsumed_page(config: Config, rows: Sequence[Row], tests: Sequence[Row]) -> Page:
    """Return the page of one data set.

    Parameters
    ----------
    config : Config
        What was done.
    rows : sequence of dict
        What `reproduce.experiments.ohsumed.run` yielded.
    tests : sequence of dict
        What `reproduce.experiments.ranking_summary.compare` returned for them.

    Returns
    -------
    Page
        Ready to be written.
    """
    summary = summarise(rows)
    labels = {line["method"]: label_of(line) for line in summary}
    name = rows[0]["dataset"]
    n_queries = sum(len(row["queries"]) for row in _first_runs(rows))
    n_folds = len(_first_runs(rows))
    page = Page(
        f"Learning to rank {name}",
        f"{n_queries} queries in {n_folds} folds. Every method learns from the same "
        "documents, chooses its options on the validation part of a fold and is evaluated "
        "once on the test part.",
    )
    page.add_heading("NDCG at 1 to 10")
    _add_curves(page, config, summary, labels)
    page.add_html(_ndcg_table(summary, labels))
    page.add_heading("The rivals")
    add_rivals(page, name)
    page.add_heading("Measured and published")
    add_published(page, beside_published(rows), labels)
    page.add_heading("Significance")
    _add_noise(page, rows, tests, labels, n_queries)
    _add_single_queries(page, rows, tests, labels)
    page.add_heading("Chosen options and times")
    add_choices(page, config, summary, labels)
    page.add_html(alpha_table(summary, labels))
    page.add_html(choice_table(summary, labels))
    page.add_html(time_table(summary, labels))
    page.add_heading("Definition of NDCG")
    add_variants(page, summary, labels)
    page.add_heading("Differences from the paper")
    add_deviations(page, config, summary)
    page.add_heading("Run it yourself")
    add_commands(page, config, name)
    return page


def _first_runs(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["method"] == BASELINE and row["repeat"] == 0]


def _add_curves(
    page: Page, config: Config, summary: list[Row], labels: dict[str, str]
) -> None:
    repeats = (
        f"Bands: one standard deviation over {config.n_repeats} repeats, each with new "
        "subsets; methods without a band ran once."
        if config.n_repeats > 1
        else "A single repeat, so no bands."
    )
    words = "; ".join(
        f"{labels[line['method']]} {line['ndcg'][0]:.3f} at 1, {line['ndcg'][-1]:.3f} at 10"
        for line in summary
    )
    with drawing(10.0, 4.8) as (figure, _):
        ndcg_panels(summary, figure)
        # Wide enough to be read: on a phone it scrolls.
        svg = figure_svg(figure).replace("<svg", '<svg style="min-width: 44rem"', 1)
        page.add_figure(
            svg,
            f"NDCG@k, averaged over queries, folds and repeats; {labels[BASELINE]} is in "
            f"every panel. {repeats} All lines were measured here; hollow points are "
            "published. The vertical axis does not start at 0.",
            f"Curves of NDCG at k from 1 to 10: {words}.",
        )


def _ndcg_table(summary: list[Row], labels: dict[str, str]) -> str:
    lines: list[list[Any]] = [
        [
            labels[line["method"]],
            _cell([line["mean"]], [line["mean_spread"]], 0),
            *(_cell(line["ndcg"], line["spread"], k) for k in range(10)),
        ]
        for line in summary
    ]
    return table(
        ["method", "mean", *(f"@{k + 1}" for k in range(10))],
        lines,
        "NDCG@1 to NDCG@10 and their mean, with the standard deviation over repeats where "
        "there is one.",
        ids=True,
    )


def _add_noise(
    page: Page,
    rows: Sequence[Row],
    tests: Sequence[Row],
    labels: dict[str, str],
    n_queries: int,
) -> None:
    if not tests:
        return
    rivals = [test["method"] for test in tests]
    sizes = np.median([detectable_at(rows, BASELINE, rival) for rival in rivals], axis=0)
    page.add_text(
        f"With {n_queries} queries, most gaps in the figure are noise. If two methods "
        f"truly differ by less than about {sizes[0]:.3f} in NDCG@1, {sizes[4]:.3f} in "
        f"NDCG@5 or {sizes[9]:.3f} in NDCG@10 (medians over the comparisons below), a "
        "paired test on so few queries misses the difference more than one time in five. "
        "Compare every gap with these sizes. The spread over repeats is smaller because it "
        "does not include the variation between queries."
    )
    page.add_html(
        table(
            [
                "method",
                "difference",
                "95 % interval",
                "p",
                "p after Holm",
                "smallest detectable",
            ],
            [
                [
                    labels[test["method"]],
                    f"{test['difference']:+.4f}",
                    f"{test['low']:+.4f} to {test['high']:+.4f}",
                    f"{test['p_value']:.3f}",
                    f"{test['p_holm']:.3f}",
                    f"{test['detectable']:.3f}",
                ]
                for test in tests
            ],
            f"Difference from {labels[BASELINE]} in the mean of NDCG@1 to NDCG@10; measure "
            "and baseline were fixed in advance. Paired randomisation tests over queries, "
            "repeats averaged first; bootstrap intervals over queries.",
            ids=True,
        )
    )
    page.add_text(f"{_place(rows, labels)} {_verdict(tests, labels)}")
    if any(method in PUBLISHED for method in labels):
        page.add_text(
            "Published results have no test: their options were chosen by others in "
            "another way, and of some only means are known."
        )


def _place(rows: Sequence[Row], labels: dict[str, str]) -> str:
    """Say how many of the methods measured have a larger mean than the baseline."""
    measured = [line for line in summarise(rows) if line["method"] not in PUBLISHED]
    means = {line["method"]: line["mean"] for line in measured}
    n_above = sum(mean > means[BASELINE] for mean in means.values())
    return (
        f"By the mean of NDCG@1 to NDCG@10, {labels[BASELINE]} is number {n_above + 1} of "
        f"the {len(means)} methods measured."
    )


def _verdict(tests: Sequence[Row], labels: dict[str, str]) -> str:
    """Say which differences survive the correction."""
    n = len(tests)
    found = [labels[test["method"]] for test in tests if test["p_holm"] <= _LEVEL]
    if not found:
        smallest = min(tests, key=lambda test: test["p_value"])
        return (
            f"After Holm's correction for {n} comparisons, none is significant at 5 %. The "
            f"smallest uncorrected p-value is {smallest['p_value']:.3f}, for "
            f"{labels[smallest['method']]}."
        )
    names = ", ".join(found)
    return (
        f"After Holm's correction for {n} comparisons, {names} "
        f"{'differs' if len(found) == 1 else 'differ'} from {labels[BASELINE]} at 5 %. The "
        "queries come from one small collection; results on others may differ."
    )


def _add_single_queries(
    page: Page, rows: Sequence[Row], tests: Sequence[Row], labels: dict[str, str]
) -> None:
    values = query_values(rows)
    for test in tests:
        if test["method"] not in ("rankmatch_list", "dorm"):
            continue
        rival, base = values[test["method"]], values[BASELINE]
        differences = [float((rival[q] - base[q]).mean()) for q in base]
        label, baseline = labels[test["method"]], labels[BASELINE]
        n_ahead = sum(d > 0 for d in differences)
        n_behind = sum(d < 0 for d in differences)
        with drawing(8.0, 3.2) as (figure, axes):
            interval = (test["low"], test["high"])
            query_differences(
                differences,
                label,
                baseline,
                measure=str(MeanNDCG @ 10),
                interval=interval,
                ax=axes,
            )
            page.add_figure(
                figure_svg(figure),
                f"{label} minus {baseline}, per query. The line is the mean, the grey band "
                "its 95 % interval.",
                f"Differences per query: {label} is better on {n_ahead}, {baseline} on "
                f"{n_behind} of {len(differences)} queries.",
            )


def _cell(values: Sequence[float], spread: Sequence[float | None] | None, k: int) -> str:
    sd = None if spread is None else spread[k]
    # Spaces that do not break keep a cell on one line.
    return f"{values[k]:.4f}" if sd is None else f"{values[k]:.4f}\u00a0±\u00a0{sd:.4f}"
