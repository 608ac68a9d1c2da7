"""Everything public has an example, and the examples of every command's help run.

Examples in docstrings are run as doctests, with the other tests.
"""

import gzip
import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from permatch.cli.main import app

ROOMS = (
    "permatch",
    "permatch.datasets",
    "permatch.decoding",
    "permatch.estimators",
    "permatch.features",
    "permatch.inference",
    "permatch.metrics",
    "permatch.plots",
)
# These take minutes: their examples are read, options and all, but nothing is computed.
# They have tests of their own, on less.
ONLY_READ = ("demo",)
# So are lines with these options: there is no cluster here to answer.
ONLY_READ_WITH = ("--dask",)
#: Commands whose examples speak of files.
ROOMS_WITH_FILES = ("infer", "link", "match", "rank")
# These talk to servers that are not there.
NOT_RUN = ("curl",)


def public_things():
    """Yield every public function and class by its name."""
    for room in (*ROOMS, "permatch.nn") if find_spec("torch") else ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                yield f"{room}.{name}", thing


THINGS = dict(public_things())


@pytest.mark.parametrize("name", THINGS)
def test_everything_public_has_an_example(name):
    assert "\n>>> " in (inspect.getdoc(THINGS[name]) or "")


# ---- commands


def help_texts(command=None, path=("permatch",)):
    """Yield the words that name each command and each group, and its help."""
    command = command or get_command(app)
    yield " ".join(path), hasattr(command, "commands"), command.help
    for name, part in getattr(command, "commands", {}).items():
        yield from help_texts(part, (*path, name))


def examples_in(text):
    """Return the command lines under Examples, continued ones joined."""
    part = re.split(r"^\[bold\](?:Examples|Start here)\[/bold\]$", text, flags=re.MULTILINE)
    if len(part) < 2:
        return []
    lines = re.sub(r" \\\n\s*", " ", part[1]).splitlines()
    found = [line.strip() for line in lines if line.startswith("  ")]
    return [re.split(r" {3,}", line)[0] for line in found]  # what follows explains it


HELP = {name: (is_group, text) for name, is_group, text in help_texts()}
EXAMPLES = [
    pytest.param(name, line, id=line)
    for name, (_, text) in HELP.items()
    for line in examples_in(text)
    if not line.startswith(NOT_RUN)
]


@pytest.mark.parametrize(
    "name", [name for name, (is_group, _) in HELP.items() if not is_group]
)
def test_every_command_has_examples_of_itself(name):
    lines = examples_in(HELP[name][1])
    assert any(re.search(rf"\b{name}\b", line) for line in lines)


