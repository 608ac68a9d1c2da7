"""Edge tables: every source gives the same graphs, every fault its own message."""

import csv
import gzip
import io
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permatch import MAPMatching
from permatch.datasets import (
    EdgeTable,
    arrow_sources,
    edge_table_from_matches,
    read_edge_table,
    table_text,
    write_matches,
)
from permatch.errors import (
    FeatureCountError,
    InvalidMatchingError,
    InvalidOptionError,
    MissingDependencyError,
    NaNFeatureError,
    PermatchError,
    TableError,
)
from permatch.labels import check_known

HEADER = "graph,left,right,label,distance,overlap"
SMALL = f"""{HEADER}
g1,a,p,0,0.5,1
g1,a,q,1,0.25,2
g1,b,p,1,0.125,3
g1,b,q,0,1e-3,4
g2,z,z,1,-7,5
"""


@pytest.fixture
def write(tmp_path):
    """Write text or bytes to a file and return its path."""

    def write(content, name="edges.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def long_columns(rng, sizes, n_features, *, with_labels=True):
    """Columns of random graphs with ids of text, in order of graph, left, right."""
    columns = {"graph": [], "left": [], "right": [], "label": []}
    columns |= {f"x{k}": [] for k in range(n_features)}
    for g, size in enumerate(sizes):
        matching = rng.permutation(size)
        for i in range(size):
            for j in range(size):
                columns["graph"].append(f"g{g}")
                columns["left"].append(f"a{i}")
                columns["right"].append(f"b{j}")
                columns["label"].append(int(matching[i] == j))
                for k in range(n_features):
                    columns[f"x{k}"].append(float(rng.normal()))
    if not with_labels:
        del columns["label"]
    return columns


def as_csv(columns, delimiter=","):
    rows = zip(*columns.values(), strict=True)
    lines = [columns, *([str(cell) for cell in row] for row in rows)]
    return "".join(delimiter.join(line) + "\n" for line in lines)


def assert_same(found: EdgeTable, expected: EdgeTable):
    assert found.graph_ids == expected.graph_ids
    assert found.left_ids == expected.left_ids
    assert found.right_ids == expected.right_ids
    assert found.feature_names == expected.feature_names
    for a, b in zip(found.graphs, expected.graphs, strict=True):
        assert (a.n_left, a.n_right) == (b.n_left, b.n_right)
        np.testing.assert_array_equal(a.structure.starts, b.structure.starts)
        np.testing.assert_array_equal(a.structure.right, b.structure.right)
        np.testing.assert_array_equal(a.edge_features, b.edge_features)
    if expected.matchings is None:
        assert found.matchings is None
    else:
        for a, b in zip(found.matchings, expected.matchings, strict=True):
            # What is known of edges, where some labels are empty.
            assert type(a) is type(b)
            np.testing.assert_array_equal(getattr(a, "values", a), getattr(b, "values", b))


# ---- what is read ------------------------------------------------------------------------


def test_a_small_file(write):
    table = read_edge_table(write(SMALL))
    assert table.graph_ids == ["g1", "g2"]
    assert table.left_ids == [["a", "b"], ["z"]]
    assert table.right_ids == [["p", "q"], ["z"]]
    assert table.feature_names == ["distance", "overlap"]
    assert [m.tolist() for m in table.matchings] == [[1, 0], [0]]
    np.testing.assert_array_equal(
        table.graphs[0].features, [[[0.5, 1], [0.25, 2]], [[0.125, 3], [1e-3, 4]]]
    )
    np.testing.assert_array_equal(table.graphs[1].features, [[[-7, 5]]])
    assert all(graph.allowed is None for graph in table.graphs)
    assert table.ignored == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", SMALL),
        ("e.csv", "\ufeff" + SMALL),
        ("e.csv", SMALL.replace("\n", "\r\n") + "\r\n\r\n"),
        ("e.csv", "\n\n" + SMALL.replace("g2", "\n  \ng2").rstrip()),
        ("e.txt", SMALL.replace(",", "\t")),
        ("e.csv", SMALL.replace(",", ";")),
        ("e.csv", SMALL.replace(",", " , ")),
        ("e.csv", SMALL.replace("a,", '"a",').replace("0.5", '"0.5"')),
        ("e.tsv", SMALL.replace(",", "\t")),
        ("e.tsv.gz", gzip.compress(SMALL.replace(",", "\t").encode(), mtime=0)),
        ("e.csv.gz", gzip.compress(SMALL.encode(), mtime=0)),
        ("e.csv", gzip.compress(SMALL.encode(), mtime=0)),
        ("e.csv", SMALL.replace(",0,0.5", ",false,0.5").replace(",1,0.25", ",TRUE,0.25")),
        ("e.csv", SMALL.replace(",1,0.125", ",1.0,0.125")),
    ],
)
def test_every_way_to_write_it(write, name, content):
    assert_same(read_edge_table(write(content, name)), read_edge_table(write(SMALL)))


def test_an_open_text_file_and_a_path_as_text(write):
    expected = read_edge_table(write(SMALL))
    assert_same(read_edge_table(io.StringIO(SMALL)), expected)
    assert_same(read_edge_table(str(write(SMALL))), expected)


