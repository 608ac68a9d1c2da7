"""Judged lists in all the forms that people have them, turned into each other."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from permatch import errors
from permatch.datasets import (
    RankingData,
    group_sizes,
    iterate_letor,
    judged_tables,
    query_ids,
    read_judged,
    read_letor,
)
from permatch.datasets.judged import find_form
from permatch.datasets.judged_blocks import iterate_judged

NAMES = ["price", "age", "text match"]


@pytest.fixture(scope="module")
def data():
    """Twelve queries of 1 to 6 documents, mixed up."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 7, size=12)
    qid = np.repeat(rng.permutation(100)[:12], sizes)
    order = rng.permutation(len(qid))
    X = rng.normal(size=(len(qid), 3)).round(3)
    X[rng.random(X.shape) < 0.3] = 0.0
    X[:, 2] = 0.0
    names = np.array([f"d{k}" for k in range(len(qid))])
    return RankingData(X, rng.integers(0, 3, len(qid)), qid[order], names, None, NAMES)


def assert_same(found, expected, *, has_names=True):
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.qid, expected.qid)
    assert found.feature_names == (NAMES if has_names else None)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".pq"])
def test_tables_there_and_back(data, tmp_path, ending):
    path = tmp_path / f"lists{ending}"
    data.write(path)
    found = read_judged(path, document="docid", feature_names=NAMES)
    assert_same(found, data)
    np.testing.assert_array_equal(found.doc_ids, data.doc_ids)
    assert found.path == path
    assert repr(found).startswith(f"RankingData(n_documents={len(data.y)}, n_queries=12")
    assert read_judged(path).feature_names == NAMES  # ids are text, and left out


@pytest.mark.parametrize("form", ["letor", "lightgbm"])
def test_text_there_and_back(data, tmp_path, form):
    path = tmp_path / "lists.txt"
    data.write(path, form)
    expected = data.sorted()
    found = read_judged(path)
    np.testing.assert_array_equal(found.X, expected.X)  # with its empty last column
    np.testing.assert_array_equal(found.y, expected.y)
    np.testing.assert_array_equal(found.group, expected.group)
    if form == "letor":
        np.testing.assert_array_equal(found.doc_ids, expected.doc_ids)
        np.testing.assert_array_equal(found.qid, expected.qid)
        assert not (tmp_path / "lists.txt.query").exists()
    else:
        assert "qid" not in path.read_text()
        sizes = np.loadtxt(tmp_path / "lists.txt.query", dtype=int)
        np.testing.assert_array_equal(sizes, expected.group)
        np.testing.assert_array_equal(read_letor(path, group=sizes).qid, found.qid)
    assert_same(read_judged(path, feature_names=NAMES), found, has_names=True)


@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"]
)
def test_data_frames(data, kind):
    table = kind(data.to_columns())
    assert_same(read_judged(table), data)
    frame = data.to_pandas().rename(columns={"grade": "label", "qid": "query"})
    found = read_judged(frame, "label", "query", feature_names=["age"], document="docid")
    np.testing.assert_array_equal(found.X, data.X[:, 1:2])
    np.testing.assert_array_equal(found.qid, data.qid)
    np.testing.assert_array_equal(found.doc_ids, data.doc_ids)


def test_arrays(data):
    found = read_judged(data.X, data.y, data.qid, feature_names=NAMES)
    assert_same(found, data)
    inner = data.sorted()
    by_sizes = read_judged(sparse.csr_array(inner.X), inner.y, group=inner.group)
    np.testing.assert_array_equal(by_sizes.X.toarray(), inner.X)
    np.testing.assert_array_equal(by_sizes.group, inner.group)
    np.testing.assert_array_equal(query_ids(inner.group), by_sizes.qid)
    np.testing.assert_array_equal(group_sizes(inner.qid), inner.group)


def test_what_others_write_and_read(data, tmp_path):
    inner = data.sorted()
    path = tmp_path / "sklearn.txt"
    dump_svmlight_file(inner.X, inner.y, str(path), query_id=inner.qid)
    found = read_judged(path, zero_based=True, n_features=3)
    np.testing.assert_array_equal(found.X, inner.X)
    np.testing.assert_array_equal(found.qid, inner.qid)
    with pytest.raises(errors.LetorFileError, match="--zero-based"):
        read_judged(path)
    inner.write(path)
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    np.testing.assert_array_equal(X.toarray(), inner.X)
    np.testing.assert_array_equal(qid, inner.qid)
    np.testing.assert_array_equal(y, inner.y)
    lightgbm = pytest.importorskip("lightgbm")
    inner.write(path, "lightgbm")
    params = {"verbose": -1, "min_data_in_bin": 1, "min_data_in_leaf": 1}
    theirs = lightgbm.Dataset(str(path), params=params).construct()
    np.testing.assert_array_equal(theirs.get_group(), inner.group)
    np.testing.assert_array_equal(theirs.get_label(), inner.y)


