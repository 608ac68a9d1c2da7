"""Dask DataFrames, Dask arrays and delayed parts: to shards of queries, and to scores.

Only the rows of queries that a boundary cuts are moved between partitions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from permatch._optional import require
from permatch._progress import Stages
from permatch._tables import ROLES, Roles, is_numeric
from permatch._types import FloatArray
from permatch.datasets.letor import read_letor
from permatch.distributed.dask_frames import read_frame, refuse_one_delayed
from permatch.distributed.dask_shards import DaskShards
from permatch.distributed.rows import (
    Contiguity,
    Given,
    Prepare,
    Rows,
    check_rows,
    find_ends,
    make_queries,
    own_rows,
    query_ids,
    rows_after,
    rows_before,
    surrounded,
)
from permatch.distributed.sources import letor_width, list_files
from permatch.errors import InvalidQueriesError


def open_collection(
    X: Any, roles: Roles, prepare: Prepare | None
) -> tuple[DaskShards, int, list[str] | None]:
    """Return the shards of judged lists, the number of features, and their names."""
    given, columns = _parts_of(X, roles, ("y", "qid"))
    delayed = require("dask", "dask").delayed
    rows = [
        delayed(check_rows, pure=False)(part, f"partition {k}")
        for k, part in enumerate(given)
    ]
    outline = delayed(_outline, pure=False)
    alike = delayed(_check_alike, pure=False)([outline(part) for part in rows])
    rows = if_passed(rows, [alike, check_order(rows)])
    own = delayed(own_rows, pure=False)
    whole = DaskShards([own(*part) for part in with_neighbours(rows)]).persisted()
    with Stages("waiting for the partitions"):
        outlines = whole.map(_outline)
    counts = [own.n_queries for own in outlines]
    used = [k for k, count in enumerate(counts) if count]
    if not used:
        raise InvalidQueriesError(
            "at least one document is required; all partitions are empty. Check the "
            "filters."
        )
    firsts = [0, *accumulate(counts)]
    more = [(firsts[k], prepare) for k in used]
    sizes = [outlines[k].n_rows for k in used]
    queries = whole.some(used).derive_each(make_queries, more, sizes)
    return queries.persisted(), outlines[used[0]].n_features, columns


class _Outline(NamedTuple):
    """What must be alike in all partitions, and how many queries and rows there are."""

    n_rows: int
    n_queries: int
    n_features: int
    kind: str
    has_weights: bool


def _outline(rows: Rows) -> _Outline:
    kind = "sparse" if sparse.issparse(rows.documents) else "dense"
    width = rows.documents.shape[1] if len(rows) else 0
    has_weights = rows.weights is not None
    return _Outline(len(rows), len(rows.starts), width, kind, has_weights)


def _check_alike(outlines: list[_Outline]) -> None:
    """Refuse partitions that cannot be put together."""
    used = [k for k, own in enumerate(outlines) if own.n_queries]
    for k in used:
        first, own = outlines[used[0]], outlines[k]
        for what, one, other in (
            ("features", first.n_features, own.n_features),
            ("kind of features", f"{first.kind} ones", f"{own.kind} ones"),
            ("columns", _weights_in(first), _weights_in(own)),
        ):
            if one != other:
                raise InvalidQueriesError(
                    f"all partitions must have the same {what}; partition {used[0]} has "
                    f"{one}, partition {k} has {other}. Make them alike."
                )


def _weights_in(outline: _Outline) -> str:
    return "sample_weight" if outline.has_weights else "no sample_weight"


def check_order(rows: list[Any], *named: Any) -> Any:
    """Return a delayed check that parts are sorted; `named` is told to `Contiguity`."""
    delayed = require("dask", "dask").delayed
    ids = [delayed(query_ids, pure=False)(part) for part in rows]
    return delayed(_check_order, pure=False)(ids, named)


def _check_order(ids: list[np.ndarray], named: tuple[Any, ...]) -> None:
    contiguity = Contiguity(*named)
    for k, own in enumerate(ids):
        contiguity.check_ids(own, f"partition {k}")


def if_passed(parts: list[Any], checks: list[Any]) -> list[Any]:
    """Return delayed parts that fail where one of some delayed checks fails."""
    first = require("dask", "dask").delayed(_first_of, pure=False)
    return [first(part, checks) for part in parts]


def _first_of(part: Any, checks: list[None]) -> Any:
    return part


def with_neighbours(rows: list[Any]) -> list[tuple[Any, Any, Any]]:
    """Return every part with the rows of the queries that go on before and after it."""
    delayed = require("dask", "dask").delayed
    ends = [delayed(find_ends, pure=False)(part) for part in rows]
    before, after = delayed(rows_before, pure=False), delayed(rows_after, pure=False)
    lefts: list[Any] = [None]
    for own in ends[:-1]:
        lefts.append(before(lefts[-1], own))
    rights: list[Any] = [None]
    for own in ends[:0:-1]:
        rights.append(after(rights[-1], own))
    return list(zip(rows, lefts, reversed(rights), strict=True))


def predict_collection(
    X: Any,
    qid: Any,
    score: Callable[[Any, Any], FloatArray],
    needs_queries: bool,
    n_features: int,
    columns: Sequence[str] | None,
) -> Any:
    """Return the scores of a collection as one of the same kind, not yet computed."""
    dask = require("dask", "dask")
    wanted = ("qid",) if needs_queries else ()
    roles = Roles(qid=qid if needs_queries else None, features=columns)
    given, _ = _parts_of(X, roles, wanted)
    check, sent = dask.delayed(check_rows, pure=False), dask.delayed(score, traverse=False)
    rows = [
        check(part, f"partition {k}", n_features=n_features) for k, part in enumerate(given)
    ]
    if needs_queries:
        call = dask.delayed(_score_whole, pure=False)
        scores = [call(sent, *part) for part in with_neighbours(rows)]
        # Scores wait for the check, not rows, which would all be held until then.
        scores = if_passed(scores, [check_order(rows)])
    else:
        call = dask.delayed(_score, pure=False)
        scores = [call(sent, part) for part in rows]
    return like_rows(X, scores)


def _score(score: Callable[[Any, Any], FloatArray], rows: Rows) -> FloatArray:
    return score(rows.documents, None)


def _score_whole(
    score: Callable[[Any, Any], FloatArray], rows: Rows, before: Any, after: Any
) -> FloatArray:
    if not len(rows):
        return np.zeros(0)
    block, own = surrounded(rows, before, after)
    return score(block.documents, block.ids)[own]


def like_rows(X: Any, scores: list[Any], dtype: Any = np.float64) -> Any:
    """Return delayed values of rows as a collection like that of the rows."""
    if isinstance(X, list | tuple):
        return scores
    dask = require("dask", "dask")
    if hasattr(X, "divisions"):
        frames, pandas = require("dask.dataframe", "dask"), require("pandas", "tables")
        series = dask.delayed(_as_series, pure=False)
        parts = [series(*pair) for pair in zip(scores, X.to_delayed(), strict=True)]
        meta = pandas.Series(dtype=dtype, index=X._meta.index[:0])
        return frames.from_delayed(parts, meta=meta, divisions=X.divisions)
    arrays = require("dask.array", "dask")
    return arrays.concatenate(
        [
            arrays.from_delayed(part, shape=(length,), dtype=np.float64)
            for part, length in zip(scores, X.chunks[0], strict=True)
        ]
    )


def _as_series(scores: FloatArray, frame: Any) -> Any:
    return require("pandas", "tables").Series(scores, index=frame.index)


def _parts_of(
    X: Any, roles: Roles, wanted: tuple[str, ...]
) -> tuple[list[Any], list[str] | None]:
    """Return delayed `Given`, one per partition, and the columns of features."""
    require("dask", "dask", what="data in Dask collections")
    if isinstance(X, list | tuple):
        return _listed(X, roles, wanted)
    refuse_one_delayed(X, "(X, y, qid)")
    if hasattr(X, "divisions"):
        return _framed(X, roles, wanted)
    return _chunked(X, roles, wanted), None


def _listed(
    X: Sequence[Any], roles: Roles, wanted: tuple[str, ...]
) -> tuple[list[Any], None]:
    for role in ROLES:
        if getattr(roles, role) is not None:
            raise InvalidQueriesError(
                "a list of delayed parts must hold tuples (X, y, qid), and nothing else is "
                f"given; got {role} too. Put it into the parts."
            )
    give = require("dask", "dask").delayed(_give, pure=False)
    return [give(part, f"partition {k}", wanted) for k, part in enumerate(X)], None


def _give(part: Any, place: str, wanted: tuple[str, ...]) -> Given:
    if not isinstance(part, tuple | list) or not 1 <= len(part) <= 4:
        raise InvalidQueriesError(
            f"{place} must be a tuple (X, y, qid), or (X, y, qid, sample_weight); got "
            f"{type(part).__name__}."
        )
    given = Given(*part)
    if missing := [role for role in wanted if getattr(given, role) is None]:
        raise InvalidQueriesError(
            f"{place} must be a tuple (X, y, qid), or (X, y, qid, sample_weight); it has "
            f"no {' and no '.join(missing)}. Add it."
        )
    return given


def _framed(X: Any, roles: Roles, wanted: tuple[str, ...]) -> tuple[list[Any], list[str]]:
    """Return the partitions of a DataFrame, with columns by name or as series."""
    delayed = require("dask", "dask").delayed
    beside = {
        role: series
        for role in ROLES
        if hasattr(series := getattr(roles, role), "divisions")
    }
    named = replace(roles, **dict.fromkeys(beside))
    named.check(tuple(set(wanted) - set(beside)), "a Dask DataFrame")
    columns = named.columns(is_numeric(X), "the Dask DataFrame")
    settled = replace(named, features=columns)
    for role, series in beside.items():
        if series.npartitions != X.npartitions:
            raise _not_aligned(role, X.npartitions, series.npartitions)
    others = {role: series.to_delayed() for role, series in beside.items()}
    give = delayed(_give_frame, pure=False)
    return [
        give(
            frame,
            settled,
            {role: parts[k] for role, parts in others.items()},
            f"partition {k}",
        )
        for k, frame in enumerate(X.to_delayed())
    ], columns


def _give_frame(frame: Any, roles: Roles, beside: dict[str, Any], place: str) -> Given:
    features = roles.columns(is_numeric(frame), place)
    named = {
        role: frame[name] for role in ROLES if (name := getattr(roles, role)) is not None
    }
    return Given(frame[features], **named, **beside)


def _chunked(X: Any, roles: Roles, wanted: tuple[str, ...]) -> list[Any]:
    """Return the blocks of rows of Dask arrays."""
    if not hasattr(X, "chunks"):
        raise InvalidQueriesError(
            "documents on Dask must be a DataFrame, an array, or a list of delayed tuples "
            f"(X, y, qid); got {type(X).__name__}. Convert it, such as by to_dataframe()."
        )
    if X.ndim != 2:
        raise InvalidQueriesError(
            "documents must be a Dask array of shape (n, d), one row of features per "
            f"document; got {X.ndim} dimensions."
        )
    delayed = require("dask", "dask").delayed
    blocks = X.rechunk({1: -1}).to_delayed()[:, 0]
    beside: dict[str, Any] = {}
    for role in ROLES:
        column: Any = getattr(roles, role)
        if column is None and role not in wanted:
            continue
        if column is None or not hasattr(column, "__dask_graph__"):
            raise InvalidQueriesError(
                f"for a Dask array, {role} must be a Dask array too, with chunks like the "
                f"rows of X; got {type(column).__name__}."
            )
        if not hasattr(column, "divisions") and not np.isnan(X.chunks[0]).any():
            if column.shape != (X.shape[0],):
                raise InvalidQueriesError(
                    f"{role} must have one entry per document, shape ({X.shape[0]},); got "
                    f"shape {column.shape}."
                )
            column = column.rechunk((X.chunks[0],))
        own = column.to_delayed()
        beside[role] = own if isinstance(own, list) else own.ravel()
        if len(beside[role]) != len(blocks):
            raise _not_aligned(role, len(blocks), len(beside[role]))
    give = delayed(Given, pure=False)
    return [
        give(block, **{role: parts[k] for role, parts in beside.items()})
        for k, block in enumerate(blocks)
    ]


def _not_aligned(role: str, wanted: int, got: int) -> InvalidQueriesError:
    return InvalidQueriesError(
        f"{role} must have the partitions of X, {wanted}; got {got}. Take both from one "
        "DataFrame, or give the names of columns."
    )


def read_on_workers(
    path: Any, roles: Roles, n_features: int | None = None
) -> tuple[Any, Any, Any]:
    """Return a folder as X, y and qid of Dask; its files are read by the workers."""
    dask = require("dask", "dask", what="reading on the workers of Dask")
    files, is_parquet = list_files(path)
    if is_parquet:
        roles.check(("y", "qid"), "Parquet files")
        return read_frame(path), roles.y, roles.qid
    # Workers may have another working folder.
    files = [file.absolute() for file in files]
    if n_features is None:
        n_features = max(dask.compute(*map(dask.delayed(letor_width), files)))
    read = dask.delayed(_read_letor, pure=False)
    return [read(file, n_features) for file in files], None, None


def _read_letor(file: Any, n_features: int) -> Given:
    data = read_letor(file, n_features=n_features)
    return Given(data.X, data.y, data.qid.astype(str))
