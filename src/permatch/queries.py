"""Judged lists: documents with features, grades, and the query each belongs to.

Rows are sorted by query: query k has the rows ``starts[k]:starts[k + 1]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import (
    DocumentTypeError,
    GradeError,
    InvalidQueriesError,
    NaNDocumentError,
)

#: Gains are powers of two of the grade, so larger grades would dominate all others.
LARGEST_GRADE = 31

# How missing values that are not text print.
_MISSING = ("None", "nan", "NaT", "<NA>")

# Values looked at together in the search for NaN; bounds its memory.
_VALUES_PER_LOOK = 1 << 20


@dataclass(frozen=True, eq=False)
class QueryRows:
    """The rows of every query: query k has those from ``starts[k]`` to ``starts[k + 1]``.

    `ids` are in the order of first rows; `order` sorts the rows by query, None if they
    already are.
    """

    starts: IntArray
    ids: np.ndarray
    order: IntArray | None

    @cached_property
    def owners(self) -> IntArray:
        """The query of every sorted row, (n,)."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.starts))

    def best_first(self, scores: FloatArray) -> IntArray:
        """Return the sorted rows by query and decreasing score; ties keep their order."""
        return np.lexsort((-scores, self.owners))

    def gather(self, rows: Any) -> Any:
        """Return an array with one entry per row, sorted by query."""
        return rows if self.order is None else rows[self.order]

    def scatter(self, rows: np.ndarray) -> np.ndarray:
        """Return a sorted array with its entries in the original order."""
        if self.order is None:
            return rows
        back = np.empty_like(rows)
        back[self.order] = rows
        return back


@dataclass(frozen=True, eq=False)
class QuerySet:
    """Checked judged lists, n documents of q queries.

    `documents` (n, d) are float64, float32 or compressed sparse rows, `grades` (n,) are 0
    and up.  Query k has the rows ``starts[k]:starts[k + 1]``, an id and a weight.  Of data
    in shards this may be one; then `first` is the number of its first query in all data.
    `document_weights` (n,) are None where those of a query are equal, in memory or in a
    shard; otherwise the weight of a query is the largest of its relevant documents.
    """

    documents: Any
    grades: IntArray
    starts: IntArray
    ids: np.ndarray
    weights: FloatArray
    first: int = 0
    document_weights: FloatArray | None = None

    @property
    def n_documents(self) -> int:
        """Number of documents in all queries, n."""
        return len(self.grades)

    @property
    def n_features(self) -> int:
        """Number of features of a document, d."""
        return self.documents.shape[1]

    @property
    def n_queries(self) -> int:
        """Number of queries, q."""
        return len(self.ids)

    @property
    def lengths(self) -> IntArray:
        """Number of documents of every query, (q,)."""
        return np.diff(self.starts)

    @cached_property
    def owners(self) -> IntArray:
        """The query of every document, (n,)."""
        return np.repeat(np.arange(self.n_queries), self.lengths)

    def take(self, queries: Any) -> "QuerySet":
        """Return some of the queries, by position, in the order given."""
        chosen = np.asarray(queries, dtype=np.intp)
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)
        shifts = np.repeat(self.starts[chosen] - starts[:-1], lengths)
        rows = np.arange(starts[-1]) + shifts
        each = self.document_weights
        return QuerySet(
            self.documents[rows],
            self.grades[rows],
            starts,
            self.ids[chosen],
            self.weights[chosen],
            document_weights=None if each is None else each[rows],
        )

    def take_own(self, numbers: IntArray) -> "QuerySet":
        """Return those of the queries with some rising numbers in all data."""
        ends = np.searchsorted(numbers, [self.first, self.first + self.n_queries])
        taken = self.take(numbers[slice(*ends)] - self.first)
        return replace(taken, first=int(ends[0]))


def check_queries(
    X: Any,
    y: Any,
    qid: Any = None,
    group: Any = None,
    n_features: int | None = None,
    sample_weight: Any = None,
    names: Sequence[str] | None = None,
    owner: str = "the fitted model",
) -> QuerySet:
    """Check judged lists and sort their rows by query.

    Queries are given by `qid` or `group`, see `query_rows`; `n_features`, `names` and
    `owner` are those of `check_documents`.  `sample_weight` has the weight of every
    document.  `X` is not copied if it is float, contiguous and sorted by query.

    Examples
    --------
    >>> queries = check_queries([[1.0], [2.0], [3.0]], [0, 1, 0], qid=["a", "a", "b"])
    >>> queries.n_queries, queries.starts.tolist()
    (2, [0, 2, 3])
    """
    documents = check_documents(X, n_features, names=names, owner=owner)
    grades = check_grades(y, documents.shape[0])
    rows = query_rows(qid, group, documents.shape[0])
    grades = rows.gather(grades)
    return weighted_queries(rows.gather(documents), grades, rows, sample_weight)


