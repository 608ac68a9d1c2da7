"""The page of `python -m reproduce linking`: links between DBLP and ACM."""

from collections.abc import Sequence

from permatch.pages.html import Page, drawing, figure_svg
from reproduce.experiments.claims import Effect
from reproduce.experiments.dblp_acm import (
    PLAUSIBLE,
    Config,
    certainty,
    effects,
    summarise,
    tree_effects,
)
from reproduce.experiments.rows import Row
from reproduce.pages.links import measure_table
from reproduce.plots.linking import reliability_curve

#: How the methods are called.
NAMES = {
    "classifier": "classifier, threshold",
    "greedy": "classifier, greedy",
    "assignment": "classifier, assignment",
    "splink": "classifier, splink single best links",
    "link": "pm.link, no labels",
    "calibrated": "pm.link, logit calibrated",
    "learned": "pm.link, features learned",
    "trees": "LightGBM, threshold",
    "trees_assignment": "LightGBM, assignment",
    "trees_link": "pm.link on LightGBM",
    "boosted": "pm.link, trees learned",
}
_MEASURES = ("precision", "recall", "f1", "brier", "log_loss")
_TITLES = {
    "entities": "New papers",
    "venues": "A new venue",
}
_LEADS = {
    "entities": (
        "Half of the papers are used for training and half for testing. A paper and both "
        "of its records are in the same half."
    ),
    "venues": (
        "The harder question: all records of one venue are tested, and the others are used "
        "for training. No pair of the venue was labelled, and journals differ from "
        "conferences in how often titles repeat."
    ),
}


def linking_page(config: Config, rows: Sequence[Row]) -> Page:
    """Return the page.

    Parameters
    ----------
    config : Config
        What was done.
    rows : sequence of dict
        What `reproduce.experiments.dblp_acm.run` yielded.

    Returns
    -------
    Page
        Ready to be written.
    """
    page = Page(
        "Linking two bibliographies",
        "Which records of DBLP and of the ACM are the same paper, if no record has two "
        "partners?",
    )
    page.add_text(
        f"Candidates are the {config.n_neighbors} records with the most similar titles, "
        "from both sides. Their features are the similarity of titles, authors and venues "
        f"and the years apart. {100 * config.dropped:.0f} % of the DBLP records are left "
        "out, so that many ACM records have no partner. A logistic regression on single "
        "pairs is the classifier. Thresholds, and what permatch learns, are chosen on the "
        "training pairs, with probabilities from a classifier that has not seen the "
        "records; pm.link without labels uses no threshold either."
    )
    lines = summarise(rows)
    for protocol in config.protocols:
        page.add_heading(_TITLES[protocol])
        page.add_text(_LEADS[protocol])
        _add_table(page, [line for line in lines if line["protocol"] == protocol], rows)
        page.add_text(_verdicts(effects(rows, protocol)))
        page.add_text(_of_trees(tree_effects(rows, protocol)))
    page.add_heading("Are the probabilities right?")
    _add_reliability(page, config, rows)
    page.add_heading("Run it yourself")
    is_quick = config.n_repeats == Config.quick().n_repeats
    page.add_code(f"python -m reproduce linking --data DIR{' --quick' if is_quick else ''}")
    return page


def _add_table(page: Page, lines: list[Row], rows: Sequence[Row]) -> None:
    protocol = lines[0]["protocol"]
    n_splits = len({row["repeat"] for row in rows if row["protocol"] == protocol})
    own = [row for row in rows if (row["protocol"], row["method"]) == (protocol, "link")]
    n_pairs = sum(row["n_pairs"] for row in own) / len(own)
    n_links = sum(row["n_true"] for row in own) / len(own)
    page.add_html(
        measure_table(
            lines,
            NAMES,
            _MEASURES,
            f"Means and standard deviations over {n_splits} splits of about "
            f"{n_pairs:,.0f} candidate pairs and {n_links:,.0f} links.",
        )
    )
    page.add_text(
        "Links that are not candidates count as missed. Greedy, assignment and splink keep "
        "the classifier's probability for the links they take and give 0 to all others. "
        f"{_certainty(certainty(rows, protocol))}"
    )


def _certainty(found: Row) -> str:
    """Say how far off the probabilities of `pm.link` may be."""
    if found["share_exact"] == 1.0:
        return "All probabilities of pm.link without labels are exact."
    return (
        "Most candidates of a split hang together in one component, too wide to be solved "
        "exactly; the probabilities of pm.link without labels lie for certain within "
        f"intervals of at most {found['widest']:.4f}. Pairs that these leave open, "
        f"{found['n_review']} in all splits, are left for review and count as not linked. "
        "What permatch learns from labels is approximated by belief propagation."
    )


def _verdicts(found: dict[str, Effect]) -> str:
    brier, labels, f1 = (found[name] for name in ("brier", "labels", "f1"))
    return (
        f"The Brier score of pm.link, without labels, is {_number(brier)} times the "
        f"classifier's. Calibrating the logit with labels makes it {_number(labels)} times "
        f"that of pm.link without labels. F1 of pm.link minus that of greedy with a tuned "
        f"threshold: {_number(f1, '+.4f')}. Ratios are geometric means; intervals are "
        "95 %, paired by split. Splits share records, so they are somewhat too narrow."
    )


def _of_trees(found: dict[str, dict[str, Effect]]) -> str:
    """Say how trees that are grown by the likelihood of links compare."""
    against = "; ".join(
        f"{NAMES[rival]} {_number(own['log_loss'])}, {_number(own['brier'])}, "
        f"{_number(own['f1'], '+.4f')}"
        for rival, own in found.items()
    )
    return (
        "Trees of the features: LightGBM on single pairs, and trees that permatch grows by "
        "the likelihood of all links together, with the same leaves to choose from. "
        "Log-loss and Brier score of the latter over those of others, and its F1 minus "
        f"theirs: {against}."
    )


def _number(effect: Effect, form: str = ".2f") -> str:
    words = f"{effect.mean:{form}} ({effect.low:{form}} to {effect.high:{form}})"
    return words.replace("-", "\u2212")


def _add_reliability(page: Page, config: Config, rows: Sequence[Row]) -> None:
    for protocol in config.protocols:
        errors = "; ".join(
            f"{NAMES[line['method']]} {line['calibration_error']:.3f}"
            for line in summarise(rows)
            if line["protocol"] == protocol and line["calibration_error"] is not None
        )
        with drawing(5.4, 4.6) as (figure, axes):
            reliability_curve(rows, protocol, axes)
            page.add_figure(
                figure_svg(figure),
                f"{_TITLES[protocol]}: of the pairs with some probability, the share that "
                f"are links, over pairs with at least {100 * PLAUSIBLE:g} % by any method. "
                "Bars: one standard error, by the rule of Agresti and Coull. Mean "
                f"distance from the diagonal: {errors}.",
                f"Reliability curves. Mean distance from the diagonal: {errors}.",
                is_narrow=True,
            )
