"""The table of estimators: it feeds loading, the command line and messages.

It holds names only, so that it is read without loading any of them.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

Task = Literal["match", "rank"]


@dataclass(frozen=True)
class Listed:
    """An estimator: its class and module, its task, and its name on the command line.

    Commands report fits as those of linear models with an alpha; any other estimator has
    no name there: None.
    """

    name: str
    module: str
    task: Task
    option: str | None
    is_search: bool = False

    @property
    def home(self) -> str:
        """The module it lives in."""
        return f"permatch.estimators.{self.module}"

    def load(self) -> type[Any]:
        """Import the class."""
        return getattr(import_module(self.home), self.name)


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
    )
}


def options_of(task: Task) -> list[str]:
    """Return the names on the command line of the estimators for a task."""
    rows = [row for row in ESTIMATORS.values() if row.task == task]
    return list(dict.fromkeys(row.option for row in rows if row.option is not None))


def find_estimator(task: Task, option: str, *, is_search: bool) -> type[Any]:
    """Return the class with this name on the command line, with or without a search."""
    wanted = (task, option, is_search)
    (row,) = (
        row
        for row in ESTIMATORS.values()
        if (row.task, row.option, row.is_search) == wanted
    )
    return row.load()
