"""``python -m reproduce all``: every experiment, and the paper on one page."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.table import Table

from permatch.cli.shared.options import Debug, make_folder
from permatch.cli.shared.terminal import printing
from permatch.errors import InvalidOptionError, LetorFileError
from reproduce.commands.plan import Rows, Step, plan
from reproduce.commands.steps import (
    Jobs,
    Out,
    Part,
    data_option,
    need,
    progress,
    quick_option,
    resumable,
    write_json,
)

if TYPE_CHECKING:
    from reproduce.experiments.outcomes import Outcome


def everything(
    data: Annotated[
        Path | None,
        data_option(
            "that contains 'letor' and 'cmu_house', if you have them",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    quick: Annotated[bool, quick_option("Smaller experiments, a few minutes.")] = False,
    out: Out = Path("results"),
    jobs: Jobs = -1,
    debug: Debug = False,
) -> None:
    """Repeat all experiments of the paper and write a page with the results.

    Runs every experiment for which data is available and writes paper.html:
    for each claim, our figure and numbers, the differences from the paper's
    setup, and a verdict computed from the numbers by a stated rule.  Missing
    data is reported.  paper.json contains the same results as data.

    The output of the single experiments is written too, and rows they left in
    the folder are reused.  You can stop at any time with Ctrl-C; the same
    command resumes.

    Do not use the machine meanwhile: one experiment measures times.

    [bold]Examples[/bold]

      python -m reproduce all --quick
      python -m reproduce all --data ~/data --out paper
    """
    need("reproduce all", skimage="vision", matplotlib="plots", lightgbm="boosting")
    folder = make_folder(out)
    stem = folder / ("paper-quick" if quick else "paper")
    steps = plan(folder, data, quick, jobs)
    found = _look(steps)
    kept = [part.kept for part in found.values() if isinstance(part, Part)]
    with resumable(folder, kept):
        outcomes = _run(steps, found)
        _write(stem, outcomes, quick)
        with printing() as console:
            _report(console, outcomes)
            console.print(f"Written: {stem}.{{html, json}}", soft_wrap=True)


def _look(steps: Sequence[Step]) -> "dict[str, Part | Outcome]":
    """Return every experiment by its claim, or what is missing for it."""
    from reproduce.experiments.outcomes import CLAIMS, not_run

    found: dict[str, Part | Outcome] = {}
    for step in steps:
        try:
            step.find()
        except (LetorFileError, InvalidOptionError):
            # Not the error's own words, which name folders of this machine: the page is
            # for others too.
            found[step.claim] = not_run(CLAIMS[step.claim], step.missing)
        else:
            found[step.claim] = step.make()
    return found


def _run(steps: Sequence[Step], found: "dict[str, Part | Outcome]") -> "list[Outcome]":
    """Run what can be run, one bar over the whole, and return what became of all."""
    weights = [step.minutes * isinstance(found[step.claim], Part) for step in steps]
    begun = [sum(weights[:k]) / sum(weights) for k in range(len(steps))]
    with progress("reading") as show:
        started: list[Iterable[dict[str, Any]]] = []
        for step, first, weight in zip(steps, begun, weights, strict=True):
            part = found[step.claim]
            # Reads data and kept rows: what is damaged is told before anything runs.
            started.append(
                part.start(part.kept, _share_of(show, part, first, weight / sum(weights)))
                if isinstance(part, Part)
                else ()
            )
        outcomes = []
        for step, first, rows in zip(steps, begun, started, strict=True):
            part = found[step.claim]
            if isinstance(part, Part):
                show(first, part.title)
                outcomes.append(_conclude(step, part, list(rows)))
            else:
                outcomes.append(part)
        return outcomes


def _share_of(
    show: Callable[..., None], part: Part, begun: float, weight: float
) -> Callable[[float], None]:
    """Return a callback that takes the share of one part to that of the whole."""
    return lambda share: show(begun + share * weight, part.title)


def _conclude(step: Step, part: Part, rows: Rows) -> "Outcome":
    """Write what the experiment's own command would, and judge it."""
    from reproduce.experiments.outcomes import CLAIMS, conclude

    summary = part.summarise(rows)
    part.write(rows, summary)
    last = datetime.fromtimestamp(part.kept.stat().st_mtime, tz=UTC)
    return conclude(
        CLAIMS[step.claim],
        step.judge(rows, summary),
        config=part.config,
        rows=rows,
        summary=summary,
        date=last.date().isoformat(),
    )


def _write(stem: Path, outcomes: "Sequence[Outcome]", is_quick: bool) -> None:
    from permatch._version import __version__
    from reproduce.pages.paper import paper_page

    content = {
        "permatch": __version__,
        "is_quick": is_quick,
        "experiments": [outcome.to_json() for outcome in outcomes],
    }
    write_json(stem.with_suffix(".json"), content)
    paper_page(outcomes, is_quick=is_quick).write(stem.with_suffix(".html"))


def _report(console: Console, outcomes: "Sequence[Outcome]") -> None:
    """Print a line per claim."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("experiment", no_wrap=True)
    table.add_column("topic")
    table.add_column("verdict on the claim")
    for outcome in outcomes:
        claim = outcome.claim
        table.add_row(claim.source, claim.title, outcome.verdict.value)
    console.print(table)
    if any(not outcome.is_run for outcome in outcomes):
        console.print(
            "\nSome data is missing: set its location with --data DIR or PERMATCH_DATA. "
            "The page describes what is needed."
        )
    console.print()
