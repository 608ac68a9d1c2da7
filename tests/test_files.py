"""Reading stops: small files that unpack, or grow in memory, beyond all bounds."""

import csv
import gzip
import io
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import permatch as pm
from permatch import _files
from permatch.cli.main import app
from permatch.datasets import (
    iterate_letor,
    load_letor,
    read_edge_table,
    read_letor,
    read_scores,
)
from permatch.datasets.score_matrix import read_score_matrix
from permatch.errors import (
    InvalidGraphError,
    InvalidOptionError,
    LetorFileError,
    ModelFileError,
    TableError,
)

HEADER = "graph,left,right,x\n"
#: A reader, its error, a good file, and one line of it for ever.
READERS = {
    "table": (read_edge_table, TableError, HEADER, "g,a{0},b{0},0.5\n"),
    "letor": (read_letor, LetorFileError, "", "1 qid:1 1:0.5\n"),
    "letor in blocks": (
        lambda path, **options: list(iterate_letor(path, **options)),
        LetorFileError,
        "",
        "1 qid:1 1:0.5\n",
    ),
    "scores": (read_scores, LetorFileError, "", "0.5\n"),
}
RAISE = r"raise the limit with max_bytes \(on the command line --max-bytes\)\.$"


@pytest.fixture
def small(monkeypatch):
    """Limits that files of a test can exceed."""
    monkeypatch.setattr(_files, "MAX_LINE", 1 << 12)
    monkeypatch.setattr(_files, "MAX_FILE", 1 << 16)
    monkeypatch.setattr(_files, "MAX_WHOLE", 1 << 16)
    monkeypatch.setattr(_files, "MAX_ARRAYS", 1 << 16)
    monkeypatch.setattr(_files, "PIECE", 1 << 10)
    monkeypatch.setattr(_files, "_BUFFER", 1 << 10)


def packed(path, text):
    path.write_bytes(gzip.compress(text.encode()))
    return path


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("bomb", ["\n", "\r", " ", "a", "\r\n"])
def test_a_line_that_does_not_end(name, bomb, tmp_path, small):
    read, error, header, line = READERS[name]
    text = header + line.format(1) + bomb * 20_000 + line.format(2)
    path = packed(tmp_path / "bomb.gz", text)
    message = (
        rf"bomb\.gz, line \d+: a line, including blank lines before it, may have at most "
        rf"4 KiB; this one has more\. .*{RAISE}"
    )
    with pytest.raises(error, match=message):
        read(path)


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_does_not_end(name, tmp_path, small):
    read, error, header, line = READERS[name]
    path = packed(tmp_path / "bomb.gz", header + line.format(1) * 40_000)
    message = rf"bomb\.gz, line \d+: a file may .* 64 KiB, uncompressed; .*{RAISE}"
    if name == "table":
        path = packed(path, header + "".join(line.format(k) for k in range(6_000)))
    with pytest.raises(error, match=message):
        read(path)


@pytest.mark.parametrize("name", READERS)
def test_max_bytes_takes_the_place_of_all_limits(name, tmp_path, small):
    read, error, header, line = READERS[name]
    text = (
        header
        + "\n" * 20_000 * (name != "scores")
        + line.format(1) * (1 if name == "table" else 20_000)
    )
    path = packed(tmp_path / "long.gz", text)
    with pytest.raises(error, match="at most (4|64) KiB"):
        read(path)
    with pytest.raises(error, match="at most 100 bytes"):
        read(path, max_bytes=100)
    read(path, max_bytes=10**6)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "1"])
