"""Rows of judged lists on their way to shards of whole queries.

A query that a boundary between parts cuts is put together again in the part where it
begins: of the other parts only the rows of their first and last query are moved.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from permatch._types import IntArray
from permatch.errors import InvalidQueriesError, PermatchError
from permatch.queries import (
    QueryRows,
    QuerySet,
    check_documents,
    check_grades,
    check_ids,
    weighted_queries,
)

#: From checked queries to those that a model sees.
Prepare = Callable[[QuerySet], QuerySet]


class Given(NamedTuple):
    """Rows as they arrive: features, and perhaps grades, query ids and weights."""

    X: Any
    y: Any = None
    qid: Any = None
    sample_weight: Any = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked consecutive rows; what was not given is None."""

    documents: Any
    grades: Any
    ids: Any
    weights: Any

    def __len__(self) -> int:
        return self.documents.shape[0]

    def __getitem__(self, rows: slice) -> "Rows":
        return Rows(*(None if own is None else own[rows] for own in self.columns))

    def copied(self) -> "Rows":
        """Return rows that share no memory with others."""
        return Rows(*(None if own is None else own.copy() for own in self.columns))

    def joined(self, parts: Sequence["Rows"]) -> "Rows":
        """Return several such rows, these among them, as one."""
        documents, *others = zip(*(part.columns for part in parts), strict=True)
        is_sparse = any(map(sparse.issparse, documents))
        stack: Any = sparse.vstack if is_sparse else np.concatenate
        return Rows(
            stack(documents),
            *(None if own[0] is None else np.concatenate(own) for own in others),
        )

    @property
    def columns(self) -> tuple[Any, ...]:
        """All columns, for what is done to each."""
        return self.documents, self.grades, self.ids, self.weights

    @property
    def starts(self) -> IntArray:
        """Where runs of rows of one query begin."""
        return np.flatnonzero(np.append(True, self.ids[1:] != self.ids[:-1])[: len(self)])


