"""Scores of documents in parts, of the same kind as the documents."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from permatch._tables import Roles
from permatch._types import FloatArray
from permatch.distributed.opening import Stream, is_dask
from permatch.errors import InvalidQueriesError

#: From features (n, d) and query ids (n,) or None to scores (n,).
Score = Callable[[Any, Any], FloatArray]


def predict_in_parts(
    X: Any,
    qid: Any,
    score: Score,
    needs_queries: bool,
    n_features: int,
    columns: Sequence[str] | None,
) -> Any:
    """Return the scores of documents in parts.

    Those of a folder or an Arrow dataset are an array; those of a Dask collection are one
    of the same kind, not yet computed.
    """
    if is_dask(X):
        from permatch.distributed.dask_rows import predict_collection

        return predict_collection(X, qid, score, needs_queries, n_features, columns)
    wanted = ("qid",) if needs_queries else ()
    stream = Stream(X, Roles(qid=qid, features=columns), n_features, wanted)
    if not needs_queries:
        found = [score(rows.documents, None) for rows in stream.rows()]
    else:
        found = [score(block.documents, block.ids) for block in stream.blocks()]
    if not found:
        raise InvalidQueriesError(
            "at least one document is required; all parts are empty. Check the path and "
            "the filters."
        )
    return np.concatenate(found)
