"""``show`` of ``permatch match``, ``link`` and ``rank``, and how to get them wrong."""

import csv
import io
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from permatch.cli.main import app
from permatch.estimators import DORM, MAPMatching, MaxMarginMatching, RankMatch

OK, FAILURE, WRONG_USAGE = 0, 1, 2
GRAPHS = ("monday", "tuesday", "a/b <c>", "g4", "g5", "g6", "g7")


def call(*args, **options):
    """Run a command in this process."""
    return CliRunner().invoke(app, [*map(str, args)], **options)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of edges with a model for it, and judged lists with two models."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    with open(folder / "edges.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["graph", "left", "right", "label", "distance", "overlap"])
        for name in GRAPHS:
            for i in range(4):
                for j in range(4):
                    numbers = rng.normal(size=2).round(3)
                    writer.writerow([name, f"a{i}", f"b{j}", int(i == j), *numbers])
    graphs = rng.normal(size=(5, 4, 4, 2))
    truth = [np.arange(4)] * 5
    names = ["overlap", "distance"]
    MAPMatching(alpha=1.0).fit(graphs, truth, feature_names=names).save(folder / "m.json")
    margin = MaxMarginMatching(alpha=1.0).fit(graphs, truth, feature_names=names)
    margin.save(folder / "margin.json")
    lines = [
        f"{rng.integers(3)} qid:{query} 1:{rng.normal():.3f} 2:{rng.normal():.3f}"
        f"{' # docid = D' + str(query) if query == 11 else ''}\n"
        for query in range(10, 17)
        for _ in range(5)
    ]
    (folder / "lists.txt").write_text("".join(lines))
    (folder / "one.txt").write_text("".join(lines[:5]))
    X, y, qid = rng.normal(size=(40, 2)), rng.integers(3, size=40), np.arange(40) // 8
    RankMatch(alpha=1.0).fit(X, y, qid=qid).save(folder / "r.json")
    DORM(alpha=1.0).fit(X, y, qid=qid).save(folder / "dorm.json")
    return folder


# ---- pages