def test_a_mapping_of_columns_keeps_the_ids_as_they_are():
    columns = {
        "graph": [1, 1, 1, 1],
        "left": np.array([7, 7, 8, 8]),
        "right": ["p", "q", "p", "q"],
        "label": [False, True, True, False],
        "x": np.arange(4, dtype=np.float32),
    }
    table = read_edge_table(columns)
    assert table.graph_ids == [1]
    assert table.left_ids == [[7, 8]]
    assert table.right_ids == [["p", "q"]]
    assert table.matchings[0].tolist() == [1, 0]
    assert table.graphs[0].features.dtype == np.float64


def test_own_column_names_and_a_choice_of_features(write):
    text = SMALL.replace(HEADER, "query,u,v,is_match,distance,overlap")
    table = read_edge_table(
        write(text), graph="query", left="u", right="v", label="is_match",
        features=["overlap"],
    )  # fmt: skip
    assert table.feature_names == ["overlap"]
    assert table.id_columns == ("query", "u", "v")
    assert table.graphs[0].features.shape == (2, 2, 1)
    both = read_edge_table(write(SMALL), features=("overlap", "distance"))
    assert both.feature_names == ["overlap", "distance"]
    assert both.graphs[1].features.tolist() == [[[5.0, -7.0]]]
    assert read_edge_table(write(SMALL), features="overlap").feature_names == ["overlap"]


def test_remarks_and_row_numbers_are_left_out(write):
    header, *lines = SMALL.split()
    text = f",note,{header},Unnamed: 0,is_new\n" + "".join(
        f"{k},{'' if k else 'see mail'},{line},{k},{k % 2 == 0}\n"
        for k, line in enumerate(lines)
    )
    table = read_edge_table(write(text))
    assert table.feature_names == ["distance", "overlap", "is_new"]
    assert list(table.ignored) == ["(no name)", "note", "Unnamed: 0"]
    assert table.graphs[1].features[0, 0].tolist() == [-7.0, 5.0, 1.0]


def test_labels_are_optional_required_or_ignored(write):
    bare = "\n".join(
        ",".join(cell for k, cell in enumerate(line.split(",")) if k != 3)
        for line in SMALL.split()
    )
    assert read_edge_table(write(bare)).matchings is None
    empty = SMALL.replace(",0,", ",,").replace(",1,", ",,")
    assert read_edge_table(write(empty)).matchings is None
    with pytest.raises(TableError, match="1 or 0 in a column 'label'; it is missing"):
        read_edge_table(write(bare), labels="required")
    with pytest.raises(TableError, match="all its cells are empty"):
        read_edge_table(write(empty), labels="required")
    nonsense = SMALL.replace(",1,0.25", ",perhaps,0.25")
    ignored = read_edge_table(write(nonsense), labels="ignored")
    assert ignored.matchings is None
    assert ignored.feature_names == ["distance", "overlap"]


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_the_order_of_rows_changes_only_the_order_of_names(sizes, n_features, seed):
    rng = np.random.default_rng(seed)
    columns = long_columns(rng, sizes, n_features)
    straight = read_edge_table(columns)
    order = rng.permutation(len(columns["graph"]))
    shuffled = read_edge_table({k: [v[r] for r in order] for k, v in columns.items()})
    assert sorted(shuffled.graph_ids) == sorted(straight.graph_ids)
    for g, name in enumerate(straight.graph_ids):
        h = shuffled.graph_ids.index(name)
        rows = [shuffled.left_ids[h].index(node) for node in straight.left_ids[g]]
        cols = [shuffled.right_ids[h].index(node) for node in straight.right_ids[g]]
        np.testing.assert_array_equal(
            shuffled.graphs[h].features[np.ix_(rows, cols)], straight.graphs[g].features
        )
        np.testing.assert_array_equal(
            np.array(cols)[straight.matchings[g]], shuffled.matchings[h][rows]
        )


def test_names_come_in_order_of_first_appearance():
    text = "graph,left,right,x\nB,2,9,1\nA,1,1,2\nB,1,8,3\nB,2,8,4\nB,1,9,5\n"
    table = read_edge_table(io.StringIO(text))
    assert table.graph_ids == ["B", "A"]
    assert table.left_ids == [["2", "1"], ["1"]]
    assert table.right_ids == [["9", "8"], ["1"]]
    assert table.graphs[0].features[:, :, 0].tolist() == [[1, 4], [5, 3]]


def test_files_of_many_blocks(write, rng, monkeypatch):
    columns = long_columns(rng, [3, 1, 4, 2, 5], 2)
    columns["note"] = ["text"] * len(columns["graph"])
    expected = read_edge_table(columns)
    path = write(as_csv(columns))
    for n_rows in (1, 2, 7, 55, 1000):
        monkeypatch.setattr(table_text, "BLOCK_ROWS", n_rows)
        assert_same(read_edge_table(path), expected)
    monkeypatch.setattr(table_text, "BLOCK_ROWS", 3)
    lines = as_csv(columns).splitlines()
    lines[11] = ",".join([*lines[11].split(",")[:-2], "oops", "text"])
    path = write("\n".join(lines))
    with pytest.raises(TableError, match="'x1' is 'oops' at line 12 "):
        read_edge_table(path)


def test_sorted_tables_are_not_copied(rng):
    table = read_edge_table(long_columns(rng, [3, 2], 2))
    first, second = (graph.features for graph in table.graphs)
    assert first.base is not None
    assert first.base is second.base