def check_rows(
    given: Given, place: str, *, first_row: int = 0, n_features: int | None = None
) -> Rows:
    """Check some rows; messages name the place, and the row counted from `first_row`."""
    X, y, qid, weight = given
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    try:
        if n_rows == 0:
            documents = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
            return Rows(documents, np.zeros(0, dtype=np.intp), np.zeros(0, dtype=int), None)
        return Rows(
            check_documents(X, n_features, first_row=first_row),
            None if y is None else check_grades(y, n_rows, first_row=first_row),
            None if qid is None else check_ids(qid, n_rows, first_row=first_row),
            None if weight is None else np.asarray(weight),
        )
    except PermatchError as err:
        raise type(err)(f"{place}: {err}") from err


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Return consecutive rows as one."""
    some = [part for part in parts if len(part)] or parts[:1]
    return some[0] if len(some) == 1 else some[0].joined(some)


def make_queries(rows: Rows, first: int, prepare: Prepare | None = None) -> QuerySet:
    """Return rows of whole queries as the queries numbered from `first`."""
    starts = np.append(rows.starts, len(rows)).astype(np.intp)
    found = QueryRows(starts, rows.ids[starts[:-1]], None)
    own = rows.documents, rows.grades, found, rows.weights
    queries = weighted_queries(*own, first, is_all=False)
    return queries if prepare is None else prepare(queries)


class Ends(NamedTuple):
    """The rows of the first and of the last query of a part, which may be the same."""

    head: Rows
    tail: Rows
    is_one: bool


def find_ends(rows: Rows) -> Ends | None:
    """Return the rows at the borders of a part, None if it is empty."""
    if not len(rows):
        return None
    starts = rows.starts
    is_one = len(starts) == 1
    last_of_head = len(rows) if is_one else starts[1]
    # Copies, so that these few rows do not keep the part in memory.
    head = rows[:last_of_head].copied()
    return Ends(head, head if is_one else rows[starts[-1] :].copied(), is_one)


def rows_before(before: Rows | None, ends: Ends | None) -> Rows | None:
    """Return the rows of the last query up to the end of a part.

    `before` are those up to its beginning.
    """
    if ends is None:
        return before
    goes_on = ends.is_one and before is not None and before.ids[0] == ends.tail.ids[0]
    return join_rows([before, ends.tail]) if before is not None and goes_on else ends.tail


def rows_after(after: Rows | None, ends: Ends | None) -> Rows | None:
    """Return the rows of the first query from the beginning of a part on."""
    if ends is None:
        return after
    goes_on = ends.is_one and after is not None and after.ids[0] == ends.head.ids[0]
    return join_rows([ends.head, after]) if after is not None and goes_on else ends.head


def own_rows(rows: Rows, before: Rows | None, after: Rows | None) -> Rows:
    """Return all rows of the queries that begin in a part."""
    if not len(rows):
        return rows
    starts = rows.starts
    if before is not None and before.ids[0] == rows.ids[0]:
        rows = rows[starts[1] :] if len(starts) > 1 else rows[:0]
    if len(rows) and after is not None and after.ids[0] == rows.ids[-1]:
        return join_rows([rows, after])
    return rows


def surrounded(rows: Rows, before: Rows | None, after: Rows | None) -> tuple[Rows, slice]:
    """Return all rows of the queries of a part, and where among them those of the part."""
    parts, n_before = [rows], 0
    if before is not None and before.ids[0] == rows.ids[0]:
        parts, n_before = [before, rows], len(before)
    if after is not None and after.ids[0] == rows.ids[-1]:
        parts.append(after)
    return join_rows(parts), slice(n_before, n_before + len(rows))


def query_ids(rows: Rows) -> np.ndarray:
    """Return the ids of the queries of some rows, in their order."""
    return rows.ids[rows.starts]


class Contiguity:
    """Refuses queries that come back after another one, and ids of several types.

    `thing` is what an id is of, `column` where it is, as one writes it; `error` is the
    type of errors.
    """

    def __init__(
        self,
        thing: str = "query",
        column: str = "qid",
        error: type[PermatchError] = InvalidQueriesError,
    ) -> None:
        self._thing, self._column, self._error = thing, column, error
        self._seen: dict[Any, str] = {}
        self._last: Any = None

    def check(self, rows: Rows, place: str) -> None:
        """Take note of rows; their first query may be the last one of those before."""
        self.check_ids(query_ids(rows), place)

    def check_ids(self, ids: np.ndarray, place: str) -> None:
        """Take note of the ids of consecutive queries."""
        names = ids.tolist()
        if not names:
            return
        if self._seen and isinstance(names[0], str) != isinstance(self._last, str):
            raise self._mixed(names[0], place)
        for name in names[int(names[0] == self._last) :]:
            if name in self._seen:
                raise self._comes_back(name, place)
            self._seen[name] = place
        self._last = names[-1]

    def _mixed(self, name: Any, place: str) -> PermatchError:
        return self._error(
            f"the ids of {self._column} must be of one type in all parts, numbers or text; "
            f"{self._seen[self._last]} has {self._last!r}, {place} has {name!r}. Convert "
            "the column in all parts."
        )

    def _comes_back(self, name: Any, place: str) -> PermatchError:
        thing, column, before = self._thing, self._column, self._seen[name]
        is_same = before == place
        where = f"twice in {place}" if is_same else f"in {before} and again in {place}"
        others = {"query": "queries"}.get(thing, f"{thing}s")
        return self._error(
            f"data in parts must be sorted by {thing}: the rows of a {thing} one after the "
            f"other, also across parts; {thing} {name!r} occurs {where}, after other "
            f"{others}. Sort by the {thing} when you write the data, such as "
            f"df.sort_values({column}), or in Dask ddf.sort_values({column})."
        )


def whole_queries(parts: Iterable[Rows], n_rows: int) -> Iterator[Rows]:
    """Cut a stream of rows into blocks of whole queries, of about `n_rows` each.

    Where it is cut does not depend on the parts in which the rows arrive.
    """
    held: list[Rows] = []
    n_held = 0
    for part in parts:
        held.append(part)
        n_held += len(part)
        if n_held <= n_rows:
            continue
        whole = join_rows(held)
        starts, first = whole.starts, 0
        while (k := np.searchsorted(starts, first + n_rows)) < len(starts):
            yield whole[first : starts[k]]
            first = starts[k]
        held, n_held = [whole[first:].copied()], len(whole) - first
    if n_held:
        yield join_rows(held)