def test_no_example_is_left_out_unawares():
    text = "\n".join(text for _, text in HELP.values())
    lines = re.findall(r"^  (?:\w+ .*\| )?permatch \S.*", text, flags=re.MULTILINE)
    assert len(lines) == len(EXAMPLES) > 40


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The files that the examples speak of, for graphs and for lists."""
    folder = tmp_path_factory.mktemp("samples")
    rng = np.random.default_rng(0)
    for name in ROOMS_WITH_FILES:
        (folder / name).mkdir()
    _write_scores(folder / "infer", rng)
    _write_tables(folder / "match", rng)
    _write_lists(folder / "rank", rng)
    _write_pairs(folder / "link")
    return folder


def _write_scores(folder, rng):
    (folder / "scores.csv").write_text("who,y,x\nann,1,0\nbob,0,2\n")
    np.save(folder / "scores.npy", rng.normal(size=(4, 4)))
    large = rng.normal(size=(40, 40)) + 40.0 * np.eye(40)
    np.savetxt(folder / "large.csv", large, delimiter=",")


def _write_tables(folder, rng):
    from permatch.datasets import read_edge_table
    from permatch.estimators import MAPMatching

    lines = ["graph,left,right,label,age,distance"]
    for graph in ("monday", "tuesday", *(f"g{k}" for k in range(3, 9))):
        for i, j in np.ndindex(3, 3):
            age, distance = rng.normal(size=2) + [0.0, float(i != j)]
            lines.append(f"{graph},a{i},b{j},{int(i == j)},{age:.3f},{distance:.3f}")
    for name in ("train", "valid", "test", "new", "frames"):
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    text = "\n".join(lines).replace("graph,left,right", "graph,id_l,id_r") + "\n"
    (folder / "ids.csv").write_text(text)
    table = read_edge_table(folder / "train.csv")
    model = MAPMatching(alpha=0.1)
    model.fit(table.graphs, table.matchings, feature_names=table.feature_names)
    model.inference(table.graphs, table.matchings)
    model.save(folder / "model.json")


def _write_lists(folder, rng):
    from permatch.datasets import read_letor
    from permatch.estimators import RankMatch

    grades = rng.integers(3, size=(12, 6))
    text = "".join(
        f"{grade} qid:{query} 1:{grade + rng.normal():.3f} 2:{rng.normal():.3f}\n"
        for query, row in enumerate(grades, start=70)
        for grade in row
    )
    for name in ("train", "vali", "test", "new", "judged"):
        (folder / f"{name}.txt").write_text(text)
    for name in ("train", "big"):
        (folder / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode()))
    for k in (1, 2):
        (folder / "OHSUMED" / f"Fold{k}").mkdir(parents=True)
        for name in ("train", "vali", "test"):
            shutil.copy(folder / "judged.txt", folder / "OHSUMED" / f"Fold{k}/{name}.txt")
    data = read_letor(folder / "train.txt")
    model = RankMatch(alpha=1.0).fit(data.X, data.y, qid=data.qid)
    model.save(folder / "model.json")
    scores = model.predict(data.X, qid=data.qid)
    (folder / "scores.txt").write_text("".join(f"{score}\n" for score in scores))
    _write_compared(folder, data)


def _write_compared(folder, data):
    """Write models that know their features by name, a run, and tables."""
    from permatch.estimators import RankMatch

    names = ["title", "body"]
    for alpha, name in enumerate(("old", "new", "a", "b"), start=1):
        model = RankMatch(alpha=alpha)
        model.fit(data.X, data.y, qid=data.qid, feature_names=names)
        model.save(folder / f"{name}.json")
    rows = list(zip(data.qid, data.y, data.X, strict=True))
    run = [f"{query} Q0 {k} 0 {x[1]} bm25\n" for k, (query, _, x) in enumerate(rows, 1)]
    (folder / "bm25.run").write_text("".join(run))
    cells = [f"{query},{grade},{x[0]},{x[1]}\n" for query, grade, x in rows]
    for name in ("train", "test"):
        table = "".join(["query,label,title,body\n", *cells])
        (folder / f"{name}.csv").write_text(table)


def _write_pairs(folder):
    rows = [(i, i + k, p) for i in range(1500) for k, p in ((0, 0.8), (1, 0.04))]
    text = "".join(f"a{i},b{j},a{i},b{j},{p},{p}\n" for i, j, p in rows)
    (folder / "pairs.csv").write_text("left,right,id_a,id_b,probability,p\n" + text)


def _write_parts(room, pandas):
    """Write the folders that are read part by part."""
    for name in ["pairs"] if room == "link" else ["folder", "later"]:
        Path(name).mkdir()
        if room == "rank":
            shutil.copy("train.txt", name)
            continue
        table = pandas.read_csv("pairs.csv" if room == "link" else "train.csv")
        half = len(table) // 2
        for k, part in enumerate((table[:half], table[half:])):
            part.to_parquet(f"{name}/part.{k}.parquet")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with the programs that the examples call, to be found first."""
    folder = tmp_path_factory.mktemp("bin")
    for name, words in (("python", ""), ("permatch", " -m permatch")):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n')
        path.chmod(0o755)
    return folder


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_example_in_help(samples, programs, tmp_path, monkeypatch, capsys, name, line):
    room = re.search(r"permatch (\w+)", line)[1]
    for name in ("data", "letor"):
        (tmp_path / name).mkdir()
    if room in ROOMS_WITH_FILES:
        shutil.copytree(samples / room, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    if ".parquet" in line:
        pandas = pytest.importorskip("pandas", reason="needs the extra 'tables'")
        pytest.importorskip("pyarrow", reason="needs the extra 'tables'")
        pairs = {"left": ["ann", "bob"], "right": ["x", "x"], "score": [1.0, 0.5]}
        if room == "link":
            pairs["probability"] = [0.5, 0.3]
        pandas.DataFrame(pairs).to_parquet("pairs.parquet")
        if room == "match":
            pandas.read_csv("train.csv").to_parquet("train.parquet")
    if "--from-disk" in line:
        pandas = pytest.importorskip("pandas", reason="needs the extra 'tables'")
        pytest.importorskip("pyarrow", reason="needs the extra 'tables'")
        _write_parts(room, pandas)
    if "onnx" in line:
        pytest.importorskip("onnx", reason="needs the extra 'serving'")
    if re.search(r"[|>$]", line):
        _run_in_shell(line, programs)
    else:
        _run_here([word.replace("~", str(tmp_path)) for word in shlex.split(line)[1:]])
    # A search for alpha may say that a better one lies beyond those tried, trees that more
    # of them may be better, and links are summarised beside what is written.
    lines = capsys.readouterr().err.splitlines()
    if room == "link":
        lines = [line for line in lines if line.startswith("warning:")]
    expected = ("warning: the chosen", "warning: the score on held-out data was best after")
    assert [line for line in lines if not line.startswith(expected)] == []


def _run_here(words):
    """Run the application in this process."""
    group = get_command(app)
    _stub(group, any(option in words for option in ONLY_READ_WITH))
    with pytest.raises(SystemExit) as left:
        group.main(words, prog_name="permatch")
    assert not left.value.code


def _stub(group, is_stubbed=False):
    """Let the commands that take minutes do nothing."""
    for name, command in group.commands.items():
        is_slow = is_stubbed or name in ONLY_READ
        if hasattr(command, "commands"):
            _stub(command, is_slow)
        elif is_slow:
            command.callback = lambda **options: None


def _run_in_shell(line, programs):
    """Run pipes and redirections as a reader would."""
    if shutil.which("sh") is None or ("zcat" in line and shutil.which("zcat") is None):
        pytest.skip("needs a shell with zcat")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", line], env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