def test_numbers_survive_exactly(write, rng):
    columns = long_columns(rng, [4], 3)
    columns["x0"][0] = 5e-324
    columns["x1"][0] = -1.7976931348623157e308
    assert_same(read_edge_table(write(as_csv(columns))), read_edge_table(columns))


# ---- optional packages -------------------------------------------------------------------


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


@pytest.fixture
def pyarrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def test_data_frame(pandas, rng):
    columns = long_columns(rng, [3, 2, 4], 3)
    frame = pandas.DataFrame(columns)
    expected = read_edge_table(columns)
    assert_same(read_edge_table(frame), expected)
    typed = frame.astype({"graph": "category", "left": "string", "label": "boolean"})
    assert_same(read_edge_table(typed), expected)
    indexed = frame.set_index(["graph", "left", "right"])
    assert_same(read_edge_table(indexed.reset_index()), expected)
    with pytest.raises(TableError, match="reset_index"):
        read_edge_table(indexed)


def test_data_frame_and_the_csv_it_writes(pandas, rng, tmp_path):
    frame = pandas.DataFrame(long_columns(rng, [3, 2], 2))
    frame["is_new"] = rng.random(len(frame)) < 0.5
    frame["day"] = pandas.Timestamp("2024-05-01")
    frame["note"] = "text"
    expected = read_edge_table(frame)
    assert expected.feature_names == ["x0", "x1", "is_new"]
    assert list(expected.ignored) == ["day", "note"]
    for name in ("edges.csv", "edges.csv.gz"):
        frame.to_csv(tmp_path / name)
        assert_same(read_edge_table(tmp_path / name), expected)


def test_data_frame_faults(pandas, rng):
    frame = pandas.DataFrame(long_columns(rng, [3], 2))
    holes = frame.astype({"x1": "Float64"})
    holes.loc[4, "x1"] = pandas.NA
    with pytest.raises(NaNFeatureError, match=r"'x1' is missing .* row 4 \(counted from 0"):
        read_edge_table(holes)
    nameless = frame.astype({"left": object})
    nameless.loc[2, "left"] = None
    with pytest.raises(TableError, match=r"'left'; the cell is empty at row 2"):
        read_edge_table(nameless)
    frame["x0"] = frame["x0"].astype(object)
    frame.loc[7, "x0"] = "abc"
    with pytest.raises(TableError, match="'x0' is 'abc' at row 7"):
        read_edge_table(frame)


def test_dates_as_ids(pandas):
    days = pandas.to_datetime(["2024-05-01", "2024-05-02"])
    table = read_edge_table(
        pandas.DataFrame({"graph": days, "left": 0, "right": 0, "x": [1.0, 2.0]})
    )
    assert [day[:10] for day in table.graph_ids] == ["2024-05-01", "2024-05-02"]


def test_parquet(pyarrow, rng, tmp_path):
    from pyarrow import parquet

    columns = long_columns(rng, [3, 2, 4], 3)
    arrow = pyarrow.table(columns)
    expected = read_edge_table(columns)
    assert_same(read_edge_table(arrow), expected)
    for name in ("edges.parquet", "edges.pq", "edges.dat"):
        parquet.write_table(arrow, tmp_path / name, row_group_size=5)
        assert_same(read_edge_table(tmp_path / name), expected)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_large_text_is_read_by_arrow(
    pyarrow, rng, write, monkeypatch, delimiter, is_packed
):
    columns = long_columns(rng, [3, 2, 4, 5], 3)
    n_rows = len(columns["graph"])
    columns["left"] = [f' {name}, "senior" ' for name in columns["left"]]
    columns["is_new"] = ["True" if k % 3 else "false" for k in range(n_rows)]
    columns["note"] = ["see mail"] * n_rows
    columns["x0"][:4] = [5e-324, -1.7976931348623157e308, 1 / 3, 12345678901234567890.0]
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    content = ("\ufeff" + text.getvalue()).encode()
    path = write(gzip.compress(content) if is_packed else content)
    expected = read_edge_table(path)
    assert expected.left_ids[0] == [f'a{k}, "senior"' for k in range(3)]
    assert expected.feature_names == ["x0", "x1", "x2", "is_new"]
    used = []
    quick = arrow_sources.read_large_text
    monkeypatch.setattr(arrow_sources, "LARGE", 0)
    monkeypatch.setattr(arrow_sources, "_BLOCK_BYTES", 500)
    monkeypatch.setattr(
        "permatch.datasets.table_sources.read_large_text",
        lambda *given: used.append(quick(*given)) or used[-1],
    )
    found = read_edge_table(path)
    assert used[-1] is not None
    assert_same(found, expected)
    assert found.ignored == expected.ignored


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (",0.5,", ",0_5,"),
        ("\ng2", "\n\ng2"),
        ("a,q", '"a\n",q'),
        (",1,0.25", ",true,0.25"),
        ("g2,z,z,1,-7,5\n", "g2,z,z,1,-7,5\n  \n"),
    ],
)
def test_what_arrow_does_not_read_alike_is_left_to_csv(
    pyarrow, write, monkeypatch, old, new
):
    path = write(SMALL.replace(old, new, 1))
    expected = read_edge_table(path)
    monkeypatch.setattr(arrow_sources, "LARGE", 0)
    assert_same(read_edge_table(path), expected)
    bad = write(SMALL.replace(old, new, 1) + "g3,a,,0,1,2\n")
    line = bad.read_text().count("\n")
    with pytest.raises(TableError, match=f"'right'; the cell is empty at line {line} "):
        read_edge_table(bad)


