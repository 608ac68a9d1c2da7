"""What is said where documents come without their queries."""

import sys
from typing import Any

from permatch.errors import MissingQueriesError, UnroutedQueriesError


def missing_queries(
    name: str, X: Any, column: str | None = None, *, with_qid: str | None = None
) -> BaseException:
    """Return the error of documents in memory without queries.

    `name` is what needs them, `with_qid` how it is told their column, and `column` what it
    was told.
    """
    called = f'{name}(qid="query")' if with_qid is None else with_qid
    if _is_in_a_search():
        return UnroutedQueriesError(
            f"{name} needs the query of every document to be scored; scikit-learn passes "
            "qid to fit alone. Either keep the ids as a column of the DataFrame X and name "
            f"it, {called}, or call "
            "sklearn.set_config(enable_metadata_routing=True) first."
        )
    if column is not None:
        return MissingQueriesError(
            f"qid={column!r} names a column, so X must be a DataFrame; got "
            f"{type(X).__name__}. Pass a DataFrame, or query ids as qid=ids."
        )
    return MissingQueriesError(
        f"{name} needs the query of every document; got none. Name the column of a "
        f"DataFrame, {called}, or pass an id per document, qid=ids, or the "
        "number of rows of each query, group=sizes. For a single query pass "
        "group=[len(X)]."
    )


def _is_in_a_search() -> bool:
    """Tell whether scikit-learn waits for a score, and would turn an error into nan."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "sklearn.model_selection._validation":
            return frame.f_code.co_name == "_score"
        frame = frame.f_back
    return False