def test_bad_limits(bad, tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("1\n")
    with pytest.raises(InvalidOptionError, match="max_bytes must be a whole number"):
        read_scores(path, max_bytes=bad)


def test_newlines_without_end_at_the_limits_users_have(tmp_path):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(20):
            file.write(b"\n" * (1 << 20))
    for read, error, _, _ in READERS.values():
        with pytest.raises(error, match="may have at most 16 MiB; this one has more"):
            read(path)


def test_open_text_files_are_counted_too(small):
    with pytest.raises(TableError, match=r"the table, line 4098: a line.*at most 4 KiB"):
        read_edge_table(io.StringIO(HEADER + "\n" * 10_000))
    with pytest.raises(TableError, match=r"the table, line 2: a line.*at most 4 KiB"):
        read_edge_table(io.StringIO(HEADER + "a" * 10_000))


def test_a_file_that_is_no_file_ends_too(small):
    with pytest.raises(ModelFileError, match=f"/dev/zero, line 1: a file may.*{RAISE}"):
        pm.load("/dev/zero")
    with pytest.raises(InvalidGraphError, match=f"/dev/zero, line 1: a file may.*{RAISE}"):
        read_score_matrix("/dev/zero")


def test_model_files_have_a_limit(tmp_path):
    path = tmp_path / "model.json"
    graphs = np.random.default_rng(0).normal(size=(4, 3, 3, 2))
    pm.MAPMatching().fit(graphs, [[0, 1, 2]] * 4).save(path)
    with pytest.raises(ModelFileError, match=rf"at most 100 bytes.*{RAISE}"):
        pm.load(path, max_bytes=100)
    assert pm.load(path, max_bytes=10**6).n_features_in_ == 2


def test_score_files_of_blank_lines(tmp_path, small):
    path = tmp_path / "scores.csv"
    path.write_text("1,2\n" + "\n" * 10_000 + "3,4\n")
    with pytest.raises(InvalidGraphError, match=r"a line, including blank.*at most 4 KiB"):
        read_score_matrix(str(path))


def test_commands_take_the_limit(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("1,2\n3,4\n")
    runner = CliRunner()
    found = runner.invoke(app, ["infer", str(path), "--max-bytes", "5"])
    assert found.exit_code == 1
    assert re.search("error: .*at most 5 bytes.*--max-bytes", found.stderr)
    assert runner.invoke(app, ["infer", str(path), "--max-bytes", "8"]).exit_code == 0
    assert runner.invoke(app, ["infer", str(path), "--max-bytes", "0"]).exit_code == 2
    table = tmp_path / "edges.csv"
    table.write_text(HEADER + "g,a,b,0.5\n")
    command = ["match", "fit", str(table), "-m", str(tmp_path / "m.json")]
    found = runner.invoke(app, [*command, "--max-bytes", "5"])
    assert re.search("error: .*edges.csv, line 1:.*at most 5 bytes", found.stderr)
    command = ["rank", "fit", "-", "-m", str(tmp_path / "m.json"), "--max-bytes", "5"]
    found = runner.invoke(app, command, input="1 qid:1 1:0.5\n")
    assert re.search("error: standard input, line 1:.*at most 5 bytes", found.stderr)


def test_max_bytes_raises_the_limit_of_a_csv_field(tmp_path):
    long = "x" * 140_000
    message = rf"at most 131072 characters, and this one has more\. Close its.*{RAISE}"
    table = tmp_path / "edges.csv"
    for text in (HEADER + f"g,a,{long},0.5\n", f'graph,left,right,x,"{long}"\ng,a,b,1,2\n'):
        table.write_text(text)
        with pytest.raises(TableError, match=message):
            read_edge_table(table)
    table.write_text(HEADER + f"g,a,{long},0.5\n")
    for source in (table, io.StringIO(table.read_text())):
        assert read_edge_table(source, max_bytes=10**6).graphs[0].size == 1
    assert csv.field_size_limit() == 131072  # as it was, for all others
    assert read_edge_table(table, max_bytes=10**30).graphs[0].size == 1

    scores = tmp_path / "scores.csv"
    scores.write_text(f",{long}\na,1\n")
    with pytest.raises(InvalidGraphError, match=message):
        read_score_matrix(str(scores))
    command = ["infer", str(scores), "--max-bytes", "1000000"]
    assert CliRunner().invoke(app, command).exit_code == 0


# ---- arrays ------------------------------------------------------------------------------


def column_table(n_left, n_right):
    rows = [f"g,a{i},b{j},0.5\n" for i in range(n_left) for j in range(n_right)]
    return io.StringIO(HEADER + "".join(rows))


def test_graphs_take_no_more_memory_than_their_rows(small):
    """As squares they would take 5 GB."""
    table = read_edge_table(column_table(12_000, 1), max_bytes=10**6)
    assert table.graphs[0].edge_features.nbytes == 12_000 * 8
    rows = "".join(f"g,a{k},b{k},0.5\n" for k in range(12_000))
    table = read_edge_table(io.StringIO(HEADER + rows), max_bytes=10**6)
    assert table.graphs[0].n_edges == 12_000


def test_sparse_files_that_are_huge_when_dense(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("0 qid:1 1:1\n" * 500 + "1 qid:1 1000000:1\n")
    message = (
        r"train\.txt: the data may take at most 1 GiB of memory; 501 documents of "
        rf"1000000 features \(501 values in the file\) take 3\.733 GiB\. .*{RAISE}"
    )
    with pytest.raises(LetorFileError, match=message):
        read_letor(path)
    with pytest.raises(LetorFileError, match="may take at most 1 GiB"):
        list(iterate_letor(path))


def test_folds_are_widened_within_limits(tmp_path, small):
    for name, last in (("train", 1), ("vali", 1), ("test", 400)):
        lines = "0 qid:1 1:1\n" * 30 + f"1 qid:1 {last}:1\n"
        lines = lines if last == 1 else f"1 qid:1 {last}:1\n"
        (tmp_path / f"{name}.txt").write_text(lines)
    with pytest.raises(LetorFileError, match=r"train\.txt: the data may take"):
        load_letor(tmp_path)
    assert load_letor(tmp_path, max_bytes=10**6).n_features == 400


def test_parquet_that_unpacks_to_more_than_there_is(tmp_path, small):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = arrow.array(np.zeros(10_000_000, dtype=np.int8))
    path = tmp_path / "bomb.parquet"
    parquet.write_table(
        arrow.table({name: column for name in ("graph", "left", "right", "x")}), path
    )
    with pytest.raises(TableError, match=r"its 10000000 rows of 4 columns take 305\.2 MiB"):
        read_edge_table(path)


# ---- ends of lines -----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 22])
def test_lines_end_as_on_any_system(end, piece, tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "PIECE", piece)
    path = tmp_path / "file.txt"
    lines = ["1 qid:7 1:0.5 #docid = a", "0 qid:7 2:4", "2 qid:9 1:3", ""]
    path.write_bytes(end.join(lines).encode())
    data = read_letor(path)
    assert data.qid.tolist() == [7, 7, 9]
    assert data.X.tolist() == [[0.5, 0.0], [0.0, 4.0], [3.0, 0.0]]
    assert data.doc_ids.tolist() == ["a", "", ""]
    path.write_bytes(f"1 qid:7 1:0.5{end}0 qid:7 2:oops{end}".encode())
    with pytest.raises(LetorFileError, match=r"file\.txt, line 2: .*'oops'"):
        read_letor(path)
    path.write_bytes(f"0.5{end}-1{end}2 {end}".encode())
    assert read_scores(path).tolist() == [0.5, -1.0, 2.0]
    path.write_bytes(f"0.5{end}{end}-1{end}".encode())
    with pytest.raises(LetorFileError, match=r"file\.txt, line 2: .*one finite number"):
        read_scores(path)
    path.write_bytes(f"graph,left,right,x{end}g,a,b,0.5{end}".encode())
    assert read_edge_table(path).graphs[0].features.tolist() == [[[0.5]]]
    path.write_bytes(f"graph,left,right,x{end}g,a,b,oops{end}g,a,c,1{end}".encode())
    with pytest.raises(TableError, match=r"'oops' at line 2 of"):
        read_edge_table(path)
    path.write_bytes(f"1,2{end}3,4{end}".encode())
    assert read_score_matrix(str(path)).scores.tolist() == [[1.0, 2.0], [3.0, 4.0]]