def test_a_table_without_a_graph_column_is_one_graph(write):
    text = "left,right,label,x\na,p,0,1\na,q,1,2\nb,p,1,3\nb,q,0,4\n"
    table = read_edge_table(write(text))
    assert table.graph_ids == [None]
    assert table.id_columns == ("left", "right")
    assert table.left_ids == [["a", "b"]]
    out = io.StringIO()
    write_matches(out, table, table.matchings)
    assert out.getvalue() == "left,right\na,q\nb,p\n"
    with pytest.raises(TableError, match="'graph' not found in 'left', 'right'"):
        read_edge_table(write(text), graph="graph")
    with pytest.raises(TableError, match=r"pair \('a', 'p'\) has two, at line 2 "):
        read_edge_table(write(text + "a,p,0,1\n"))


@pytest.mark.parametrize("blank", ["nan", "NaN", "<NA>", "NaT", ""])
def test_ids_that_are_missing_are_refused(write, blank):
    path = write(SMALL.replace("g1,b,p", f"g1,{blank},p"))
    found = blank.replace("nan", "NaN") or "empty"
    with pytest.raises(TableError, match=f"'left'; the cell is {found} at line 4 "):
        read_edge_table(path)


def test_parquet_from_a_data_frame(pandas, pyarrow, rng, tmp_path):
    frame = pandas.DataFrame(long_columns(rng, [3, 2], 2)).astype({"graph": "category"})
    shuffled = frame.sample(frac=1.0, random_state=0)  # its index becomes a column
    shuffled.to_parquet(tmp_path / "edges.parquet")
    table = read_edge_table(tmp_path / "edges.parquet")
    assert_same(table, read_edge_table(shuffled))
    assert table.feature_names == ["x0", "x1"]


def test_parquet_faults(pyarrow, rng, tmp_path):
    from pyarrow import parquet

    columns = long_columns(rng, [3], 1)
    columns["x0"][5] = None
    path = tmp_path / "edges.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(NaNFeatureError, match=r"'x0' is missing for pair \('a1', 'b2'\)"):
        read_edge_table(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(TableError, match="must be a complete Parquet file"):
        read_edge_table(path)
    path.write_text(SMALL)
    with pytest.raises(TableError, match="rename it if it is text"):
        read_edge_table(path)


def test_parquet_without_pyarrow_names_the_extra(write, monkeypatch):
    monkeypatch.setattr("permatch._optional.find_spec", lambda package: None)
    with pytest.raises(MissingDependencyError, match=r"\.\[tables\]"):
        read_edge_table(write(b"PAR1", "edges.parquet"))


def test_csv_loads_no_optional_package(write):
    code = (
        "import sys; from permatch.datasets import read_edge_table; "
        f"read_edge_table({str(write(SMALL))!r}); "
        "sys.exit(bool({'pandas', 'pyarrow', 'sklearn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- faults ------------------------------------------------------------------------------


def rows(*lines):
    return "\n".join([HEADER, *lines, ""])


ONE = "g,a,p,1,0,0"


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("", TableError, "is empty"),
        ("\n \n", TableError, "is empty"),
        (HEADER, TableError, "at least one pair"),
        ("graph,left,label,x\n", TableError, "'right' not found in 'graph', 'left'"),
        ("a b c\n1 2 3\n", TableError, "'left', 'right' not found in 'a b c'"),
        ("graph,left,right,x,x\ng,a,p,1,1\n", TableError, "'x' more than once"),
        ("graph,left,right,label\ng,a,p,1\n", TableError, "at least one feature"),
        ("graph,left,right,n\ng,a,p,hi\n", TableError, r"none \('n' left out\)"),
        (rows("g,a,p,1,0"), TableError, "header, 6; line 2 of .* has 5"),
        (rows(ONE, "h,a,p,1,0,0,0"), TableError, "line 3 of .* has 7"),
        (rows(ONE, '"h,a,p'), TableError, "line 3: unexpected end of data"),
        (rows(",a,p,1,0,0"), TableError, "'graph'; the cell is empty at line 2"),
        (rows(ONE, "", "h,a, ,1,0,0"), TableError, "'right'; the cell is empty at line 4"),
        (rows(ONE, "h,a,p,1,,0"), NaNFeatureError, r"'distance' is missing .* line 3 of"),
        (rows("g,a,p,1,0,nan"), NaNFeatureError, r"pair \('a', 'p'\) of graph 'g', line 2"),
        (rows("g,a,p,1,0,-inf"), NaNFeatureError, "'overlap' is -inf"),
        (rows("g,a,p,1,0,1e999"), NaNFeatureError, "'overlap' is inf"),
        (rows(ONE, "h,a,p,1,0,1.2x"), TableError, "'overlap' is '1.2x' at line 3"),
        (rows(ONE, "h,a,p,1,0,-"), TableError, "features must be numbers"),
        (
            rows(ONE, ONE),
            TableError,
            r"\('a', 'p'\) of graph 'g' has two, at line 2 of .* and line 3",
        ),
        (rows("g,a,p,2,0,0"), TableError, "'label' is 2 at line 2"),
        (rows("g,a,p,yes,0,0"), TableError, "'label' is 'yes' at line 2"),
        (
            rows("g,a,p,1,0,0", "g,a,q,1,0,0", "g,b,p,0,0,0", "g,b,q,0,0,0"),
            TableError,
            "at most one .*; left id 'a' of graph 'g' has 2, at line 2 of .* and line 3",
        ),
        (
            rows("g,a,p,1,0,0", "g,a,q,0,0,0", "g,b,p,1,0,0", "g,b,q,0,0,0"),
            TableError,
            "right id 'p' of graph 'g' has 2, at line 2 of .* and line 4",
        ),
        (b"\xff\xfe\x00\x01", TableError, "must be UTF-8 text"),
        (b"graph,left\x00", TableError, "not found|NUL"),
        (gzip.compress(SMALL.encode(), mtime=0)[:-12], TableError, "truncated or damaged"),
        (b"\x1f\x8bnonsense", TableError, "truncated or damaged"),
    ],
)
def test_faulty_files(write, content, error, message):
    path = write(content)
    with pytest.raises(error, match=message) as caught:
        read_edge_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "a path, an open text file, a data frame or a mapping"),
        (io.StringIO("graph,\rleft\n"), "its first line"),
        ({}, "not found in"),
        ({"graph": [], "left": [], "right": [], "x": []}, "at least one pair"),
        ({"graph": [1], "left": [1], "right": [1], "x": [1, 2]}, "lists of equal length"),
        ({"graph": [1], "left": [1], "right": [1], "x": [[1, 2]]}, "lists of equal length"),
        ({"graph": [1], "left": [[1]], "right": [1], "x": [1]}, "lists of equal length"),
        ({"graph": [1], "left": [1], "right": [1], "x": [1j]}, r"none \('x' left out\)"),
        ({"graph": [1], "left": np.array([None]), "right": [1], "x": [1]}, "cell is empty"),
        ({"graph": [1], "left": [np.nan], "right": [1], "x": [1]}, "cell is NaN"),
        (
            {
                "graph": [1],
                "left": np.array([{}], dtype=object),
                "right": [1],
                "x": [1],
            },
            "ids must be text or numbers",
        ),
    ],
)
def test_faulty_objects(source, message):
    with pytest.raises(TableError, match=message):
        read_edge_table(source)


