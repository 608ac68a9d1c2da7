"""What a page of rankings says of the rivals: what they are, what was chosen, how near."""

from collections.abc import Sequence

from permatch.pages.html import Page, table
from reproduce.experiments.rows import Row
from reproduce.rivals.table import RIVALS

#: What options are called in a table, with what is chosen in place of {}.
_WORDS = {
    "n_bins": "{} bins",
    "max_leaf_nodes": "{} leaves",
    "learning_rate": "rate {}",
    "n_hidden": "{} hidden",
    "decay": "decay {}",
    "alpha": "alpha {}",
}


def add_rivals(page: Page, name: str) -> None:
    """Say what each rival is, what of it is certain, and which one is left out."""
    page.add_text(
        "All rivals learned from the same folds with the same preparation: features from 0 "
        "to 1 within each query. A name that ends in '-style' says that equations were "
        "written down from memory, or from what others tell of the method, not from its "
        "paper: such a line is not evidence about the published method."
    )
    page.add_html(
        table(
            ["rival", "published in", "certain", "our reading, or chosen here"],
            [
                [rival.name, rival.source, rival.certain, rival.reading]
                for rival in RIVALS.values()
                if not rival.needs_similarity
            ],
            "The rivals of the paper's figure as they are run here.",
            is_text=True,
        )
    )
    for rival in RIVALS.values():
        if rival.needs_similarity:
            page.add_text(
                f"{rival.name} ({rival.source}) is left out: it needs a matrix of "
                "similarities between the documents of every query, which the folds of "
                f"{name} in LETOR 2.0 do not have. Without one it would be no more than "
                "regression with positive weights."
            )


def add_published(page: Page, published: Sequence[Row], labels: dict[str, str]) -> None:
    """Say how near measured rivals come to what is published of them."""
    if not published:
        page.add_text("No published results were found beside the data.")
        return
    page.add_html(
        table(
            ["rival", "measured", "published", "difference", "standard error", "within"],
            [
                [
                    labels[line["method"]],
                    f"{line['mean']:.4f}",
                    f"{line['published']:.4f}",
                    f"{line['difference']:+.4f}",
                    f"{line['error']:.4f}",
                    "yes" if line["is_within"] else "no",
                ]
                for line in published
            ],
            "Mean of NDCG@1 to NDCG@10 as measured here and as published, and the standard "
            "error of the measured mean over queries.",
        )
    )
    for line in published:
        page.add_text(_nearness(line, labels[line["method"]]))


def _nearness(line: Row, label: str) -> str:
    """Say whether a rival is within a standard error, and if not, what is known of that."""
    is_within = line["is_within"]
    text = (
        f"{label} is {'within' if is_within else 'not within'} one standard error of its "
        f"published mean: {line['difference']:+.4f}, with a standard error of "
        f"{line['error']:.4f} over {line['n_queries']} queries."
    )
    if line["variant"] != "paper":
        text += " Only NDCG with LETOR's discount was published; that is what is compared."
    if "by_fold" in line:
        folds = "; ".join(
            f"fold {fold} {ours - theirs:+.3f}"
            for fold, (ours, theirs) in sorted(line["by_fold"].items())
        )
        text += (
            f" Paired by query, the standard error of the difference is "
            f"{line['paired_error']:.4f}; by fold, measured less published: {folds}."
        )
    if not is_within:
        text += " How the published one was tuned is not documented."
    return text


def choice_table(summary: list[Row], labels: dict[str, str]) -> str:
    """Return what was chosen of every rival in every fold."""
    rivals = [line for line in summary if "chosen" in line]
    folds = sorted({fold for line in rivals for fold in line["chosen"]})
    return table(
        ["rival", *(f"fold {fold}" for fold in folds)],
        [
            [
                labels[line["method"]],
                *(_choice(line["chosen"].get(fold, {})) for fold in folds),
            ]
            for line in rivals
        ],
        "Options of the rivals chosen in every fold.",
        ids=True,
        is_text=True,
    )


def _choice(chosen: Row) -> str:
    """Return chosen options in words."""
    parts = []
    for name, value in chosen.items():
        if name == "is_reusing":
            parts.append("features again" if value else "features once")
        elif name == "n_rounds":
            parts.append("1 round" if value == 1 else f"{value} rounds")
        else:
            is_word = isinstance(value, str)
            number = value if is_word else f"{value:g}".replace("e-0", "e\u2011")
            parts.append(_WORDS.get(name, "{}").format(number))
    # Spaces that do not break keep an option on one line.
    return ", ".join(part.replace(" ", "\u00a0") for part in parts)
