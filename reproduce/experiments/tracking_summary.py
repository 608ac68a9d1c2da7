"""Rows of the tracking experiment, put together and compared method by method."""

from collections.abc import Iterable, Sequence

from reproduce.experiments.claims import Effect
from reproduce.experiments.link_measures import MEASURES, lead, summarise_measures
from reproduce.experiments.rows import Row

TRACK_MEASURES = ("idf1", "mota", "switches", "misses", "false_positives")

#: What is compared with each rival, by kind of task.
_COMPARED = {"links": ("f1", "brier", "log_loss"), "tracks": ("idf1", "mota")}
_NAMES = {
    "f1": "F1",
    "brier": "Brier score",
    "log_loss": "log-loss",
    "idf1": "IDF1",
    "mota": "MOTA",
}


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return means and spreads over repeats, a line per task, gap and method.

    Parameters
    ----------
    rows : iterable of dict
        Rows of one configuration.

    Returns
    -------
    list of dict
        As from `link_measures.summarise_measures`; None for measures of other tasks.
    """
    return summarise_measures(rows, ("task", "gap"), (*MEASURES, *TRACK_MEASURES))


def compare(rows: Sequence[Row]) -> list[tuple[Row, Effect]]:
    """Return by how much permatch is ahead of every rival, paired by repeat.

    Parameters
    ----------
    rows : sequence of dict
        Rows of one configuration.

    Returns
    -------
    list of (dict, Effect)
        What is compared, as ``task``, ``gap``, ``rival`` and ``measure``, and the lead: a
        difference, above 0 where permatch is better, also where less is better.
    """
    found = []
    for task, gap in dict.fromkeys((row["task"], row["gap"]) for row in rows):
        own = [row for row in rows if (row["task"], row["gap"]) == (task, gap)]
        rivals = dict.fromkeys(row["method"] for row in own)
        for rival in (name for name in rivals if name != "permatch"):
            for measure in _COMPARED[task.partition("_")[0]]:
                key = {"task": task, "gap": gap, "rival": rival, "measure": measure}
                what = f"{_NAMES[measure]} by which permatch is ahead"
                found.append((key, lead(own, "permatch", rival, measure, what)))
    return found