def test_masked_cells_are_empty_cells():
    column = np.ma.masked_array([5.0], mask=[True])
    with pytest.raises(NaNFeatureError, match="missing"):
        read_edge_table({"graph": [1], "left": [1], "right": [1], "x": column})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"left": "graph", "graph": "graph"}, TableError, "'graph' was given two"),
        ({"features": ["label"]}, TableError, "'label' was given two"),
        ({"features": ["overlap", "overlap"]}, TableError, "'overlap' was given two"),
        ({"features": ["height"]}, TableError, "'height' not found in"),
        ({"features": []}, TableError, "at least one feature"),
        ({"labels": "some"}, InvalidOptionError, "labels must be one of 'optional'"),
    ],
)
def test_faulty_options(write, options, error, message):
    with pytest.raises(error, match=message):
        read_edge_table(write(SMALL), **options)


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(OSError, match=str(path)):
            read_edge_table(path)


@given(
    st.integers(0, len(SMALL)),
    st.integers(0, 12),
    st.text(alphabet='g1ab,;\t"\n\r0.-e \0nxé', max_size=6),
)
def test_mangled_text_is_read_or_refused(start, n_dropped, inserted):
    text = SMALL[:start] + inserted + SMALL[start + n_dropped :]
    try:
        table = read_edge_table(io.StringIO(text))
    except PermatchError:
        return
    assert table.graphs


@given(
    st.integers(0, len(SMALL)),
    st.integers(0, 12),
    st.text(alphabet='g1ab,;\t"\n\r0.-e nx_é', max_size=6),
)
def test_mangled_text_is_read_alike_by_both_readers(start, n_dropped, inserted):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    text = SMALL[:start] + inserted + SMALL[start + n_dropped :]
    answers = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "edges.csv")
        path.write_bytes(text.encode())
        for large in (1 << 40, 0):
            patch.setattr(arrow_sources, "LARGE", large)
            try:
                answers.append(read_edge_table(path))
            except PermatchError as err:
                answers.append(str(err))
    if isinstance(answers[0], str):
        # A quoted cell must end at a delimiter: only Python's csv is so strict.
        assert answers[1] == answers[0] or '"' in text
    else:
        assert_same(answers[1], answers[0])


# ---- edges that are not listed -----------------------------------------------------------


def test_a_pair_without_a_row_is_forbidden(write):
    text = "\n".join(line for line in SMALL.split() if not line.startswith("g1,a,p"))
    table = read_edge_table(write(text))
    # The first row names q, so q is right node 0.
    assert table.right_ids[0] == ["q", "p"]
    np.testing.assert_array_equal(table.graphs[0].allowed, [[True, False], [True, True]])
    assert table.graphs[0].edge_features.tolist() == [
        [0.25, 2.0],
        [1e-3, 4.0],
        [0.125, 3.0],
    ]
    assert table.graphs[1].allowed is None
    assert table.matchings[0].tolist() == [0, 1]