TABLE = "qid;grade;a;note;b\n7;1;0.5;x;1\n\n9;0;2;y;2\n7;2;1.5;;3\n"


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        TABLE.replace(";", "\t"),
        TABLE.replace(";", ","),
        "\ufeff" + TABLE,
        TABLE.replace("\n", "\r\n"),
        "Unnamed: 0;" + TABLE.replace("\n7", "\n0;7").replace("\n9", "\n0;9"),
    ],
    ids=["semicolons", "tabs", "commas", "mark", "carriage returns", "row numbers"],
)
@pytest.mark.parametrize("is_packed", [False, True])
def test_ways_to_write_a_table(tmp_path, text, is_packed):
    path = tmp_path / "anything"
    content = text.encode()
    path.write_bytes(gzip.compress(content) if is_packed else content)
    found = read_judged(path)
    np.testing.assert_array_equal(found.X, [[0.5, 1], [2, 2], [1.5, 3]])
    assert found.qid.tolist() == [7, 9, 7]
    assert found.y.tolist() == [1, 0, 2]
    assert found.feature_names == ["a", "b"]
    assert found.n_queries == 2


def test_the_blocks_of_a_large_table(tmp_path, monkeypatch):
    monkeypatch.setattr("permatch.datasets.table_text.BLOCK_ROWS", 2)
    path = tmp_path / "lists.csv"
    path.write_text("qid,grade,a\n" + "".join(f"q{k % 3},1,{k}\n" for k in range(7)))
    found = read_judged(path)
    assert found.X[:, 0].tolist() == list(range(7))
    assert found.qid.tolist() == [f"q{k % 3}" for k in range(7)]
    monkeypatch.setattr(judged_tables, "_BATCH_VALUES", 2)
    found.write(tmp_path / "lists.parquet")
    np.testing.assert_array_equal(read_judged(tmp_path / "lists.parquet").X, found.X)


def test_side_files(tmp_path):
    path = tmp_path / "rank.train"
    path.write_text("1 1:0.5\n0 2:1\n2 1:3\n")
    with pytest.raises(errors.LetorFileError, match="line 1: .* same name and .query"):
        read_judged(path)
    side = tmp_path / "rank.train.query"
    side.write_text("2\n1\n")
    assert read_judged(path).qid.tolist() == [1, 1, 2]
    blocks = list(iterate_letor(path, 1, group=[2, 1], n_features=2))
    assert [block.qid.tolist() for block in blocks] == [[1, 1], [2]]
    packed = tmp_path / "rank.train.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_judged(packed).qid.tolist() == [1, 1, 2]
    elsewhere = tmp_path / "sizes.gz"
    elsewhere.write_bytes(gzip.compress(b"1 2"))
    assert read_judged(path, group=elsewhere).qid.tolist() == [1, 2, 2]
    assert read_judged(path, group=[3]).qid.tolist() == [1, 1, 1]
    side.write_text("2\n2\n")
    with pytest.raises(errors.LetorFileError, match="the 3 documents; 2 of them .* to 4"):
        read_judged(path)
    for text, got in (("2\nx\n", "x"), ("2\n0\n1\n", "0"), ("", "")):
        side.write_text(text)
        with pytest.raises(errors.LetorFileError, match=f"one per line; got '{got}'"):
            read_judged(path)
    named = tmp_path / "named.txt"
    named.write_text("1 qid:3 1:0.5\n")
    (tmp_path / "named.txt.query").write_text("8\n")  # lines that name queries need none
    assert read_judged(named).qid.tolist() == [3]
    with pytest.raises(errors.LetorFileError, match="once, by the lines or by the number"):
        read_judged(named, group=[1])
    table = tmp_path / "lists.csv"
    table.write_text("grade,a\n1,0.5\n0,1\n2,3\n")
    (tmp_path / "lists.csv.query").write_text("2\n1\n")
    assert read_judged(table).qid.tolist() == [0, 0, 1]
    with pytest.raises(errors.LetorFileError, match="the 3 documents; 1 of them .* to 2"):
        read_judged(table, group=[2])


