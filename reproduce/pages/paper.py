"""The page of `python -m reproduce all`: what is claimed, and what came out."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from permatch.pages.html import Markup, Page, markup, table
from reproduce.experiments.claims import RULE, Verdict
from reproduce.experiments.outcomes import Claim, Outcome
from reproduce.pages.paper_matching import add_house, add_silhouettes
from reproduce.pages.paper_ranking import add_ranking, add_runtime, add_sample_size

_KINDS = {
    Verdict.REPRODUCED: "reproduced",
    Verdict.NOT_REPRODUCED: "not-reproduced",
    Verdict.UNDECIDED: "undecided",
    Verdict.NOT_RUN: "not-run",
}

# Figure, numbers and deviations of a section, by claim.
_SECTIONS: dict[str, Callable[[Page, Outcome], None]] = {
    "figure-2-ohsumed": add_ranking,
    "figure-2-td2003": add_ranking,
    "figure-2-td2004": add_ranking,
    "figure-3-left": add_silhouettes,
    "figure-3-right": add_sample_size,
    "table-1": add_runtime,
    "house": add_house,
}


class PaperPage(Page):
    """A page with claims and verdicts on it."""

    def render(self) -> str:
        """Return the whole page."""
        head, end_of_style, rest = super().render().partition("</style>")
        style = Path(__file__).with_name("paper.css").read_text(encoding="utf-8")
        return "".join([head, style, end_of_style, rest])


def paper_page(outcomes: Sequence[Outcome], *, is_quick: bool) -> Page:
    """Return the page.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One per experiment, in the order of the page.
    is_quick : bool
        Whether the experiments were the small ones.

    Returns
    -------
    Page
        Ready to be written.  But for what is in ``time`` elements or marked with
        ``data-measured`` it depends on the rows alone.
    """
    page = PaperPage(
        "The paper on one page",
        "The claims of Exponential Family Graph Matching and Ranking (Petterson, Caetano, "
        "McAuley and Yu, 2009), compared with our results.",
    )
    if is_quick:
        page.add_text(
            "This was a quick run, with fewer repeats and smaller grids: enough to check "
            "that everything works, rarely enough for a verdict. Omit --quick for the full "
            "run."
        )
    page.add_html(_overview(outcomes))
    page.add_text(RULE)
    days = [outcome.date for outcome in outcomes if outcome.date is not None]
    if days:
        page.add_text(
            Markup(
                f"Last row computed on {measured(max(days))}. The command below rebuilds "
                "this page and runs whatever is missing. DATA is the data folder and DIR "
                "the folder of this page; with another DIR everything is computed again."
            )
        )
    page.add_code(f"python -m reproduce all --data DATA --out DIR{_quick(is_quick)}")
    for outcome in outcomes:
        _add_section(page, outcome, is_quick)
    return page


def _overview(outcomes: Sequence[Outcome]) -> str:
    return table(
        ["claim", "verdict"],
        [
            [
                Markup(
                    f'<a href="#{outcome.claim.id}">{escape(outcome.claim.source)}</a>. '
                    f"{escape(outcome.claim.text)}"
                ),
                _badge(outcome),
            ]
            for outcome in outcomes
        ],
        "All claims with their verdicts; the links lead to the numbers.",
        is_text=True,
    )


def _add_section(page: Page, outcome: Outcome, is_quick: bool) -> None:
    claim = outcome.claim
    mark = _mark(outcome)
    page.add_html(f'<section class="claim" id="{claim.id}"{mark}>')
    page.add_heading(f"{claim.source}: {claim.title}")
    page.add_text(Markup(f"<strong>Claim.</strong> {escape(claim.text)}"))
    badge = _badge(outcome, f"verdict-{claim.id}")
    if outcome.is_run:
        page.add_text(Markup(f"{badge} {escape(outcome.reason)}"))
        _SECTIONS[claim.id](page, outcome)
        page.add_heading("How the verdict was reached", level=3)
        page.add_text(claim.rule)
    else:
        page.add_text(badge)
        page.add_text(Markup(f"<strong>Missing data.</strong> {escape(outcome.reason)}"))
        page.add_text(_where_to_get(claim))
    page.add_heading("Run only this experiment", level=3)
    data = "" if claim.command == "silhouettes" else " --data DATA"
    page.add_code(f"python -m reproduce {claim.command}{data} --out DIR{_quick(is_quick)}")
    if outcome.is_run:
        seconds = measured(f"{outcome.seconds:,.0f} seconds")
        page.add_text(Markup(f"The fits of this experiment took {seconds}."))
    page.add_html("</section>")


def _where_to_get(claim: Claim) -> str:
    if claim.id == "house":
        return (
            "The video is the CMU House sequence of the Carnegie Mellon image database. "
            "The landmarks and their shape contexts are read from two NumPy files. The "
            "other sections do not need it."
        )
    return (
        "The data is Microsoft's LETOR 2.0, which is free for research but not part of "
        "permatch: download it from Microsoft Research and keep its folder structure. The "
        "other sections do not need it."
    )


def measured(text: str) -> Markup:
    """Return a time or a date, marked as what two runs will not share."""
    return Markup(f'<time class="measured">{escape(text)}</time>')


def _badge(outcome: Outcome, name: str = "") -> Markup:
    identity = f' id="{name}"' if name else ""
    return Markup(
        f'<span class="badge {_KINDS[outcome.verdict]}"{identity}{_mark(outcome)} '
        f'data-claim="{outcome.claim.id}">{markup(outcome.verdict.value)}</span>'
    )


def _mark(outcome: Outcome) -> str:
    """Mark what rests on measured times."""
    return " data-measured" if outcome.claim.is_measured and outcome.is_run else ""


def _quick(is_quick: bool) -> str:
    return " --quick" if is_quick else ""
