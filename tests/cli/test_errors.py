"""Every error that a command line can provoke: one line, what to do, and an exit status.

The status is 2 where the command line itself is wrong, 1 where what it names is, and 130
after Ctrl-C.  A traceback is shown with ``--debug`` only.
"""

import gzip
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from permatch.cli.main import app
from permatch.errors import PermatchError
from permatch.estimators import DORM, MAPMatching, RankMatch

FAILURE, WRONG_USAGE, INTERRUPTED = 1, 2, 130
HEAD = "graph,left,right,label,distance,overlap\n"
# Digits beyond 64 bits, and beyond what Python turns into a number.
HUGE, ENDLESS = "9" * 30, "9" * 5000
PLAIN_ENV = {
    key: value
    for key, value in os.environ.items()
    if key not in {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS"}
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Good files, bad files, and models of either kind."""
    folder = tmp_path_factory.mktemp("errors")
    rng = np.random.default_rng(0)
    graphs, truth = rng.normal(size=(8, 3, 3, 2)), [np.arange(3)] * 8
    rows = [
        f"g{g},a{i},b{j},{int(i == j)},{graphs[g, i, j, 0]:.3f},{graphs[g, i, j, 1]:.3f}\n"
        for g in range(8)
        for i in range(3)
        for j in range(3)
    ]
    table = HEAD + "".join(rows)
    first = rows[0].rpartition(",")[0]
    X, y, qid = rng.normal(size=(50, 2)), rng.integers(3, size=50), np.arange(50) // 5
    lists = "".join(
        f"{grade} qid:{query} 1:{a:.3f} 2:{b:.3f}\n"
        for grade, query, (a, b) in zip(y, qid, X, strict=True)
    )
    texts = {
        "scores.csv": "2,1,0\n1,2,0\n0,1,1\n",
        "edges.csv": table,
        "nan.csv": table.replace(rows[0], f"{first},nan\n"),
        "inf.csv": table.replace(rows[0], f"{first},inf\n"),
        "text.csv": table.replace(rows[0], f"{first},abc\n"),
        "columns.csv": table.replace("label", "truth"),
        "header.csv": HEAD,
        "short.csv": table + "g9,a\n",
        "twice.csv": table + rows[0],
        "nameless.csv": table.replace("a0", "nan", 1),
        "bigamous.csv": table.replace("b1,0", "b1,1", 1),
        "star.csv": HEAD + "".join([*rows[:3], rows[3], rows[6]]),
        "unlabelled.csv": HEAD + "".join(rows[:9]).replace(",1,", ",0,"),
        "numberless.csv": "graph,left,right,label\ng,a,b,1\n",
        "lists.txt": lists,
        "nan.txt": "1 qid:1 1:nan\n0 qid:1 1:0\n",
        "words.txt": "hello world\n",
        "low.txt": "1_0\n0.5\n",
        "flat.txt": "1 qid:1 1:2\n1 qid:1 1:3\n",
        "queryless.txt": "1 1:2\n",
        "wide.txt": "1 qid:1 3:2\n0 qid:1 1:3\n",
        "two.txt": "1\n2\n",
        "one.txt": "1 qid:1 1:2\n0 qid:1 2:3\n",
        "part.run": "0 Q0 1 1 0.5 x\n",
        "wrong.run": "0 Q0 1 1 0.5 x\n0 Q0 2 2 half x\n",
        "name.txt": "a\n",
        "foreign.json": '{"a": 1}',
        "deep.json": "[" * 100_000,
        "empty": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "garbage").write_bytes(bytes(range(256)))
    (folder / "latin.csv").write_bytes(HEAD.replace("left", "caf\xe9").encode("latin-1"))
    for name, text in (("cut.csv.gz", table), ("cut.txt.gz", lists)):
        (folder / name).write_bytes(gzip.compress(text.encode())[:60])
    (folder / "folder").mkdir()
    names = ["distance", "overlap"]
    MAPMatching(alpha=1.0).fit(graphs, truth, feature_names=names).save(folder / "m.json")
    RankMatch(alpha=1.0).fit(X, y, qid=qid).save(folder / "r.json")
    RankMatch(alpha=1.0, scaling="minmax").fit(X, y, qid=qid).save(folder / "scaled.json")
    DORM(alpha=1.0).fit(X[:, :1], y, qid=qid).save(folder / "narrow.json")
    (folder / "cut.json").write_text((folder / "m.json").read_text()[:400])
    return folder


def call(line, **options):
    """Run a command line in this process."""
    return CliRunner(env={"COLUMNS": "140"}).invoke(app, shlex.split(line), **options)


def assert_one_line(result, code, words):
    assert result.exit_code == code, (result.exception, result.output)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert "is a bug" not in result.stderr


WRONG_USAGES = [
    ("match fit folder -m new", "folder is a folder; add --from-disk"),
    ("rank fit folder -m new", "folder is a folder; add --from-disk"),
    # the application
    ("nonsense", "No such command 'nonsense'. Try 'permatch --help'."),
    ("infre scores.csv", "No such command 'infre'"),
    ("--nonsense", "Try 'permatch --help'."),
    ("--debug", "Missing command. Try 'permatch --help'."),
    ("match nonsense", "Try 'permatch match --help'."),
    ("rank --nonsense", "Try 'permatch rank --help'."),
    ("engines extra", "unexpected extra argument"),
    ("demo --jobs 0", "-1 means all processors. Try 'permatch demo --help'."),
    ("demo --out scores.csv", "cannot write to scores.csv: File exists. Choose another"),
    # infer
    ("infer", "Missing argument 'FILE'. Try 'permatch infer --help'."),
    ("infer scores.csv extra", "unexpected extra argument"),
    ("infer scores.csv --k", "'--k' requires an argument. Try 'permatch infer --help'."),
    ("infer scores.csv --k many", "'--k'"),
    ("infer scores.csv --k -1", "'--k'"),
    (f"infer scores.csv --k {ENDLESS}", "'--k'"),
    ("infer scores.csv --json=yes", "'--json' does not take a value"),
    ("infer scores.csv --seed -1", "'--seed'"),
    ("infer scores.csv --samples x", "'--samples'"),
    ("infer scores.csv --tol 0", "tol of AutoEngine must be a number above 0"),
    ("infer scores.csv --tol nan", "tol of AutoEngine must be a number above 0"),
    ("infer scores.csv --budget -1", "budget of AutoEngine must be a number of seconds"),
    ("infer scores.csv --engine bethe --budget 3", "--budget is not an option of"),
    ("infer scores.csv --engine warp", "'warp' is not one of auto, small_batch, glynn"),
    ("infer scores.csv --engine small_batch --max-size 9", "must be at most 8, got 9"),
    (f"infer scores.csv --max-size {HUGE}", "must be at most 2000"),
    ("infer scores.csv --given 0", "an edge must be written ROW:COL"),
    ("infer scores.csv --jobs 5000", "must be at most 4096"),
    # match
    ("match fit", "Missing argument 'EDGES'. Try 'permatch match fit --help'."),
    ("match fit edges.csv", "Missing option '--model' / '-m'"),
    ("match fit edges.csv -m edges.csv", "--model edges.csv would overwrite an input"),
    ("match fit folder -m new", "folder is a folder; add --from-disk to read it part by"),
    ("match fit edges.csv -m new --valid nan.csv -m nan.csv", "would overwrite an input"),
    ("match fit edges.csv -m new --alpha -1", "must be a finite number"),
    ("match fit edges.csv -m new --alpha inf", "must be a finite number"),
    ("match fit edges.csv -m new --alpha 1 --cv", "--alpha and --cv exclude each other"),
    ("match fit edges.csv -m new --alphas 1,2", "--alphas needs --cv"),
    ("match fit edges.csv -m new --cv --alphas 1,x", "must be a list like 1,0.1,0.01"),
    ("match fit edges.csv -m new --cv --folds 1", "'--folds'"),
    (f"match fit edges.csv -m new --cv --seed {HUGE}", "'--seed'"),
    ("match fit edges.csv -m new --cv --scoring x", "'x' is not one of 'hamming'"),
    ("match fit edges.csv -m new --max-iter 0", "'--max-iter'"),
    ("match fit edges.csv -m new --jobs 0", "-1 means all processors"),
    ("match fit edges.csv -m new --engine warp", "'warp' is not one of auto"),
    ("match fit edges.csv -m new --estimator x", "'x' is not one of 'map', 'max-margin'"),
    (
        "match fit edges.csv -m new --estimator max-margin --non-negative",
        "need --estimator map",
    ),
    ("match cv", "Missing argument 'EDGES'"),
    ("match cv edges.csv --alpha 1 --alphas 1,2", "exclude each other"),
    ("match cv edges.csv --folds 1", "'--folds'"),
    ("match cv edges.csv --out edges.csv", "would overwrite an input"),
    ("match fit edges.csv -m new --estimator max-margin -a 0", "--alpha must be above 0"),
    ("match fit edges.csv -m new --non-negative --non-positive", "exclude each other"),
    ("match fit edges.csv -m new --features ,", "must be a list like a,b,c"),
    ("match fit edges.csv -m new --unmatched x", "'x' is not one of 'auto', 'any'"),
    ("match predict m.json edges.csv --wrong 2", "--wrong needs --decode bayes; add it"),
    ("match predict m.json", "Missing argument 'EDGES'"),
    ("match predict m.json edges.csv --decode x", "'x' is not one of 'mode', 'bayes'"),
    ("match predict m.json edges.csv --no-probabilities --marginals", "drop --no-prob"),
    ("match predict m.json edges.csv --out m.json", "would overwrite an input"),
    ("match predict m.json edges.csv --engine warp", "'warp' is not one of auto"),
    ("match evaluate m.json edges.csv --no-probabilities --decode bayes", "drop --no-prob"),
    ("match show m.json edges.csv -g g99", "edges.csv has no graph 'g99'"),
    ("match show m.json edges.csv -g g0 -k 0", "'--k'"),
    ("match show m.json edges.csv -g g0 -o m.json", "would overwrite an input"),
    # rank
    ("rank fit lists.txt", "Missing option '--model' / '-m'"),
    ("rank fit lists.txt -m lists.txt", "would overwrite an input"),
    ("rank fit folder -m new", "folder is a folder; add --from-disk to read it part by"),
    ("rank fit - -m new --validation -", "standard input can be read once"),
    ("rank fit lists.txt -m new --alpha nan", "must be a finite number"),
    ("rank fit lists.txt -m new --alpha 1 --cv", "--alpha excludes --cv and --alphas"),
    ("rank fit lists.txt -m new --alphas x", "must be a list like 1,0.1,0.01"),
    ("rank fit lists.txt -m new --folds 3", "--folds needs --cv"),
    ("rank fit lists.txt -m new --estimator x", "'x' is not one of 'rankmatch', 'dorm'"),
    ("rank fit lists.txt -m new --estimator dorm --form exact", "dorm has no likelihood"),
    ("rank fit lists.txt -m new --estimator dorm -M pairs", "needs --estimator rankmatch"),
    ("rank fit lists.txt -m new -M pairs --form exact", "--form needs whole lists"),
    (
        "rank fit lists.txt -m new -M 1",
        "must be all, grades, pairs or a number of at least 2",
    ),
    (f"rank fit lists.txt -m new -M {ENDLESS}", "must be all, grades, pairs"),
    ("rank fit lists.txt -m new --n-subsets 0", "must be a finite number above 0"),
    ("rank fit lists.txt -m new --position-weights 1,x", "must be dcg, or numbers with co"),
    (
        "rank fit lists.txt -m new --estimator ridge --position-weights dcg",
        "--position-weights has no effect with --estimator ridge",
    ),
    ("rank fit lists.txt -m new --n-features 0", "'--n-features'"),
    (f"rank fit lists.txt -m new --n-features {HUGE}", "'--n-features'"),
    ("rank fit lists.txt -m new --scaling x", "'x' is not one of 'none', 'minmax'"),
    ("rank fit lists.txt -m new --query-weight x", "'x' is not one of 'observations'"),
    ("rank fit lists.txt -m new --metric NDCG@0", "whole number of at least 1, got 0"),
    ("rank compare r.json scaled.json lists.txt --document id", "lists.txt, LETOR text"),
    ("rank fit lists.txt -m new --features ,", "--features must be a list like a,b,c"),
    ("rank predict r.json lists.txt --qid q", "--qid has no effect on lists.txt, LETOR"),
    ("rank predict r.json", "Missing argument 'FILE'"),
    ("rank predict r.json lists.txt --format x", "'x' is not one of 'scores', 'trec'"),
    ("rank predict r.json lists.txt --run-name 'a b'", "must be one word"),
    ("rank predict r.json lists.txt --probabilities", "needs --format csv or jsonl; got"),
    ("rank predict r.json lists.txt --out r.json", "would overwrite an input"),
    ("rank evaluate", "Missing argument"),
    ("rank evaluate r.json", "a model and at least one judged file are required"),
    ("rank evaluate r.json - -", "standard input can be read only once"),
    (f"rank evaluate r.json lists.txt --metric NDCG@{HUGE}", "k must be at most"),
    (
        "rank evaluate r.json lists.txt --metric NDCF",
        "a measure must be one of NDCG, MeanNDCG",
    ),
    (
        "rank evaluate r.json lists.txt --metric 'P(ties=x)'",
        "'expected'; got 'x'",
    ),
    ("rank evaluate r.json lists.txt --per-query lists.txt", "would overwrite an input"),
    ("rank compare", "Missing argument 'MODEL MODEL... FILE'"),
    ("rank compare r.json lists.txt", "two or more models and a judged file are required"),
    ("rank compare r.json ./r.json lists.txt", "./r.json is named twice; name different"),
    ("rank compare r.json - lists.txt", "only the judged file can be read from standard"),
    (
        "rank compare r.json two.txt lists.txt --metric NDCF",
        "a measure must be one of NDCG",
    ),
    (f"rank compare r.json two.txt lists.txt --resamples {HUGE}", "'--resamples'"),
    ("rank compare r.json two.txt lists.txt --seed -1", "'--seed'"),
    ("rank compare r.json two.txt lists.txt --out r.json", "would overwrite an input"),
    ("rank compare r.json two.txt lists.txt --csv lists.txt", "would overwrite an input"),
    ("rank compare r.json two.txt lists.txt -o new --csv new", "are both new; name two"),
    ("rank cv", "Missing argument 'FILE|FOLDER'"),
    ("rank cv lists.txt --alpha 1 --alphas 1,2", "exclude each other"),
    ("rank cv lists.txt --folds 1", "'--folds'"),
    ("rank cv lists.txt --out lists.txt", "would overwrite an input"),
    ("rank export r.json --to solr", "Missing option '--out' / '-o'"),
    ("rank export r.json --to x -o new", "'x' is not one of 'onnx', 'solr'"),
    ("rank export r.json --to solr -o r.json", "would overwrite an input"),
    ("rank export r.json --to solr -o new --name ''", "--name must not be empty"),
    ("rank show r.json lists.txt", "--query ID is required; there are 0, 1"),
    ("rank show r.json lists.txt -q 99", "lists.txt has no query '99'"),
    ("rank show r.json lists.txt -q 1 -o r.json", "would overwrite an input"),
]

FAILURES = [
    # infer
    ("infer absent.csv", "cannot open absent.csv: No such file or directory. Check the"),
    ("infer folder", "cannot open folder: Is a directory. Check the path."),
    ("infer ''", "Is a directory. Check the path."),
    ("infer empty", "empty must hold a matrix of scores; it is empty. Write one"),
    ("infer garbage", "garbage must be UTF-8 text or a NumPy .npy file"),
    ("infer edges.csv", "edges.csv must hold numbers"),
    ("infer lists.txt", "lists.txt must hold numbers"),
    (f"infer scores.csv --samples {HUGE}", "GiB are available. Ask for less."),
    ("infer scores.csv --given 0:9", "by label or by number from 0 to 2 and 2; got '0:9'"),
    ("infer scores.csv --given 0:0 --given 1:0", "Drop one pair"),
    ("infer scores.csv --max-size 2", "On the command line: --given ROW:COL or --max-size"),
    # match: tables
    ("match fit absent.csv -m new", "cannot open absent.csv: No such file"),
    ("match fit absent -m new --from-disk", "cannot open absent: there is nothing of this"),
    ("match fit empty -m new", "empty must hold a table of pairs; it is empty. Write a"),
    ("match fit garbage -m new", "garbage must be UTF-8 text"),
    ("match fit latin.csv -m new", "Export the table as CSV in UTF-8."),
    ("match fit cut.csv.gz -m new", "truncated or damaged"),
    ("match fit lists.txt -m new", "lists.txt must have the columns"),
    ("match fit nan.csv -m new", "'overlap' is missing for pair ('a0', 'b0') of graph"),
    ("match fit inf.csv -m new", "'overlap' is inf for pair ('a0', 'b0') of graph 'g0'"),
    ("match fit text.csv -m new", "'overlap' is 'abc' at line 2 of text.csv. Correct it"),
    (
        "match fit columns.csv -m new",
        "Add it, or name the column to use (label=, on the command line --label-column).",
    ),
    ("match fit header.csv -m new", "it has a header and no rows"),
    ("match fit short.csv -m new", "has 2. Complete it; the file may be cut off."),
    ("match fit twice.csv -m new", "Drop one of them."),
    ("match fit nameless.csv -m new", "the cell is NaN at line 2 of nameless.csv"),
    ("match fit bigamous.csv -m new", "'a0' of graph 'g0' has 2, at line 2 of"),
    ("match fit star.csv -m new --unmatched larger", "unmatched='any'"),
    (
        "match fit unlabelled.csv -m new",
        "with 1 in the column 'label'; all its cells are 0",
    ),
    ("match predict m.json star.csv", "fit with --unmatched any (unmatched='any')"),
    ("match predict m.json star.csv", "of graph g0 at most 2 of 3 can be, which leaves"),
    ("match fit numberless.csv -m new", "must have at least one feature"),
    ("match fit edges.csv -m new --valid absent.csv", "cannot open absent.csv"),
    ("match fit edges.csv -m new --features nothing", "'nothing' not found in"),
    ("match fit edges.csv -m new --features left", "Name different columns."),
    ("match fit edges.csv -m new --graph-column x", "'x' not found in"),
    ("match cv edges.csv --folds 9", "--folds must be at most the number of labelled"),
    ("match cv columns.csv", "must say which pairs match"),
    ("match cv edges.csv --out folder", "cannot open folder: Is a directory"),
    ("match fit edges.csv -m new --cv --folds 9", "--folds must be at most the number of"),
    ("match fit edges.csv -m new --engine ryser", "Use one of the engines 'auto'"),
    ("match predict m.json edges.csv --engine ryser", "Use one of the engines 'auto'"),
    ("match predict m.json edges.csv --features distance", "Add or drop columns"),
    ("match evaluate m.json columns.csv", "must say which pairs match"),
    ("match evaluate m.json folder", "folder must be one file; it is a folder. Name a"),
    ("match predict m.json folder", "whole folders are for fit and link, with --from-disk"),
    ("match cv folder", "folder must be one file; it is a folder. Name a file of it"),
    # match: places
    ("match fit edges.csv -m no/where", "cannot open no/where: its folder does not exist"),
    ("match fit edges.csv -m folder", "cannot open folder: Is a directory"),
    ("match predict m.json edges.csv -o no/where", "its folder does not exist"),
    ("match predict m.json edges.csv -o folder", "cannot open folder: Is a directory"),
    ("match show m.json edges.csv -g g0 -o folder", "cannot open folder: Is a directory"),
    # match: models
    ("match predict absent.json edges.csv", "cannot open absent.json: No such file"),
    ("match predict folder edges.csv", "cannot open folder: Is a directory"),
    ("match predict empty edges.csv", "empty is empty, not a model. Copy it again"),
    ("match predict garbage edges.csv", "garbage is not a permatch model: it is not JSON"),
    ("match predict foreign.json edges.csv", "foreign.json is not a permatch model"),
    ("match predict deep.json edges.csv", "deep.json is not a permatch model"),
    ("match predict cut.json edges.csv", "cut.json is a truncated or damaged permatch"),
    ("match evaluate edges.csv edges.csv", "edges.csv is not a permatch model"),
    ("match evaluate r.json edges.csv", "which ranks. Use it with permatch rank, or fit"),
    ("match show r.json edges.csv -g g0", "which ranks. Use it with permatch rank, or fit"),
    # rank: lists
    ("rank fit absent.txt -m new", "cannot open absent.txt: No such file"),
    ("rank fit '' -m new", "Is a directory"),
    ("rank fit empty -m new", "empty: a LETOR file must have at least one line"),
    ("rank fit garbage -m new", "garbage must be UTF-8 text (plain or gzip) or Parquet"),
    ("rank fit cut.txt.gz -m new", "truncated or damaged"),
    ("rank fit edges.csv -m new", "'grade', 'qid' not found in 'graph', 'left'"),
    ("rank fit nan.txt -m new", "feature 1 is 'nan'. Fill in missing values first"),
    ("rank fit words.txt -m new", "words.txt, line 1: a line must begin with its grade"),
    ("rank fit flat.txt -m new", "Check the grades, query ids and weights."),
    ("rank fit queryless.txt -m new", "Add 'qid:' and an id"),
    ("rank fit lists.txt -m new --n-features 1", "Give a larger --n-features"),
    ("rank fit lists.txt -m new --cv --folds 11", "--folds must be at most the number of"),
    ("rank fit lists.txt -m new --feature-names name.txt", "feature_names must be 2"),
    ("rank fit lists.txt -m new --feature-names garbage", "as UTF-8 text; got the byte"),
    ("rank fit lists.txt -m new --feature-names absent", "cannot open absent: No such"),
    ("rank fit lists.txt -m new --position-weights 0,1", "must be non-increasing; got 0"),
    ("rank fit lists.txt -m new -M 3 --n-subsets 1e30", "GiB of memory, and"),
    ("rank predict r.json wide.txt", "The model has 2 features: use a file with"),
    ("rank predict r.json absent.txt", "cannot open absent.txt: No such file"),
    ("rank cv lists.txt --folds 11", "--folds must be at most the number of queries, 10"),
    ("rank predict r.json folder", "folder must be one file; it is a folder. Name a"),
    ("rank evaluate r.json folder", "folder must be one file; it is a folder. Name a"),
    ("rank show r.json folder -q 1", "folder must be one file; it is a folder. Name a"),
    ("rank cv folder", "Give the folder that contains the folds."),
    ("rank evaluate --scores two.txt lists.txt", "two.txt must have one score per docu"),
    ("rank evaluate --scores low.txt lists.txt", "line 1: a file of scores must hold one"),
    ("rank evaluate --scores words.txt lists.txt", "one finite number per line; got"),
    ("rank evaluate --scores absent lists.txt", "cannot open absent: No such file"),
    (
        "rank compare r.json narrow.json lists.txt",
        "the same number of features; r.json has",
    ),
    (
        "rank compare r.json two.txt lists.txt",
        "two.txt must have one score per document, 50",
    ),
    (
        "rank compare r.json scaled.json wide.txt",
        "The model has 2 features: use a file with",
    ),
    (
        "rank compare r.json scaled.json one.txt",
        "a comparison needs at least two queries; got 1",
    ),
    ("rank compare r.json scaled.json absent", "cannot open absent: No such file"),
    ("rank compare r.json scaled.json narrow.json", "narrow.json must be judged documents"),
    (
        "rank compare r.json lists.txt scaled.json",
        "scaled.json must be judged documents, wh",
    ),
    ("rank compare r.json words.txt lists.txt", "words.txt must be a model as written by"),
    (
        "rank compare r.json cut.json lists.txt",
        "cut.json is a truncated or damaged permatch",
    ),
    ("rank compare r.json foreign.json lists.txt", "foreign.json is not a permatch model"),
    ("rank compare r.json empty lists.txt", "empty is empty, not a model. Copy it again"),
    (
        "rank compare r.json m.json lists.txt",
        "which matches. Use it with permatch match, or",
    ),
    ("rank compare r.json garbage lists.txt", "garbage"),
    ("rank compare r.json scaled.json edges.csv", "'grade', 'qid' not found in"),
    ("rank compare r.json scaled.json nan.txt", "Fill in missing values first"),
    (
        "rank compare r.json part.run lists.txt",
        "there is none for document '2' of query '0'",
    ),
    (
        "rank compare r.json wrong.run lists.txt",
        "wrong.run, line 2: a line of a TREC run mu",
    ),
    # rank: places
    ("rank fit lists.txt -m no/where", "cannot open no/where: its folder does not exist"),
    ("rank fit lists.txt -m folder", "cannot open folder: Is a directory"),
    ("rank predict r.json lists.txt -o no/where", "its folder does not exist"),
    ("rank evaluate r.json lists.txt --per-query folder", "Is a directory"),
    ("rank compare r.json scaled.json lists.txt -o no/where", "its folder does not exist"),
    ("rank compare r.json scaled.json lists.txt --csv folder", "Is a directory"),
    ("rank cv lists.txt --out folder", "cannot open folder: Is a directory"),
    ("rank export r.json --to solr -o folder", "cannot open folder: Is a directory"),
    ("rank show r.json lists.txt -q 1 -o no/where", "its folder does not exist"),
    # rank: models
    ("rank predict absent.json lists.txt", "cannot open absent.json: No such file"),
    ("rank predict empty lists.txt", "empty is empty, not a model. Copy it again"),
    ("rank evaluate foreign.json lists.txt", "foreign.json is not a permatch model"),
    ("rank evaluate m.json lists.txt", "which matches. Use it with permatch match, or"),
    ("rank export m.json --to solr -o new", "which matches. Use it with permatch match"),
    ("rank show m.json lists.txt -q 1", "which matches. Use it with permatch match"),
    ("rank export scaled.json --to solr -o new", "on the command line: --scaling none"),
]


def short(text):
    return text if len(text) < 90 else f"{text[:87]}..."


@pytest.mark.parametrize(("line", "words"), WRONG_USAGES, ids=short)
def test_wrong_usage(folder, monkeypatch, line, words):
    monkeypatch.chdir(folder)
    result = call(line)
    assert_one_line(result, WRONG_USAGE, words)
    assert "Try 'permatch" in result.stderr
    assert not (folder / "new").exists()


@pytest.mark.parametrize(("line", "words"), FAILURES, ids=short)
def test_failure(folder, monkeypatch, line, words):
    monkeypatch.chdir(folder)
    assert_one_line(call(line), FAILURE, words)
    assert not (folder / "new").exists()


def commands(group=None, name=()):
    """Yield the words that name each command."""
    from typer.main import get_command

    group = group or get_command(app)
    for key, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*name, key))
        elif (*name, key) == ("link", "pairs"):
            yield name  # runs without being named
        else:
            yield (*name, key)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_refuses_unknown_options_and_knows_debug(command):
    path = " ".join(command)
    result = call(f"{path} --nonsense")
    assert_one_line(result, WRONG_USAGE, "No such option")
    assert "--nonsense" in result.stderr
    assert f"Try 'permatch {path} --help'." in result.stderr
    assert "--debug" in call(f"{path} --help").stdout


# ---- bugs


def raise_an(err):
    def fail(*args, **options):
        raise err

    return fail


@pytest.mark.parametrize("err", [KeyError("x\ny"), RecursionError("deep"), EOFError()])
def test_a_bug_is_one_line_that_says_what_to_send(monkeypatch, err):
    monkeypatch.setattr("permatch.datasets.score_matrix.read_score_matrix", raise_an(err))
    result = call("infer scores.csv")
    assert result.exit_code == FAILURE
    assert result.stderr.startswith(
        f"error: this is a bug in permatch: {type(err).__name__}"
    )
    assert result.stderr.endswith("with --debug and report what it prints.\n")
    assert result.stderr.count("\n") == 1
    assert call("infer scores.csv --debug").exception is not None


def test_debug_shows_the_traceback_wherever_it_stands(monkeypatch):
    err = PermatchError("on purpose")
    monkeypatch.setattr("permatch.datasets.score_matrix.read_score_matrix", raise_an(err))
    assert_one_line(call("infer scores.csv"), FAILURE, "error: on purpose\n")
    assert call("infer scores.csv --debug").exception is err
    assert call("--debug infer scores.csv").exception is err


def test_a_bug_in_reading_the_command_line_is_one_line_too(monkeypatch):
    monkeypatch.setattr("permatch.inference.ENGINES", None)
    result = call("infer scores.csv --engine glynn")
    assert result.exit_code == FAILURE
    assert result.stderr.startswith("error: this is a bug in permatch: TypeError: ")
    assert result.stderr.count("\n") == 1
    assert isinstance(call("infer x --engine glynn --debug").exception, TypeError)


def test_a_package_that_does_not_load(monkeypatch):
    monkeypatch.setattr(
        "permatch.datasets.score_matrix.read_score_matrix", raise_an(ImportError("no libc"))
    )
    assert_one_line(call("infer scores.csv"), FAILURE, "no libc. Install it again.")


def test_nowhere_to_keep_compiled_kernels(monkeypatch):
    err = RuntimeError("cannot cache function 'f': no locator available for file 'x.py'")
    monkeypatch.setattr("permatch.datasets.score_matrix.read_score_matrix", raise_an(err))
    words = "Set NUMBA_CACHE_DIR to one."
    assert_one_line(call("infer scores.csv"), FAILURE, words)


# ---- optional packages


@pytest.mark.parametrize(
    ("line", "package", "extra"),
    [
        ("match fit edges.parquet -m new", "pyarrow", "tables"),
        ("rank export r.json --to onnx -o new", "onnx", "serving"),
    ],
)
def test_missing_extras_are_named(folder, monkeypatch, line, package, extra):
    from permatch import _optional

    (folder / "edges.parquet").write_bytes(b"PAR1")
    monkeypatch.chdir(folder)
    known = _optional.find_spec
    monkeypatch.setattr(
        _optional, "find_spec", lambda name: None if name == package else known(name)
    )
    words = f"needs {package}: install the extra '{extra}'"
    assert_one_line(call(line), FAILURE, words)


# ---- Ctrl-C, closed pipes, full disks


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("infer scores.csv", "permatch.datasets.score_matrix.read_score_matrix"),
        ("match evaluate m.json edges.csv", "permatch.cli.match.commands.load_for"),
        ("match predict m.json edges.csv", "permatch.cli.match.commands.load_for"),
        ("match fit edges.csv -m new", "permatch.cli.match.commands.read_table"),
        ("match cv edges.csv", "permatch.cli.match.folds.read_table"),
        ("rank fit lists.txt -m new", "permatch.cli.rank.reading.read_pair"),
        ("rank cv lists.txt", "permatch.cli.rank.folds.read_folds"),
        ("demo", "permatch.cli.demo.make_folder"),
    ],
)
def test_ctrl_c_is_one_line(folder, monkeypatch, line, place):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("permatch.cli.demo.find_spec", lambda name: name)
    monkeypatch.setattr(place, raise_an(KeyboardInterrupt()))
    result = call(line)
    assert result.exit_code == INTERRUPTED
    assert result.stderr.startswith("interrupted")
    assert result.stderr.count("\n") == 1
    assert not (folder / "new").exists()


def run(line, folder, **options):
    """Run a command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "permatch", *shlex.split(line)],
        stderr=subprocess.PIPE,
        cwd=folder,
        env=PLAIN_ENV,
        text=True,
        **options,
    )


# What writes to standard output by other means than the console.
WRITERS = [
    "match predict m.json edges.csv",
    "rank predict r.json lists.txt --format jsonl",
    "rank export r.json --to solr --out -",
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize("line", WRITERS)
def test_full_disk(folder, line):
    with open("/dev/full", "w") as full:
        done = run(line, folder, stdout=full)
    assert (done.returncode, done.stderr) == (
        FAILURE,
        "error: cannot write: No space left on device. Make room, or write elsewhere.\n",
    )


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("line", [*WRITERS, "infer scores.csv", "--help"])
def test_closed_pipe_is_silent(folder, line):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = run(line, folder, stdout=pipe)
    assert (done.returncode, done.stderr) == (FAILURE, "")


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX closes it")
@pytest.mark.parametrize("line", WRITERS)
def test_closed_standard_output(folder, line):
    command = f"{shlex.quote(sys.executable)} -m permatch {line} >&-"
    done = subprocess.run(
        command, shell=True, cwd=folder, env=PLAIN_ENV, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == FAILURE
    assert done.stderr.startswith("error: cannot read or write: standard output is closed")
    assert done.stderr.count("\n") == 1
