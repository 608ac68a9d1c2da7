"""The paper's claims, one per experiment, and what became of each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, isnan
from typing import Any

from permatch.experiments.claims import Effect, Verdict, judge
from permatch.experiments.rows import Row

_AHEAD = (
    "On {} RankMatch ranks better than the rankers published with the data, and better "
    "than DORM, the same model trained by max-margin."
)
_AHEAD_RULE = (
    "Judged by the mean of NDCG@1 to NDCG@10 against RankBoost and DORM, paired by query, "
    "with intervals by bootstrap over queries; besides, a p-value must stay below 0.05 "
    "after Holm's correction. RankSVM is known by its means only and cannot be tested."
)


@dataclass(frozen=True)
class Claim:
    """What is said of an experiment.

    Attributes
    ----------
    id : str
        Its name in links and files.
    source : str
        Where the paper says it.
    title : str
        What the experiment is about.
    text : str
        The claim in one sentence.
    rule : str
        What it is judged by.
    command : str
        What follows ``permatch reproduce`` to run it alone.
    is_measured : bool
        Whether its numbers are times, which no two runs share.
    """

    id: str
    source: str
    title: str
    text: str
    rule: str
    command: str
    is_measured: bool = False


CLAIMS = {
    claim.id: claim
    for claim in (
        Claim(
            id="figure-2-td2004",
            source="Figure 2, left",
            title="Ranking TD2004",
            text=_AHEAD.format("TD2004"),
            rule=_AHEAD_RULE,
            command="ohsumed --dataset TD2004",
        ),
        Claim(
            id="figure-2-td2003",
            source="Figure 2, middle",
            title="Ranking TD2003",
            text="On TD2003 RankMatch does poorly at the first positions and fairly well "
            "further down.",
            rule="Judged by NDCG@1 against RankBoost, paired by query, where RankBoost's "
            "predictions for single queries are there.",
            command="ohsumed --dataset TD2003",
        ),
        Claim(
            id="figure-2-ohsumed",
            source="Figure 2, right",
            title="Ranking OHSUMED",
            text=_AHEAD.format("OHSUMED"),
            rule=_AHEAD_RULE,
            command="ohsumed",
        ),
        Claim(
            id="figure-3-left",
            source="Figure 3, left",
            title="Matching silhouettes with more and more pairs",
            text="The more training pairs there are, the further MAP gets ahead of "
            "max-margin in matching the points of sheared silhouettes.",
            rule="Judged by MAP's lead in Hamming loss at the largest number of pairs, and "
            "by what that lead has gained since the smallest, paired by repeat.",
            command="silhouettes",
        ),
        Claim(
            id="figure-3-right",
            source="Figure 3, right",
            title="Ranking OHSUMED with more and more subsets",
            text="The more training subsets there are, the further RankMatch gets ahead of "
            "DORM in NDCG@1 on OHSUMED.",
            rule="Judged by RankMatch's lead in NDCG@1 at the largest number of subsets, "
            "and by what that lead has gained since the smallest. Queries and the subsets "
            "drawn both are chance: of the intervals over queries and over repeats the "
            "wider one counts.",
            command="ohsumed-sample-size",
        ),
        Claim(
            id="table-1",
            source="Table 1",
            title="Training times",
            text="On graphs of 20 nodes a side the exponential model takes many times "
            "longer to train than max-margin; that is its drawback.",
            rule="Judged by the ratio of the two training times per observation on pairs "
            "of images with 20 points, which the claim wants above 1; geometric mean over "
            "repeats.",
            command="runtime",
            is_measured=True,
        ),
        Claim(
            id="house",
            source="CMU House",
            title="Matching the landmarks of a turning house",
            text="Learnt weights match the landmarks of frames far apart with fewer errors "
            "than unweighted shape contexts.",
            rule="Judged by what every learner saves in Hamming loss at the widest gap; "
            "the standard errors of the two losses are added in quadrature.",
            command="house",
        ),
    )
}


@dataclass(frozen=True)
class Outcome:
    """An experiment that was run, or could not be.

    Attributes
    ----------
    claim : Claim
        What is said of it.
    verdict : Verdict
        What its effects say about that.
    reason : str
        Why, in a sentence.
    effects : list of Effect
        What was judged.
    config : object, optional
        The configuration, a dataclass.
    rows : list of dict
        What the experiment yielded.
    summary : object
        What was made of the rows.
    date : str, optional
        Day of the last row, as 2009-06-30.
    seconds : float
        Time that the fits took.
    """

    claim: Claim
    verdict: Verdict
    reason: str
    effects: Sequence[Effect] = ()
    config: Any = None
    rows: list[Row] = field(default_factory=list)
    summary: Any = None
    date: str | None = None
    seconds: float = 0.0

    @property
    def is_run(self) -> bool:
        """Whether there are numbers."""
        return self.verdict is not Verdict.NOT_RUN

    def to_json(self) -> Row:
        """Return it as plain numbers and text, without its rows."""
        claim = asdict(self.claim)
        claim["claim"] = claim.pop("text")
        # Not where the data was found: results do not depend on it.
        config = asdict(self.config) if self.config is not None else None
        if config is not None:
            config.pop("data", None)
        return claim | {
            "verdict": self.verdict.value,
            "reason": self.reason,
            "effects": [effect.to_json() for effect in self.effects],
            "summary": _plain(self.summary),
            "config": config,
            "date": self.date,
            "seconds": round(self.seconds, 1),
        }


def conclude(
    claim: Claim,
    effects: Sequence[Effect],
    *,
    config: Any,
    rows: list[Row],
    summary: Any,
    date: str,
) -> Outcome:
    """Return what became of a claim whose experiment was run."""
    return Outcome(
        claim=claim,
        verdict=judge(effects),
        reason=explain(effects),
        effects=effects,
        config=config,
        rows=rows,
        summary=summary,
        date=date,
        seconds=sum(map(_seconds, rows)),
    )


def not_run(claim: Claim, reason: str) -> Outcome:
    """Return a claim whose experiment has no data."""
    return Outcome(claim, Verdict.NOT_RUN, reason)


def explain(effects: Sequence[Effect]) -> str:
    """Say what the effects are, with their intervals, one after another."""
    return " ".join(_sentence(effect) for effect in effects)


def _sentence(effect: Effect) -> str:
    what = effect.what[:1].upper() + effect.what[1:]
    if isnan(effect.mean):
        return f"{what}: not known, {effect.over}."
    is_ratio = effect.null == 1.0
    # A real minus sign, which does not end a line.
    mean, low, high = (
        (f"{value:.3g}" if is_ratio else f"{value:+.3f}").replace("-", "\u2212")
        for value in (effect.mean, effect.low, effect.high)
    )
    if not isfinite(effect.high):
        return f"{what}: {mean}, without an interval from {effect.over}, so it is open."
    says = {1: "as claimed", 0: "so it is open", -1: "against the claim"}[effect.side]
    return (
        f"{what}: {mean} (95\u00a0% interval {low} to {high} over {effect.over}), {says}."
    )


def _seconds(row: Row) -> float:
    """Return the time of all fits of a row."""
    path = row.get("path") or []
    steps = [
        step["seconds"] for step in path if isinstance(step, dict) and "seconds" in step
    ]
    return sum(steps) if steps else row.get("seconds", 0.0)


def _plain(summary: Any) -> Any:
    """Return a summary of several parts as a dictionary, others as they are."""
    return summary._asdict() if hasattr(summary, "_asdict") else summary