def test_nodes_without_a_labelled_partner_are_unmatched():
    text = "left,right,label,x\n" + "".join(
        f"{pair[0]},{pair[1]},{label},0\n"
        for pair, label in [("ap", 0), ("aq", 0), ("bq", 1), ("cr", 0), ("br", 0)]
    )
    table = read_edge_table(io.StringIO(text))
    assert table.left_ids == [["a", "b", "c"]]
    assert table.matchings[0].tolist() == [-1, 1, -1]
    (known,) = check_known(table.graphs, table.matchings)
    assert known.is_complete


def test_an_empty_label_is_unknown():
    text = "graph,left,right,label,x\n" + "".join(
        f"{graph},{pair[0]},{pair[1]},{label},0\n"
        for graph, pair, label in [
            ("g", "ap", 1), ("g", "bq", ""), ("g", "br", 0), ("g", "cp", ""),
            ("h", "ap", 0), ("h", "aq", 1),
        ]
    )  # fmt: skip
    table = read_edge_table(io.StringIO(text))
    first, second = table.matchings
    assert first.values.tolist() == [1, -1, 0, -1]
    assert second.tolist() == [1]
    known = check_known(table.graphs, table.matchings)[0]
    assert known.matching.tolist() == [0, -2, -1]  # p is taken, so c has no partner
    model = MAPMatching(engine="frontier").fit(table.graphs, table.matchings)
    assert np.isfinite(model.log_likelihood(table.graphs, table.matchings))


def test_labels_without_a_match_teach_nothing(write):
    text = SMALL.replace(",1,", ",0,")
    assert (read_edge_table(write(text)).matchings[0] == -1).all()
    with pytest.raises(TableError, match="1 in the column 'label'; all its cells are 0 or"):
        read_edge_table(write(text), labels="required")


def test_a_large_sparse_graph_stays_sparse(rng):
    """As a square it would take 80 GB."""
    n = 100_000
    left = np.repeat(np.arange(n), 3)
    right = (left + np.tile([0, 1, 7], n)) % n
    labels = np.tile([1, 0, 0], n)
    labels[3 * np.arange(0, n, 10)] = 0
    table = read_edge_table(
        {"left": left, "right": right, "label": labels, "x": rng.normal(size=3 * n)}
    )
    (graph,) = table.graphs
    assert (graph.n_left, graph.n_right, graph.n_edges) == (n, n, 3 * n)
    assert (table.matchings[0] == -1).sum() == n // 10
    ids = np.array(table.right_ids[0])
    matched = table.matchings[0] >= 0
    np.testing.assert_array_equal(ids[table.matchings[0][matched]], np.flatnonzero(matched))


def test_rows_in_any_order_make_the_same_edges(rng):
    """Against a dictionary of the rows."""
    pairs = [(g, i, j) for g in range(5) for i in range(6) for j in range(4)]
    pairs = [pairs[k] for k in rng.permutation(len(pairs))[:60]]
    x = rng.normal(size=60)
    columns = {
        "graph": [f"g{g}" for g, _, _ in pairs],
        "left": [f"a{i}" for _, i, _ in pairs],
        "right": [f"b{j}" for _, _, j in pairs],
        "x": x,
    }
    table = read_edge_table(columns)
    found = {}
    for g, graph in enumerate(table.graphs):
        ends = graph.structure.left, graph.structure.right, graph.edge_features[:, 0]
        for i, j, value in zip(*ends, strict=True):
            key = table.graph_ids[g], table.left_ids[g][i], table.right_ids[g][j]
            found[key] = value
    keys = zip(columns["graph"], columns["left"], columns["right"], strict=True)
    assert found == dict(zip(keys, x, strict=True))


# ---- features in a model's order ---------------------------------------------------------


def test_features_are_arranged_by_name(write):
    table = read_edge_table(write(SMALL))
    assert table.arrange_features(["distance", "overlap"]) is table
    turned = table.arrange_features(["overlap", "distance"])
    assert turned.feature_names == ["overlap", "distance"]
    np.testing.assert_array_equal(
        turned.graphs[0].features, table.graphs[0].features[:, :, ::-1]
    )
    assert turned.left_ids == table.left_ids
    assert not turned.graphs[0].edge_features.flags.writeable


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["distance"], "also has 'overlap'"),
        (["distance", "overlap", "age"], "has no 'age'"),
        (["distance", "age"], "has no 'age' and also has 'overlap'"),
    ],
)
def test_missing_and_extra_features_are_named(write, names, message):
    with pytest.raises(FeatureCountError, match=message):
        read_edge_table(write(SMALL)).arrange_features(names)


def test_a_feature_that_became_text_is_named(write):
    header, *lines = SMALL.split()
    table = read_edge_table(
        write("\n".join([f"{header},note", *(f"{line},high" for line in lines)]))
    )
    with pytest.raises(FeatureCountError, match="holds only text in 'note'"):
        table.arrange_features(["distance", "overlap", "note"])


# ---- matches -----------------------------------------------------------------------------