def check_documents(
    X: Any,
    n_features: int | None = None,
    *,
    first_row: int = 0,
    names: Sequence[str] | None = None,
    owner: str = "the fitted model",
) -> Any:
    """Return features (n, d) as float64, float32 or sparse rows, finite, n >= 1.

    Messages count rows from `first_row`, where `X` is a part of a table, name columns, and
    say whose number of features is required.
    """
    documents: Any
    if sparse.issparse(X):
        documents = sparse.csr_array(X)
        if documents.dtype not in (np.float64, np.float32):
            documents = documents.astype(_real_type(documents.dtype))
        values = documents.data
    else:
        documents = _as_array(X, "documents")
        if documents.dtype not in (np.float64, np.float32):
            documents = _as_reals(documents)
        documents = np.ascontiguousarray(documents)
        values = documents
    if documents.ndim != 2:
        raise InvalidQueriesError(
            "documents must be an array of shape (n, d), one row of features per document; "
            f"got shape {documents.shape}."
            + (" For one document use X[None]." if documents.ndim == 1 else "")
        )
    if documents.shape[0] == 0 or documents.shape[1] == 0:
        raise InvalidQueriesError(
            "at least one document with at least one feature is required; got shape "
            f"{documents.shape}."
        )
    if n_features is not None and documents.shape[1] != n_features:
        raise InvalidQueriesError(
            f"documents must have the {n_features} features of {owner}; got "
            f"{documents.shape[1]}."
        )
    _check_finite(documents, values, first_row, names)
    return documents


def check_grades(y: Any, n_documents: int, *, first_row: int = 0) -> IntArray:
    """Return grades (n,) as whole numbers from 0 to `LARGEST_GRADE`."""
    grades = _as_column(y, "y", "grade", n_documents)
    required = f"grades must be whole numbers from 0 to {LARGEST_GRADE}"
    if grades.dtype.kind not in "iufb":
        try:
            grades = grades.astype(np.float64)
        except (TypeError, ValueError) as err:
            raise GradeError(f"{required}; got dtype {grades.dtype}.") from err
    with np.errstate(invalid="ignore"):
        whole = grades.astype(np.intp)
        is_wrong = ~((whole == grades) & (whole >= 0) & (whole <= LARGEST_GRADE))
    if is_wrong.any():
        first = int(np.argmax(is_wrong))
        raise GradeError(
            f"{required}; got {grades[first]} at row {first_row + first}. Map judgements "
            "to 0, 1, 2 ..., the best highest."
        )
    return whole


def query_rows(
    qid: Any, group: Any, n_documents: int, *, is_one_default: bool = False
) -> QueryRows:
    """Return the rows of every query, in the order of their first rows.

    `qid` has the query of every row; `group`, instead, the number of consecutive rows of
    each query.  Neither stands for one query if `is_one_default`.
    """
    if is_one_default and qid is None and group is None:
        group = [n_documents]
    if (qid is None) == (group is None):
        got = "neither" if qid is None else "both"
        raise InvalidQueriesError(
            "queries must be given either by qid, one id per row, or by group, the number "
            f"of rows of each query; got {got}. For a single query pass group=[len(X)]."
        )
    if group is not None:
        return _rows_of_groups(group, n_documents)
    ids = check_ids(qid, n_documents)
    is_new = np.append(True, ids[1:] != ids[:-1])
    first = np.flatnonzero(is_new)
    if len(np.unique(ids[first])) == len(first):
        return QueryRows(np.append(first, n_documents), ids[first], None)
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(first))  # of a query, by its first row
    order = np.argsort(ranks[codes], kind="stable")
    lengths = np.bincount(ranks[codes])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return QueryRows(starts, ids[np.sort(first)], order)


def check_ids(qid: Any, n_documents: int, *, first_row: int = 0) -> np.ndarray:
    """Return the query of every document, (n,)."""
    ids = _as_column(qid, "qid", "id", n_documents)
    is_missing = find_missing(ids)
    if is_missing.any():
        row = int(np.argmax(is_missing))
        raise InvalidQueriesError(
            f"query ids must not be missing; qid of row {first_row + row} is {ids[row]}. "
            "Drop such rows, or give them an id."
        )
    return ids.astype(str) if ids.dtype.kind == "O" else ids


def weighted_queries(
    documents: Any,
    grades: IntArray,
    rows: QueryRows,
    sample_weight: Any,
    first: int = 0,
    *,
    is_all: bool = True,
) -> QuerySet:
    """Return checked documents and grades, sorted by query, with their weights.

    `sample_weight` has one per document, in the order before sorting.  Unless these are
    all queries, all of them may have weight 0.
    """
    own = documents, grades, rows.starts, rows.ids
    if sample_weight is None:
        return QuerySet(*own, np.ones(len(rows.ids)), first)
    weights = rows.gather(_check_weights(sample_weight, len(grades)))
    if is_all and not weights.any():
        raise InvalidQueriesError(
            "sample_weight must be above 0 for at least one query; all are 0."
        )
    each = weights[rows.starts[:-1]]
    if (weights == each[rows.owners]).all():
        return QuerySet(*own, each, first)
    largest = np.zeros(len(rows.ids))
    np.maximum.at(largest, rows.owners, np.where(grades > 0, weights, 0.0))
    return QuerySet(*own, largest, first, weights)


