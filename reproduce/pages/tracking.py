"""The page of `python -m reproduce tracking`: links across frames, and tracks."""

from collections.abc import Sequence

from permatch.pages.html import Page, drawing, figure_svg, table
from reproduce.experiments.rows import Row
from reproduce.experiments.tracking import Config
from reproduce.experiments.tracking_summary import compare, summarise
from reproduce.experiments.tud_campus import Campus
from reproduce.pages.links import HEADINGS, measure_table
from reproduce.plots.tracking import TRACKING_STYLES, measure_by_gap

_LABELS = {method: style[0] for method, style in TRACKING_STYLES.items()}
_LINKS = ("precision", "recall", "f1", "brier", "log_loss")
_TRACKS = ("idf1", "mota", "switches", "misses", "false_positives")
_VERDICTS = {1: "ahead", 0: "open", -1: "behind"}
_SPLITS = {
    "links_time": (
        "Links, split by time",
        "Learned from one half of the frames, tested on the other, and vice versa. Some "
        "people are in both halves; the features know nothing of looks.",
    ),
    "links_people": (
        "Links, split by people",
        "Learned from every second person in all frames, tested on the others, and vice "
        "versa: nobody is in both parts. With fewer people in a frame there is "
        "less to confuse.",
    ),
}


def tracking_page(config: Config, campus: Campus, rows: Sequence[Row]) -> Page:
    """Return the page.

    Parameters
    ----------
    config : Config
        What was done.
    campus : Campus
        The true boxes.
    rows : sequence of dict
        What `reproduce.experiments.tracking.run` yielded.

    Returns
    -------
    Page
        Ready to be written.
    """
    lines, truth = summarise(rows), campus.truth
    page = Page(
        "Linking boxes and tracking people on TUD-Campus",
        f"{len(truth)} boxes of {len(set(truth.id.tolist()))} people in "
        f"{len(truth.frames())} frames: who is who a few frames later?",
    )
    _add_setting(page, config, rows)
    for task, (title, text) in _SPLITS.items():
        page.add_heading(title)
        page.add_text(text)
        _add_links(page, title, [line for line in lines if line["task"] == task])
    page.add_heading("Tracks")
    _add_tracks(page, [line for line in lines if line["task"] == "tracks"])
    page.add_heading("Ahead and behind")
    _add_leads(page, rows)
    page.add_heading("Run it yourself")
    is_quick = config.n_views == Config.quick().n_views
    quick = " --quick" if is_quick else ""
    page.add_code(f"python -m reproduce tracking --data DIR{quick}")
    return page


def _add_setting(page: Page, config: Config, rows: Sequence[Row]) -> None:
    n_repeats = len({row["repeat"] for row in rows})
    page.add_text(
        f"A detector is imitated: {100 * config.drop:g} % of the true boxes are dropped; "
        "centres and sizes of the others are jittered, with a standard deviation of "
        f"{100 * config.jitter:g} % of the size. This is done {n_repeats} times; the "
        "tables show means over these repeats and their standard deviations."
    )
    page.add_text(
        f"Candidates are all pairs of boxes within {config.reach:g} heights of each other. "
        "All learners see the same features: intersection over union, distances, ratios of "
        "sizes; and of single boxes, how near the border they are and how much others "
        "overlap them. Permatch learns one score per pair, birth and death. Logistic "
        "regression sees the features of the pair and of both boxes; its links are the "
        "best assignment above a threshold. IoU + Hungarian is the assignment with the "
        "largest sum of intersections over unions, above a threshold; its probabilities "
        "come from logistic regression on the intersection over union. Penalties are "
        "chosen by cross-validation over blocks of time within the training part, "
        "thresholds by F1 on it. Permatch has no threshold."
    )


def _add_links(page: Page, title: str, lines: Sequence[Row]) -> None:
    for measure, better in (("f1", "Higher"), ("brier", "Lower")):
        words = "; ".join(
            f"gap {line['gap']}, {_LABELS[line['method']]}: {line[measure]['mean']:.3f}"
            for line in lines
        )
        with drawing(6.0, 3.4) as (figure, axes):
            measure_by_gap(lines, measure, axes)
            page.add_figure(
                figure_svg(figure),
                f"{HEADINGS[measure][0]} by gap. {better} is better. Bars: one standard "
                "deviation over repeats.",
                f"{title}, {HEADINGS[measure][0]} by gap: {words}.",
                is_narrow=True,
            )
    for gap in sorted({line["gap"] for line in lines}):
        own = [line for line in lines if line["gap"] == gap]
        frames = "frame" if gap == 1 else "frames"
        caption = f"{title}: boxes {gap} {frames} apart."
        page.add_html(measure_table(own, _LABELS, _LINKS, caption))


def _add_tracks(page: Page, lines: Sequence[Row]) -> None:
    page.add_text(
        "A Kalman filter per track predicts where it will be; links decide who is who, who "
        "is new and who is missed. Only the links differ: IoU + Hungarian with a "
        "threshold, or the likeliest matching of a model that learned from the training "
        "half. Thresholds, and how long a missed track is kept, are chosen by IDF1 on the "
        "training half. py-motmetrics judges the tracks against the true boxes, so that "
        "dropped boxes count as misses whatever the method."
    )
    for stride in sorted({line["gap"] for line in lines}):
        own = [line for line in lines if line["gap"] == stride]
        which = "Every frame" if stride == 1 else f"Every {stride}th frame"
        page.add_html(measure_table(own, _LABELS, _TRACKS, f"{which} is seen."))


def _add_leads(page: Page, rows: Sequence[Row]) -> None:
    page.add_text(
        "Differences between permatch and its rivals, paired by repeat, turned so that "
        "more is better for permatch, with 95 % intervals. Open: the interval includes "
        "zero. Repeats differ in what the imitated detector finds, not in the scene: the "
        "intervals tell nothing about other videos."
    )
    cells = []
    for key, effect in compare(rows):
        task = "tracks" if key["task"] == "tracks" else key["task"].replace("_", ", by ")
        ends = [f"{value:+.3f}" for value in (effect.mean, effect.low, effect.high)]
        mean, low, high = (end.replace("-", "\u2212") for end in ends)
        cells.append(
            [
                f"{task}, gap {key['gap']}",
                HEADINGS[key["measure"]][0],
                _LABELS[key["rival"]],
                mean,
                f"{low} to {high}" if "inf" not in low else "one repeat",
                _VERDICTS[effect.side],
            ]
        )
    header = ["task", "measure", "against", "lead", "95 % interval", "permatch is"]
    page.add_html(table(header, cells, "Permatch against each rival.", is_text=True))