def test_queries_that_come_back_in_text(tmp_path):
    path = tmp_path / "lists.txt"
    path.write_text("1 qid:7 1:1\n0 qid:9 1:2\n2 qid:7 1:3\n")
    data = read_judged(path)
    assert (data.n_queries, data.qid.tolist()) == (2, [7, 9, 7])
    assert data.sorted().X[:, 0].tolist() == [1, 3, 2]
    with pytest.raises(errors.LetorFileError, match="must be contiguous; query 7"):
        list(iterate_letor(path))
    with pytest.raises(errors.InvalidQueriesError, match="query 7 comes back in row 2"):
        _ = data.group


def refused(source, kind, message, *arguments, **options):
    with pytest.raises(kind, match=message):
        read_judged(source, *arguments, **options)


def test_bad_tables_are_refused_in_words(tmp_path):
    path = tmp_path / "lists.csv"

    def write(text):
        path.write_text(text)
        return path

    missing = r"must have the columns 'grade', 'query'; 'query' not found .* --qid, --doc"
    refused(write(TABLE), errors.TableError, missing, qid="query")
    refused(write(TABLE), errors.TableError, "'z' not found", feature_names=["z"])
    twice = write("qid,grade,a,a\n1,1,1,1\n")
    refused(twice, errors.TableError, "different names; got 'a' more than once")
    refused(write("qid,grade,a\n"), errors.TableError, "at least one document; it has a")
    refused(write("qid,grade,t\n1,1,x\n"), errors.TableError, "one column of numbers")
    text = "'a' is 'x' at line 3 .* Correct it, or name the features without it"
    refused(write("qid,grade,a\n1,1,1\n1,0,x\n"), errors.TableError, text)
    refused(
        write("qid,grade,a\n1,1,1\n1,0.5,1\n"),
        errors.GradeError,
        "lists.csv: grades must be whole numbers from 0 to 31; got 0.5 at row 1",
    )
    refused(
        write("qid,grade,a\n1,,1\n"), errors.GradeError, "lists.csv: .*got nan at row 0"
    )
    refused(
        write("qid,grade,a\n1,1,1\n,0,1\n"),
        errors.InvalidQueriesError,
        "'qid' is empty at line 3 of",
    )
    refused(write("qid,grade,a\n1,1\n"), errors.TableError, "as many cells as the header")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and nothing else")
    refused(broken, errors.TableError, "must be a complete Parquet file; pyarrow says")
    refused(write(""), errors.TableError, "it is empty")


def test_what_contradicts_itself_is_refused(tmp_path, data):
    path = tmp_path / "lists.txt"
    data.write(path)
    for option in ("y", "qid", "document"):
        message = f"says itself .* got {option}='x'. Leave it out"
        refused(path, errors.InvalidOptionError, message, **{option: "x"})
    frame = data.to_pandas()
    refused(frame, errors.InvalidQueriesError, "got both", qid="qid", group=[3])
    refused(frame, errors.InvalidQueriesError, "y must be the name of a column", data.y)
    refused(data.X, errors.InvalidQueriesError, "y='grade' names a column", "grade")
    refused(data.X, errors.InvalidQueriesError, "grades must be given", qid=data.qid)
    refused(data.X, errors.InvalidQueriesError, "got neither", data.y)
    refused(
        data.X, errors.InvalidOptionError, "3 different", data.y, data.qid,
        feature_names=["a"],
    )  # fmt: skip


def test_what_cannot_be_written(tmp_path, data):
    with pytest.raises(errors.InvalidOptionError, match="form must be one of 'letor'"):
        data.write(tmp_path / "lists.txt", "arff")
    blank = RankingData(data.X, data.y, np.char.add("a query ", data.qid.astype(str)))
    with pytest.raises(errors.InvalidQueriesError, match="words without blanks and #"):
        blank.write(tmp_path / "lists.txt")
    assert not list(tmp_path.iterdir())
    clash = RankingData(data.X, data.y, data.qid, feature_names=["a", "grade", "c"])
    with pytest.raises(errors.InvalidQueriesError, match="got 'grade'. Rename"):
        clash.to_pandas()
    assert RankingData(data.X, data.y, data.qid).to_pandas().columns.tolist() == [
        "qid", "grade", "f1", "f2", "f3",
    ]  # fmt: skip