def _check_weights(sample_weight: Any, n_documents: int) -> FloatArray:
    weights = _as_array(sample_weight, "sample_weight")
    required = "sample_weight must be finite numbers of at least 0, one per document"
    if weights.dtype.kind not in "iufb" or weights.shape != (n_documents,):
        raise InvalidQueriesError(
            f"{required}, shape ({n_documents},); got dtype {weights.dtype} and shape "
            f"{weights.shape}."
        )
    is_wrong = ~(np.isfinite(weights) & (weights >= 0))
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise InvalidQueriesError(f"{required}; got {weights[row]} at row {row}.")
    return weights.astype(np.float64)


def refuse_document_weights(queries: QuerySet, why: str) -> QuerySet:
    """Return queries whose documents have equal weights; `why` says what needs that."""
    each = queries.document_weights
    if each is None:
        return queries
    is_other = each != each[queries.starts[:-1]][queries.owners]
    owner = queries.owners[np.argmax(is_other)]
    raise InvalidQueriesError(
        f"sample_weight must be equal for all documents of a query {why}; query "
        f"{queries.ids[owner]} has several values. Use their mean; or, for weights of "
        "clicks, RankMatch on whole lists or pairs, which takes a weight per document."
    )


def check_sizes(group: Any, n_documents: int | None = None) -> IntArray:
    """Return numbers of rows of queries, each at least 1, adding up to all documents."""
    sizes = _as_array(group, "group")
    end = "" if n_documents is None else f", adding up to {n_documents} rows"
    required = f"group must be whole numbers of rows per query, at least 1{end}"
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf":
        raise InvalidQueriesError(
            f"{required}; got an array of dtype {sizes.dtype} and shape {sizes.shape}."
        )
    is_wrong = ~((sizes >= 1) & (sizes < np.inf) & (sizes == np.floor(sizes)))
    if is_wrong.any():
        first = int(np.argmax(is_wrong))
        raise InvalidQueriesError(f"{required}; got {sizes[first]} at position {first}.")
    sizes = sizes.astype(np.intp)
    if n_documents not in (None, sizes.sum()):
        raise InvalidQueriesError(
            f"{required}; got {len(sizes)} sizes that add up to {sizes.sum()}."
        )
    return sizes


def _rows_of_groups(group: Any, n_documents: int) -> QueryRows:
    sizes = check_sizes(group, n_documents)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    return QueryRows(starts, np.arange(len(sizes)), None)


def _as_array(values: Any, name: str) -> np.ndarray:
    refuse_masked(values, name, DocumentTypeError)
    try:
        return np.asarray(values)
    except ValueError as err:  # rows of different lengths
        raise InvalidQueriesError(
            f"{name} must be an array; it cannot be converted ({err})."
        ) from err


def _as_column(values: Any, name: str, what: str, n_documents: int) -> np.ndarray:
    """Return one value per document, also from a DataFrame with one column."""
    array = _as_array(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n_documents,):
        raise InvalidQueriesError(
            f"{name} must have one {what} per document, shape ({n_documents},); got shape "
            f"{array.shape}."
        )
    return array


def find_missing(ids: np.ndarray) -> BoolArray:
    """Return which ids are missing: NaN, NaT, None, or what pandas calls NA."""
    if ids.dtype.kind == "f":
        return np.isnan(ids)
    if ids.dtype.kind in "mM":
        return np.isnat(ids)
    if ids.dtype.kind == "O":
        return np.array([not isinstance(i, str) and str(i) in _MISSING for i in ids])
    return np.zeros(len(ids), dtype=bool)


def _real_type(dtype: np.dtype) -> type[np.float64]:
    if dtype.kind in "iufb":
        return np.float64
    raise DocumentTypeError(
        f"features must be real numbers; got an array of dtype {dtype}. Encode text and "
        "categories as numbers, and fill in missing values first; "
        "permatch.FeaturePreparation does both."
    )


def _as_reals(documents: np.ndarray) -> FloatArray:
    if documents.dtype.kind == "O":  # a DataFrame with columns of several types
        try:
            return documents.astype(np.float64)
        except (TypeError, ValueError):
            pass
    return documents.astype(_real_type(documents.dtype))


def _check_finite(
    documents: Any, values: np.ndarray, first_row: int, names: Sequence[str] | None
) -> None:
    flat = values.reshape(-1)
    for first in range(0, len(flat), _VALUES_PER_LOOK):
        is_finite = np.isfinite(flat[first : first + _VALUES_PER_LOOK])
        if not is_finite.all():
            place = first + int(np.argmin(is_finite))
            if sparse.issparse(documents):
                row = int(np.searchsorted(documents.indptr, place, side="right")) - 1
                column = int(documents.indices[place])
            else:
                row, column = divmod(place, documents.shape[1])
            called = column if names is None else repr(names[column])
            raise NaNDocumentError(
                f"features must be finite; got {flat[place]} at row {first_row + row}, "
                f"column {called}. Fill in missing values first, for "
                "instance by permatch.FeaturePreparation(missing='indicator')."
            )
