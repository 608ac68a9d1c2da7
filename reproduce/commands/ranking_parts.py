"""The ranking experiments as parts: how they run, and what they write."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reproduce.commands.ranking_report import (
    RANKING_FIELDS,
    RUNTIME_FIELDS,
    SAMPLE_SIZE_FIELDS,
    ranking_lines,
    report_ranking,
    report_runtime,
    report_sample_size,
)
from reproduce.commands.steps import Part, draw, write_csv

if TYPE_CHECKING:
    from reproduce.experiments import ohsumed, ohsumed_sample_size, rank_runtime

Rows = list[dict[str, Any]]


class RankingSummary(NamedTuple):
    """A line per method, the paired tests against the baseline, and what is published."""

    lines: Rows
    tests: Rows
    published: Rows


def ohsumed_part(config: "ohsumed.Config", folder: Path, is_quick: bool, jobs: int) -> Part:
    """Return the NDCG curves of one data set, with their files in a folder."""
    from reproduce.experiments.ohsumed import BASELINE, run
    from reproduce.experiments.ranking_summary import (
        beside_published,
        compare,
        summarise,
    )
    from reproduce.pages.ohsumed import ohsumed_page
    from reproduce.plots import ndcg_panels

    stem = _stem(folder, config.dataset.lower(), is_quick)

    def write(rows: Rows, summary: RankingSummary) -> None:
        lines, tests, _ = summary
        write_csv(stem.with_suffix(".csv"), RANKING_FIELDS, ranking_lines(lines, tests))
        draw(stem, lambda axes: ndcg_panels(lines, axes.figure), width=11.0, height=5.0)
        ohsumed_page(config, rows, tests).write(stem.with_suffix(".html"))

    return Part(
        title=config.dataset,
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        summarise=lambda rows: RankingSummary(
            summarise(rows), compare(rows, BASELINE), beside_published(rows)
        ),
        write=write,
        report=lambda console, summary: report_ranking(console, config.n_repeats, *summary),
        has_page=True,
    )


def sample_size_part(
    config: "ohsumed_sample_size.Config", folder: Path, is_quick: bool, jobs: int
) -> Part:
    """Return NDCG@1 against the number of subsets, with its files in a folder."""
    from reproduce.experiments.ohsumed_sample_size import run, summarise
    from reproduce.plots import sample_size_curve

    stem = _stem(folder, f"{config.dataset.lower()}-sample-size", is_quick)

    def write(rows: Rows, summary: Rows) -> None:
        write_csv(stem.with_suffix(".csv"), SAMPLE_SIZE_FIELDS, summary)
        draw(stem, lambda axes: sample_size_curve(summary, axes), width=6.0, height=4.0)

    return Part(
        title=f"{config.dataset} sample size",
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show, n_jobs=jobs),
        summarise=summarise,
        write=write,
        report=report_sample_size,
    )


def runtime_part(config: "rank_runtime.Config", folder: Path, is_quick: bool) -> Part:
    """Return the training times, with their files in a folder."""
    from reproduce.experiments.rank_runtime import run, summarise
    from reproduce.plots import runtime_bars

    is_usual = config.dataset == type(config).dataset
    name = "runtime" if is_usual else f"{config.dataset.lower()}-runtime"
    stem = _stem(folder, name, is_quick)

    def write(rows: Rows, summary: Rows) -> None:
        write_csv(stem.with_suffix(".csv"), RUNTIME_FIELDS, summary)
        draw(stem, lambda axes: runtime_bars(summary, axes), width=7.0, height=4.0)

    return Part(
        title="run times",
        config=config,
        stem=stem,
        start=lambda kept, show: run(config, kept, on_progress=show),
        summarise=summarise,
        write=write,
        report=lambda console, summary: report_runtime(console, config.n_jobs, summary),
    )


def _stem(folder: Path, name: str, is_quick: bool) -> Path:
    return folder / (f"{name}-quick" if is_quick else name)