@pytest.mark.parametrize("model", ["m", "margin"])
def test_match_show_writes_a_page(files, tmp_path, model):
    out = tmp_path / "page.html"
    table = files / "edges.csv"
    result = call(
        "match", "show", files / f"{model}.json", table, "-g", "a/b <c>", "-o", out, "-k", 3
    )
    assert result.exit_code == OK, result.output
    assert result.stderr == ""
    assert " ".join(result.stdout.split()) == (
        f"wrote {out}: graph a/b <c>, 4 x 4 nodes, exact probabilities. Open it in a "
        "browser."
    )
    html = out.read_text(encoding="utf-8")
    assert "<h1>Matchings of graph a/b &lt;c&gt;</h1>" in html
    assert "label errors" in html
    assert html.count('"changes": [[') == 1  # of the one component, in two of three ways
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_the_only_graph_needs_no_name_and_no_labels(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = list(csv.DictReader(io.StringIO((files / "edges.csv").read_text())))
    lines = ["graph,left,right,distance,overlap"]
    lines += [
        f"g,{row['left']},{row['right']},{row['distance']},{row['overlap']}"
        for row in rows
        if row["graph"] == "monday"
    ]
    result = call("match", "show", files / "m.json", "-", input="\n".join(lines))
    assert result.exit_code == OK, result.output
    html = (tmp_path / "match.html").read_text(encoding="utf-8")
    assert "<h1>Matchings of graph g</h1>" in html
    assert "label errors" not in html


def test_all_graphs_are_in_one_list(files, tmp_path):
    out = tmp_path / "page.html"
    result = call("match", "show", files / "m.json", files / "edges.csv", "-o", out)
    assert result.exit_code == OK, result.output
    assert " ".join(result.stdout.split()) == (
        f"wrote {out}: 7 graphs, 28 x 28 nodes in 7 components, exact probabilities. "
        "Open it in a browser."
    )
    html = out.read_text(encoding="utf-8")
    assert "<h1>Matchings of 7 graphs</h1>" in html
    (text,) = re.findall(r'"graphs": (\[.*?\])', html)
    assert sorted(json.loads(text)) == sorted(GRAPHS)


def test_link_show_writes_a_page(tmp_path):
    table, out = tmp_path / "pairs.csv", tmp_path / "page.html"
    table.write_text("id_a,id_b,p\na,x,0.8\na,y,0.3\nb,y,0.6\nc,z,0.5\n")
    names = ("--left", "id_a", "--right", "id_b", "--probability", "p")
    result = call("link", "show", table, *names, "-o", out)
    assert result.exit_code == OK, result.output
    assert " ".join(result.stdout.split()) == (
        f"wrote {out}: 3 x 3 records in 2 components, exact probabilities. Open it in a "
        "browser."
    )
    html = out.read_text(encoding="utf-8")
    assert "<h1>Links of pairs.csv</h1>" in html
    assert "3 left and 3 right records, 4 candidate pairs" in html
    result = call("link", "show", table, *names, "-o", out, "--node", "z")
    assert "1 x 1 records in 1 of 2 components" in result.stdout
    refused(
        call("link", "show", table, *names, "-o", out, "--node", "q"),
        WRONG_USAGE,
        "the table has no record 'q'; there are a, b, c, x, y and 1 more.",
    )
    result = call("link", "show", table, *names, "-o", table)
    assert "would overwrite an input" in result.stderr


def test_link_show_with_a_model_has_its_features(files, tmp_path):
    table, model, out = tmp_path / "p.csv", tmp_path / "m.json", tmp_path / "page.html"
    lines = (files / "edges.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines if line.startswith(("graph", "monday"))]
    table.write_text("\n".join(",".join(cells[1:]) for cells in rows))
    options = ("--alpha", 1, "--unmatched", "any")
    assert call("match", "fit", table, "-m", model, *options).exit_code == OK
    result = call("link", "show", table, "--model", model, "-o", out)
    assert result.exit_code == OK, result.output
    html = out.read_text(encoding="utf-8")
    assert '"features": ["distance", "overlap", "against no partner' in html
    result = call("link", "show", "-", "--model", model, "-o", out, input=table.read_text())
    assert result.exit_code == OK, result.output
    assert '"features": ["log-odds of the pair by itself"' in out.read_text("utf-8")
    result = call("link", "show", table, "--model", model, "-o", model)
    assert "would overwrite an input" in result.stderr


def test_rank_show_writes_a_page(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("rank", "show", files / "r.json", files / "lists.txt", "--query", 12)
    assert result.exit_code == OK, result.output
    assert result.stdout == (
        "wrote rank.html: query 12, 5 documents, exact probabilities. Open it in a "
        "browser.\n"
    )
    html = (tmp_path / "rank.html").read_text(encoding="utf-8")
    # Documents without a name have their number in the file.
    names = re.findall(r'data-document="\d"[^>]*><span class="clip"><bdi>(\d+)', html)
    assert sorted(names) == ["11", "12", "13", "14", "15"]
    result = call("rank", "show", files / "dorm.json", files / "one.txt", "-o", "d.html")
    assert "query 10, 5 documents, scores only." in result.stdout


def test_a_list_may_come_from_standard_input(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (files / "lists.txt").read_text()
    result = call("rank", "show", files / "r.json", "-", "-q", "11", input=text)
    assert result.exit_code == OK, result.output
    assert "D11" in (tmp_path / "rank.html").read_text(encoding="utf-8")


# ---- what goes wrong


def refused(result, code, words):
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("error: ")
    assert words in result.stderr


def test_unknown_graphs_are_refused_in_one_line(files, tmp_path):
    command = ("match", "show", files / "m.json", files / "edges.csv")
    more = ("--out", tmp_path / "page.html")
    refused(
        call(*command, "-g", "mondya", *more),
        WRONG_USAGE,
        "has no graph 'mondya'; did you mean monday?",
    )
    refused(
        call(*command, "-g", "xyz", *more),
        WRONG_USAGE,
        "has no graph 'xyz'; there are monday, tuesday, a/b <c>, g4, g5 and 2 more.",
    )
    refused(
        call(*command, "-g", "monday", "-n", "a9", *more),
        WRONG_USAGE,
        "the table has no node 'a9'; there are a0, a1, a2, a3, b0 and 3 more.",
    )
    assert not list(tmp_path.iterdir())


def test_unknown_queries_are_refused_in_one_line(files, tmp_path):
    command = ("rank", "show", files / "r.json", files / "lists.txt")
    more = ("--out", tmp_path / "page.html")
    refused(
        call(*command, "-q", "999", *more),
        WRONG_USAGE,
        "has no query '999'; there are 10, 11, 12, 13, 14 and 2 more.",
    )
    refused(call(*command, *more), WRONG_USAGE, "--query ID is required; there are 10, 11,")
    assert not list(tmp_path.iterdir())


def test_other_faults_are_one_line_too(files, tmp_path):
    out = tmp_path / "page.html"
    edges, lists = files / "edges.csv", files / "lists.txt"
    refused(
        call("match", "show", files / "r.json", edges, "-g", "monday", "-o", out),
        FAILURE,
        "must be a matcher",
    )
    refused(
        call("rank", "show", files / "m.json", lists, "-q", "10", "-o", out),
        FAILURE,
        "must be a ranker",
    )
    refused(
        call("match", "show", files / "none.json", edges, "-g", "monday", "-o", out),
        FAILURE,
        "none.json",
    )
    refused(
        call("rank", "show", files / "r.json", lists, "-q", "10", "-o", "no/where.html"),
        FAILURE,
        "its folder does not exist",
    )
    result = call("match", "show", files / "m.json", edges, "-g", "monday", "-o", edges)
    assert result.exit_code == WRONG_USAGE
    assert "would overwrite an input" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize("command", ["match", "link", "rank"])
def test_help_teaches(command):
    result = call(command, "show", "-h", env={"COLUMNS": "100"})
    assert result.exit_code == OK
    first = "pairs.csv" if command == "link" else "model.json"
    for words in ("needs no network", "Examples", f"permatch {command} show {first}"):
        assert words in result.stdout
    assert "show" in call(command, "-h").stdout
