"""Judged lists: what is accepted, what is refused and with which words."""

import numpy as np
import pytest
from scipy import sparse

from permatch import errors
from permatch.queries import check_documents, check_grades, check_queries, query_rows

pd = pytest.importorskip("pandas")

X = np.arange(12.0).reshape(6, 2)
Y = [0, 1, 2, 0, 1, 0]
QID = [7, 7, 7, 3, 3, 3]


def test_rows_of_a_query_are_a_range():
    queries = check_queries(X, Y, QID)
    assert queries.starts.tolist() == [0, 3, 6]
    assert queries.ids.tolist() == [7, 3]
    assert queries.owners.tolist() == [0, 0, 0, 1, 1, 1]
    assert queries.lengths.tolist() == [3, 3]
    assert (queries.n_queries, queries.n_documents, queries.n_features) == (2, 6, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_documents_in_order_are_not_copied(dtype):
    documents = X.astype(dtype)
    assert np.shares_memory(check_queries(documents, Y, QID).documents, documents)


def test_group_sizes_say_the_same_as_ids():
    by_id = check_queries(X, Y, QID)
    for sizes in ([3, 3], np.array([3.0, 3.0])):  # as pandas has counts beside NaN
        by_size = check_queries(X, Y, group=sizes)
        np.testing.assert_array_equal(by_id.starts, by_size.starts)


def test_rows_apart_are_brought_together_in_the_order_of_first_rows():
    queries = check_queries(X, Y, ["b", "a", "b", "a", "c", "b"])
    assert queries.ids.tolist() == ["b", "a", "c"]
    np.testing.assert_array_equal(queries.documents, X[[0, 2, 5, 1, 3, 4]])
    assert queries.grades.tolist() == [0, 2, 0, 1, 0, 1]


def test_scatter_undoes_gather(rng):
    ids = rng.integers(5, size=50)
    rows = query_rows(ids, None, 50)
    values = rng.normal(size=50)
    np.testing.assert_array_equal(rows.scatter(rows.gather(values)), values)
    assert (np.diff(np.flatnonzero(np.diff(rows.gather(ids)))) > 0).all()
    assert len(rows.ids) == 5


def test_take_keeps_the_order_asked_for():
    taken = check_queries(X, Y, [1, 2, 2, 3, 3, 3]).take([2, 0])
    np.testing.assert_array_equal(taken.documents, X[[3, 4, 5, 0]])
    assert taken.starts.tolist() == [0, 3, 4]
    assert taken.ids.tolist() == [3, 1]


def test_data_frames_and_sparse_matrices_are_taken():
    frame = pd.DataFrame(X, columns=["a", "b"])
    whole = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    np.testing.assert_array_equal(check_queries(frame, pd.Series(Y), QID).documents, X)
    np.testing.assert_array_equal(check_documents(whole), [[1, 0.5], [2, 1.5]])
    found = check_queries(sparse.coo_matrix(X), Y, QID).documents
    np.testing.assert_array_equal(found.toarray(), X)
    assert check_queries(frame, frame[["a"]] * 0, frame[["a"]] * 0).n_queries == 1


NAN = np.where(X == 7, np.nan, X)
WRONG = {
    "neither": ((X, Y), errors.InvalidQueriesError, "got neither"),
    "both": ((X, Y, QID, [6]), errors.InvalidQueriesError, "got both"),
    "short qid": (
        (X, Y, [1, 2]),
        errors.InvalidQueriesError,
        r"shape \(6,\); got .*\(2,\)",
    ),
    "qid nan": (
        (X, Y, [1, 1, 1, np.nan, 1, 1]),
        errors.InvalidQueriesError,
        "row 3 is nan",
    ),
    "qid none": (
        (X, Y, np.array([1, 1, None, 1, 1, 1], dtype=object)),
        errors.InvalidQueriesError,
        "row 2 is None",
    ),
    "qid nat": (
        (X, Y, np.array(["2020-01-01"] * 5 + ["NaT"], dtype="datetime64[D]")),
        errors.InvalidQueriesError,
        "row 5 is NaT",
    ),
    "qid na": (
        (X, Y, pd.array([1, 1, 1, 1, None, 1])),
        errors.InvalidQueriesError,
        "row 4",
    ),
    "ragged": (
        ([[1.0], [1.0, 2.0]], Y, QID),
        errors.InvalidQueriesError,
        "must be an array",
    ),
    "ragged qid": (
        (X, Y, [[1], [1, 2]]),
        errors.InvalidQueriesError,
        "qid must be an array",
    ),
    "group sum": ((X, Y, None, [3, 2]), errors.InvalidQueriesError, "2 sizes .* up to 5"),
    "group zero": (
        (X, Y, None, [6, 0]),
        errors.InvalidQueriesError,
        "at least 1, adding up to 6 rows; got 0 at position 1",
    ),
    "group real": ((X, Y, None, [2.5, 3.5]), errors.InvalidQueriesError, "got 2.5 at pos"),
    "group missing": (
        (X, Y, None, [3.0, np.nan]),
        errors.InvalidQueriesError,
        "got nan at position 1",
    ),
    "group text": (
        (X, Y, None, ["3", "3"]),
        errors.InvalidQueriesError,
        r"got an array of dtype <U1 and shape \(2,\)",
    ),
    "short y": ((X, Y[:3], QID), errors.InvalidQueriesError, r"one grade per document"),
    "fraction": ((X, [0, 1, 0.5, 0, 0, 0], QID), errors.GradeError, "got 0.5 at row 2"),
    "negative": ((X, [0, 1, -1, 0, 0, 0], QID), errors.GradeError, "got -1 at row 2"),
    "huge": ((X, [0, 1, 99, 0, 0, 0], QID), errors.GradeError, "from 0 to 31; got 99"),
    "nan grade": ((X, [0, 1, np.nan, 0, 0, 0], QID), errors.GradeError, "got nan at row 2"),
    "text grade": ((X, list("abcdef"), QID), errors.GradeError, "whole numbers"),
    "nan": ((NAN, Y, QID), errors.NaNDocumentError, "nan at row 3, column 1. Fill"),
    "sparse nan": (
        (sparse.csr_array(NAN), Y, QID),
        errors.NaNDocumentError,
        "nan at row 3, column 1",
    ),
    "text": ((np.full((6, 2), "x"), Y, QID), errors.DocumentTypeError, "real numbers"),
    "complex": ((X * 1j, Y, QID), errors.DocumentTypeError, "complex128"),
    "one row": ((X[0], Y, QID), errors.InvalidQueriesError, r"X\[None\]"),
    "no rows": ((X[:0], [], []), errors.InvalidQueriesError, "at least one document"),
    "no features": ((X[:, :0], Y, QID), errors.InvalidQueriesError, "at least one feature"),
    "too few features": ((X, Y, QID, None, 3), errors.InvalidQueriesError, "3 features"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_refused_in_words(case):
    arguments, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        check_queries(*arguments)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32, object, str])
def test_grades_of_any_number_type_are_whole_numbers(dtype):
    assert check_grades(np.array([1, 0]).astype(dtype), 2).tolist() == [1, 0]