def test_numbers_of_rows():
    assert query_ids([2, 3]).tolist() == [0, 0, 1, 1, 1]
    assert group_sizes(["b", "b", "a"]).tolist() == [2, 1]
    with pytest.raises(errors.InvalidQueriesError, match="at least 1; got"):
        query_ids([2, 0])
    with pytest.raises(errors.InvalidQueriesError, match=r"query b comes .* row 2. Sort"):
        group_sizes(["b", "a", "b"])


def test_ids_of_floats_are_whole_numbers_where_they_can_be():
    frame = pd.DataFrame({"qid": [1.0, 1.0, 2.0], "grade": [0, 1, 1], "a": [1, 2, 3.0]})
    assert read_judged(frame).qid.tolist() == [1, 1, 2]
    assert read_judged(frame.assign(qid=frame.qid + 0.5)).qid.tolist() == [
        "1.5", "1.5", "2.5",
    ]  # fmt: skip
    assert Path("x").name  # paths and text are both taken


# ---- in blocks of whole queries


def blocks_of(path, n_documents, **options):
    columns = judged_tables.JudgedColumns(**options)
    return list(iterate_judged(path, find_form(path), n_documents, columns))


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".txt", ".rank"])
@pytest.mark.parametrize("n_documents", [1, 7, 1000])
def test_blocks_are_the_file_in_whole_queries(
    data, tmp_path, monkeypatch, ending, n_documents
):
    monkeypatch.setattr("permatch.datasets.table_text.BLOCK_ROWS", 4)
    monkeypatch.setattr(judged_tables, "_BATCH_VALUES", 4 * 3)
    path, inner = tmp_path / f"lists{ending}", data.sorted()
    inner.write(path, "lightgbm" if ending == ".rank" else None)
    blocks = blocks_of(path, n_documents)
    whole = read_judged(path)
    np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), inner.X)
    for name in ("y", "qid"):
        parts = [getattr(block, name) for block in blocks]
        np.testing.assert_array_equal(np.concatenate(parts), getattr(whole, name))
    assert sum(block.n_queries for block in blocks) == 12
    assert (len(blocks) == 1) == (n_documents == 1000)


def test_queries_that_come_back_in_blocks(data, tmp_path, monkeypatch):
    path = tmp_path / "lists.csv"
    data.write(path)
    (whole,) = blocks_of(path, 1000, document="docid")  # of the first block: read whole
    assert_same(whole, data)
    np.testing.assert_array_equal(whole.doc_ids, data.doc_ids)
    monkeypatch.setattr("permatch.datasets.table_text.BLOCK_ROWS", 2)
    path.write_text("qid,grade,a\n1,0,1\n1,1,2\n2,1,3\n2,0,3\n3,0,4\n1,1,5\n")
    message = "query 1 comes back in row 5 .* after 3. Sort the table by query"
    with pytest.raises(errors.UnsortedQueriesError, match=message) as caught:
        blocks_of(path, 1)
    assert isinstance(caught.value, errors.TableError)


def test_blocks_of_a_table_with_a_side_file(tmp_path, monkeypatch):
    monkeypatch.setattr("permatch.datasets.table_text.BLOCK_ROWS", 2)
    path, side = tmp_path / "lists.csv", tmp_path / "lists.csv.query"
    path.write_text("grade,a\n" + "".join(f"1,{k}\n" for k in range(7)))
    side.write_text("2\n3\n2\n")
    blocks = blocks_of(path, 2)
    assert [block.qid.tolist() for block in blocks] == [[0, 0], [1, 1, 1], [2, 2]]
    side.write_text("2\n3\n")
    with pytest.raises(errors.LetorFileError, match="the 7 documents; 2 of them add up to"):
        blocks_of(path, 2)


def test_tables_that_are_read_as_text(tmp_path):
    path = tmp_path / "lists.csv"
    path.write_text("qid,grade,a\n1,1,2\n")
    with pytest.raises(errors.LetorFileError, match="got 'qid,grade,a'. Tables, CSV and P"):
        read_letor(path)
    path.write_bytes(b"PAR1\xff\xfe")
    with pytest.raises(
        errors.LetorFileError, match="are read by permatch.datasets.read_ju"
    ):
        read_letor(path)
