"""What is claimed, one sentence per experiment, and what became of each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, isnan
from typing import Any

from reproduce.experiments.claims import Effect, Verdict, judge
from reproduce.experiments.rows import Row

_AMONG_THE_BEST_RULE = (
    "Judged by rivals measured here: RankMatch's lead in the mean of NDCG@1 to NDCG@10 "
    "over RankBoost, RankSVM, ListNet, AdaRank-MAP and AdaRank-NDCG, run on the same folds "
    "with the same preparation, every choice made on the validation part. The leads over "
    "FRank, QBRank and IsoRank are told but not judged: their equations are partly from "
    "memory ('-style'), so that a lead over them says little about the published methods. "
    "Published results are not judged either, because they were tuned in another way. "
    "Every rival is paired with RankMatch by query, with an interval by bootstrap over "
    "queries; besides, a p-value must stay below 0.05 after Holm's correction over all "
    "methods measured. Subsets are drawn, so the interval over repeats counts where it is "
    "wider, and one repeat decides nothing. The paper states no win over DORM, so the lead "
    "over it is told but not judged."
)


@dataclass(frozen=True)
class Claim:
    """What is said of an experiment.

    Attributes
    ----------
    id : str
        Its name in links and files.
    source : str
        Where the paper says it, or what it is on.
    title : str
        What the experiment is about.
    text : str
        The claim in one sentence.
    rule : str
        What it is judged by.
    command : str
        What follows ``python -m reproduce`` to run it alone.
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
            text="On TD2004 RankMatch is among the best rankers, ahead of all that have "
            "results on the three data sets of LETOR 2.0.",
            rule=_AMONG_THE_BEST_RULE,
            command="ohsumed --dataset TD2004",
        ),
        Claim(
            id="figure-2-td2003",
            source="Figure 2, middle",
            title="Ranking TD2003",
            text="On TD2003 RankMatch does poorly at the first positions and fairly well "
            "further down.",
            rule="Judged against RankBoost as measured here, paired by query: RankMatch "
            "is to be behind in NDCG@1, and less than 0.05 behind in NDCG@10. Of the "
            "intervals over queries and over repeats the wider one counts.",
            command="ohsumed --dataset TD2003",
        ),
        Claim(
            id="figure-2-ohsumed",
            source="Figure 2, right",
            title="Ranking OHSUMED",
            text="On OHSUMED RankMatch is among the best rankers: of those that have "
            "results on the three data sets of LETOR 2.0 only IsoRank is ahead.",
            rule=_AMONG_THE_BEST_RULE,
            command="ohsumed",
        ),
        Claim(
            id="figure-3-left",
            source="Figure 3, left",
            title="Matching silhouettes with more and more pairs",
            text="With enough training pairs MAP is slightly ahead of max-margin in "
            "matching the points of sheared silhouettes.",
            rule="Judged by MAP's lead in Hamming loss at the largest number of pairs, "
            "paired by repeat. What that lead has gained since the smallest number is told "
            "but not judged: the paper speaks of it in its conclusion only.",
            command="silhouettes",
        ),
        Claim(
            id="figure-3-right",
            source="Figure 3, right",
            title="Ranking OHSUMED with more and more subsets",
            text="More training subsets improve RankMatch's NDCG@1 on OHSUMED more than "
            "DORM's.",
            rule="Judged by what RankMatch gains more than DORM from the smallest number "
            "of subsets to the largest. Queries and the subsets drawn both are chance: of "
            "the intervals over queries and over repeats the wider one counts. The lead at "
            "the largest number is told but not judged.",
            command="ohsumed-sample-size",
        ),
        Claim(
            id="table-1",
            source="Table 1",
            title="Training times",
            text="The exponential model trains about as fast as max-margin on subsets of 3 "
            "to 5 documents, but takes much longer on images of 20 points.",
            rule="Judged by ratios of training times per observation, geometric means over "
            "repeats. Much longer: more than twice as long. About as fast: less than twice "
            "as long, at every size from 3 to 5; the paper's own largest ratio there is "
            "1.97.",
            command="runtime",
            is_measured=True,
        ),
        Claim(
            id="house",
            source="CMU House, beyond the paper",
            title="Matching the landmarks of a turning house",
            text="Learnt weights match the landmarks of frames far apart with fewer errors "
            "than unweighted shape contexts.",
            rule="Judged by what every learner saves in Hamming loss at the widest gap, "
            "paired by test pair. Every method is run once. Neighbouring pairs of frames "
            "look alike, so that they tell less than their number says and the intervals "
            "are too narrow: an effect that is just clear of zero would mean little.",
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
    if not effect.is_judged:
        what = f"Beside the claim, not judged: {effect.what}"
    if isnan(effect.mean):
        return f"{what}: not known, {effect.over}."
    # A real minus sign, which does not end a line.
    mean, low, high, null = (
        (f"{value:.3g}" if effect.is_ratio else f"{value:+.3f}").replace("-", "\u2212")
        for value in (effect.mean, effect.low, effect.high, effect.null)
    )
    if effect.null != 0.0:
        mean += f", claimed to be above {null}"
    if isfinite(effect.high):
        level = f"{100 * effect.level:.3g}\u00a0% interval"
        found = f"{what}: {mean} ({level} {low} to {high} over {effect.over})"
    else:
        found = f"{what}: {mean}, without an interval from {effect.over}"
    if effect.p_holm is not None:
        found += f", p\u00a0=\u00a0{effect.p_holm:.3f} after Holm's correction"
    if not effect.is_judged:
        return f"{found}."
    says = {1: "as claimed", 0: "so it is open", -1: "against the claim"}[effect.side]
    return f"{found}, {says}."


def _seconds(row: Row) -> float:
    """Return the time of all fits of a row, processor time where it is known."""
    if "fit_seconds" in row:
        return row["n_fits"] * row["fit_seconds"]
    path = row.get("path") or []
    steps = [
        step["seconds"] for step in path if isinstance(step, dict) and "seconds" in step
    ]
    return sum(steps) if steps else row.get("seconds", 0.0)


def _plain(summary: Any) -> Any:
    """Return a summary of several parts as a dictionary, others as they are."""
    return summary._asdict() if hasattr(summary, "_asdict") else summary