def test_write_matches(write, tmp_path):
    table = read_edge_table(write(SMALL))
    path = tmp_path / "matches.csv"
    write_matches(path, table, table.matchings)
    assert path.read_text() == "graph,left,right\ng1,a,q\ng1,b,p\ng2,z,z\n"
    chances = [np.array([0.1, 0.9, 0.9, 0.1]), np.ones(1)]
    write_matches(path, table, table.matchings, chances)
    assert path.read_text().splitlines() == [
        "graph,left,right,probability",
        "g1,a,q,0.9",
        "g1,b,p,0.9",
        "g2,z,z,1.0",
    ]
    write_matches(tmp_path / "m.tsv", table, table.matchings, chances, all_edges=True)
    assert (tmp_path / "m.tsv").read_text().splitlines()[:3] == [
        "graph\tleft\tright\tprobability\tmatch",
        "g1\ta\tp\t0.1\t0",
        "g1\ta\tq\t0.9\t1",
    ]
    out = io.StringIO()
    write_matches(out, table, table.matchings)
    assert out.getvalue().startswith("graph,left,right\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "edges.csv",
        "m.tsv",
        "matches.csv",
    ]


def test_all_edges_written_can_be_read_again(rng, tmp_path):
    table = read_edge_table(long_columns(rng, [3, 4, 1], 2))
    chances = [rng.random(graph.n_edges) for graph in table.graphs]
    write_matches(
        tmp_path / "m.csv", table, table.matchings, chances, all_edges=True, links_only=True
    )
    again = read_edge_table(tmp_path / "m.csv", label="match")
    assert again.graph_ids == table.graph_ids
    assert again.left_ids == table.left_ids
    for a, b in zip(again.matchings, table.matchings, strict=True):
        np.testing.assert_array_equal(a, b)
    for graph, chance in zip(again.graphs, chances, strict=True):
        np.testing.assert_array_equal(graph.edge_features[:, 0], chance)


def test_forbidden_edges_are_not_listed():
    text = "graph,left,right,x\ng,a,p,0\ng,a,q,0\ng,b,q,0\n"
    table = read_edge_table(io.StringIO(text))
    columns = edge_table_from_matches(table, [[0, 1]], all_edges=True, links_only=True)
    assert columns["left"] == ["a", "a", "b"]
    assert columns["match"] == [1, 0, 1]
    with pytest.raises(InvalidMatchingError, match="forbidden"):
        edge_table_from_matches(table, [[1, 0]])


def test_nothing_half_written(write, tmp_path):
    table = read_edge_table(write(SMALL))
    path = tmp_path / "matches.csv"
    path.write_text("old")
    for matchings, chances in (
        ([[0, 0], [0]], None),
        ([[0, 1]], None),
        (table.matchings, [np.ones(1)] * 2),
        (table.matchings, [np.ones(4)]),
    ):
        with pytest.raises((InvalidMatchingError, TableError)):
            write_matches(path, table, matchings, chances)
    with pytest.raises(OSError, match="absent"):
        write_matches(tmp_path / "absent" / "m.csv", table, table.matchings)
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "matches.csv"]


def test_an_interrupted_write_leaves_the_old_file(write, tmp_path, monkeypatch):
    table = read_edge_table(write(SMALL))
    path = tmp_path / "matches.csv"
    path.write_text("old")

    def interrupt(file, columns, delimiter):
        file.write("graph,")
        raise KeyboardInterrupt

    monkeypatch.setattr("permatch.datasets.matches._write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_matches(path, table, table.matchings)
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "matches.csv"]


@pytest.mark.skipif(os.name == "nt", reason="needs links and devices")
def test_links_and_devices_stay_what_they_are(write, tmp_path):
    table = read_edge_table(write(SMALL))
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    link.symlink_to(target)
    write_matches(link, table, table.matchings)
    assert link.is_symlink()
    assert target.read_text().startswith("graph,")
    write_matches(os.devnull, table, table.matchings)
    assert not os.path.isfile(os.devnull)


def test_id_columns_must_not_clash_with_the_answers():
    table = read_edge_table({"match": [1], "l": [1], "r": [1], "x": [1]}, graph="match",
                            left="l", right="r")  # fmt: skip
    with pytest.raises(TableError, match="Rename the id columns"):
        edge_table_from_matches(table, [[0]], all_edges=True)


# ---- nodes without a partner


def test_unmatched_nodes_are_listed_after_the_links():
    text = "left,right,x\na,p,0\na,q,0\nb,q,0\nc,r,0\n"
    table = read_edge_table(io.StringIO(text))
    chances = [np.array([0.25, 0.5, 0.25, 0.0])]
    columns = edge_table_from_matches(table, [[1, -1, -1]], chances)
    assert list(zip(*columns.values(), strict=True)) == [
        ("a", "q", 0.5), ("b", None, 0.75), ("c", None, 1.0),
        (None, "p", 0.75), (None, "r", 1.0),
    ]  # fmt: skip
    columns = edge_table_from_matches(table, [[1, -1, -1]], chances, links_only=True)
    assert columns == {"left": ["a"], "right": ["q"], "probability": [0.5]}
    columns = edge_table_from_matches(table, [[1, -1, -1]], chances, all_edges=True)
    assert len(columns["left"]) == 4 + 3 + 3
    assert sum(columns["match"]) == 5
    # Every node's probabilities sum to one.
    for side in ("left", "right"):
        sums = {}
        for name, p in zip(columns[side], columns["probability"], strict=True):
            sums[name] = sums.get(name, 0.0) + p
        del sums[None]
        assert set(sums.values()) == {1.0}


