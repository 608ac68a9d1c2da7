"""The table of estimators: it feeds loading, the command line and messages.

It holds names only, so that it is read without loading any of them.
"""

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal

#: "prepare": not a model by itself, but a step before one.
Task = Literal["match", "rank", "prepare"]
#: What scores are made by: one coefficient per feature, or boosted trees.
Kind = Literal["linear", "trees"]


@dataclass(frozen=True)
class Listed:
    """An estimator: its class and module, its task, and its name on the command line.

    Commands know how to report linear models with an alpha, and trees; any other estimator
    has no name there: None.
    """

    name: str
    module: str
    task: Task
    option: str | None
    is_search: bool = False
    kind: Kind = "linear"
    room: str = "estimators"

    @property
    def home(self) -> str:
        """The module it lives in."""
        return f"permatch.{self.room}.{self.module}"

    def load(self) -> type[Any]:
        """Import the class."""
        return getattr(import_module(self.home), self.name)


_trees = partial(Listed, kind="trees", room="boosting")

#: A new estimator is a line here.
ESTIMATORS = {
    listed.name: listed
    for listed in (
        Listed("MAPMatching", "map_matching", "match", "map"),
        Listed("MAPMatchingCV", "map_matching_cv", "match", "map", is_search=True),
        Listed("MaxMarginMatching", "max_margin_matching", "match", "max-margin"),
        Listed(
            "MaxMarginMatchingCV",
            "max_margin_matching_cv",
            "match",
            "max-margin",
            is_search=True,
        ),
        Listed("RankMatch", "rank_match", "rank", "rankmatch"),
        Listed("RankMatchCV", "rank_match_cv", "rank", "rankmatch", is_search=True),
        Listed("DORM", "dorm", "rank", "dorm"),
        Listed("DORMCV", "rank_match_cv", "rank", "dorm", is_search=True),
        Listed("QueryRidge", "query_ridge", "rank", "ridge"),
        Listed("QueryRidgeCV", "rank_match_cv", "rank", "ridge", is_search=True),
        _trees("BoostedMatching", "boosted_matching", "match", "map"),
        _trees("BoostedMatchingCV", "boosted_matching_cv", "match", "map", is_search=True),
        _trees("BoostedRankMatch", "boosted_rank_match", "rank", "rankmatch"),
        _trees(
            "BoostedRankMatchCV",
            "boosted_rank_match_cv",
            "rank",
            "rankmatch",
            is_search=True,
        ),
        Listed("FeaturePreparation", "preparation", "prepare", None),
    )
}


def options_of(task: Task, kind: Kind | None = None) -> list[str]:
    """Return the names on the command line of the estimators for a task."""
    rows = [
        row for row in ESTIMATORS.values() if row.task == task and kind in (None, row.kind)
    ]
    return list(dict.fromkeys(row.option for row in rows if row.option is not None))


def find_estimator(
    task: Task, option: str, *, is_search: bool, kind: Kind = "linear"
) -> type[Any]:
    """Return the class with this name on the command line, with or without a search."""
    wanted = (task, option, is_search, kind)
    (row,) = (
        row
        for row in ESTIMATORS.values()
        if (row.task, row.option, row.is_search, row.kind) == wanted
    )
    return row.load()