def test_nodes_left_to_a_person_are_marked():
    text = "left,right,x\na,p,0\na,q,0\nb,q,0\nc,r,0\n"
    table = read_edge_table(io.StringIO(text))
    columns = edge_table_from_matches(table, [[0, -2, -1]])
    assert list(zip(*columns.values(), strict=True)) == [
        ("a", "p", "link"), ("b", None, "review"), ("c", None, "unmatched"),
        (None, "q", "review"), (None, "r", "unmatched"),
    ]  # fmt: skip


def lopsided(n_left, n_right, pairs, rng):
    """Return the columns of one graph, and its features."""
    features = rng.normal(size=(n_left, n_right))
    edges = [(i, j) for i in range(n_left) for j in range(n_right)]
    return {
        "graph": ["g"] * len(edges),
        "left": [f"a{i}" for i, _ in edges],
        "right": [f"b{j}" for _, j in edges],
        "label": [int(edge in pairs) for edge in edges],
        "x": [features[edge] for edge in edges],
    }, features


@pytest.mark.parametrize("shape", [(2, 4), (4, 2), (1, 3)])
def test_models_of_unequal_sides_against_the_definition(shape, rng):
    """Matchings of the smaller side into the larger, all listed."""
    n_left, n_right = shape
    few, many = sorted(shape)
    columns, features = lopsided(*shape, [(k, k) for k in range(few)], rng)
    table = read_edge_table(columns)
    weights = {}
    for chosen in itertools.permutations(range(many), few):
        pairs = [(j, i) if n_left > n_right else (i, j) for i, j in enumerate(chosen)]
        weights[tuple(sorted(pairs))] = np.exp(sum(features[pair] for pair in pairs))
    model = MAPMatching(engine="frontier").fit(table.graphs, table.matchings)
    assert model.unmatched_ == "larger"
    model.coef_ = np.ones(1)
    total = sum(weights.values())
    truth = tuple((k, k) for k in range(few))
    likelihood = model.log_likelihood(table.graphs, table.matchings)
    assert likelihood == pytest.approx(np.log(weights[truth] / total))
    (marginals,) = model.predict_marginals(table.graphs)
    expected = np.zeros(shape)
    for pairs, weight in weights.items():
        for pair in pairs:
            expected[pair] += weight / total
    np.testing.assert_allclose(marginals, expected.ravel(), atol=1e-12)


def test_what_is_added_to_a_feature_changes_nothing(rng):
    columns, _ = lopsided(3, 5, [(0, 0), (1, 1), (2, 2)], rng)
    moved = columns | {"x": [x + 2000.0 for x in columns["x"]]}
    fits = [
        MAPMatching(alpha=0.1, engine="frontier").fit(table.graphs, table.matchings)
        for table in (read_edge_table(columns), read_edge_table(moved))
    ]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-6)
    np.testing.assert_allclose(fits[0].scale_, fits[1].scale_, rtol=1e-9)


def test_a_table_says_how_much_it_holds(rng):
    columns, _ = lopsided(2, 2, [(0, 0), (1, 1)], rng)
    assert repr(read_edge_table(columns)) == (
        "<EdgeTable: 1 graphs with labels, features 'x'>"
    )


def test_components_are_graphs_of_the_same_distribution(rng):
    columns = {"graph": [], "left": [], "right": [], "label": [], "x": []}
    for g in range(3):
        for i, j in np.argwhere(rng.random((6, 6)) < 0.2):
            row = g, f"a{i}", f"b{j}", ["0", "1", ""][int(rng.integers(3))], rng.normal()
            for name, cell in zip(columns, row, strict=True):
                columns[name].append(cell)
    columns["label"] = ["0" if label == "1" else label for label in columns["label"]]
    columns["label"][0] = "1"
    whole = read_edge_table(columns)
    parts = whole.split_components()
    assert len(parts.graphs) > len(whole.graphs)
    model = MAPMatching(engine="frontier", alpha=0.1).fit(whole.graphs, whole.matchings)
    sums = [
        len(table.graphs) * model.log_likelihood(table.graphs, table.matchings)
        for table in (whole, parts)
    ]
    assert sums[0] == pytest.approx(sums[1])

    def chances(table):
        found = []
        for g, own in enumerate(model.predict_marginals(table.graphs)):
            ends = table.graphs[g].structure
            for i, j, p in zip(ends.left, ends.right, own, strict=True):
                found.append((table.left_ids[g][i], table.right_ids[g][j], round(p, 12)))
        return sorted(found)

    assert chances(whole) == chances(parts)


def test_some_of_the_graphs():
    columns = {
        "graph": ["x", "x", "y", "z"],
        "left": ["a", "b", "c", "d"],
        "right": ["p", "q", "r", "s"],
        "label": [1, 0, 1, 0],
        "age": [1.0, 2.0, 3.0, 4.0],
    }
    table = read_edge_table(columns).take(np.array([2, 0]))
    assert table.graph_ids == ["z", "x"]
    assert table.left_ids == [["d"], ["a", "b"]]
    assert table.right_ids == [["s"], ["p", "q"]]
    assert [matching.tolist() for matching in table.matchings] == [[-1], [0, -1]]
    assert table.graphs[0].edge_features.tolist() == [[4.0]]
    del columns["label"]
    assert read_edge_table(columns).take([1]).matchings is None
