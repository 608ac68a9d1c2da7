"""``permatch match cv``: folds that agree with fit and evaluate, and what it refuses."""

import csv
import io
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from permatch.cli.match.commands import match
from permatch.cli.shared.folds import forward_splits, shuffled_splits

OK, FAILURE, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130
HEAD = ["graph", "left", "right", "label", "distance", "overlap"]
N_GRAPHS, SIZE = 12, 3
SHARED = ("precision", "recall", "f1", "hamming_loss", "exact_share", "log_likelihood")
SHARED += ("expected_calibration_error", "confidence", "accuracy")
SHARED += ("node_calibration_error",)


def planted_rows(n_alone=0):
    """Rows of small graphs; in the first `n_alone` the first node has no partner."""
    rng = np.random.default_rng(3)
    rows = []
    for g in range(N_GRAPHS):
        partner = rng.permutation(SIZE)
        for i in range(SIZE):
            for j in range(SIZE):
                is_match = partner[i] == j
                label = int(is_match and not (i == 0 and g < n_alone))
                features = rng.normal(size=2) + [-label, 0.5 * label]
                rows.append([f"g{g}", f"g{g}a{i}", f"g{g}b{j}", label, *features.round(3)])
    return rows


def write(path, rows, head=HEAD):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "table.csv", planted_rows())


@pytest.fixture
def call():
    """Run a command in this process."""
    runner = CliRunner()
    return lambda *args, **options: runner.invoke(match, [*map(str, args)], **options)


def answer(result):
    assert result.exit_code == OK, result.output
    return json.loads(result.stdout)


def write_parts(folder, split):
    """Write the graphs of the parts of a split as tables of their own."""
    paths = {}
    for name in ("train", "validation", "test"):
        chosen = {f"g{k}" for k in getattr(split, name)}
        rows = [row for row in planted_rows() if row[0] in chosen]
        paths[name] = write(folder / f"{name}.csv", rows)
    return paths


@pytest.mark.parametrize("is_search", [True, False])
def test_in_order_only_what_came_before_trains(call, table, is_search):
    options = [] if is_search else ["--alpha", 0.1]
    arguments = ["cv", table, "--folds", 3, "--in-order", "--prior-coef", "distance=-1"]
    summary = answer(call(*arguments, *options, "--json"))
    sizes = [
        (row["n_train"], row["n_validation"], row["n_test"]) for row in summary["folds"]
    ]
    if is_search:
        assert sizes == [(3, 3, 2), (6, 2, 2), (8, 2, 2)]
    else:
        assert sizes == [(3, 0, 3), (6, 0, 3), (9, 0, 3)]
    splits = forward_splits(N_GRAPHS, "graphs", 3, is_search=is_search)
    for split in splits:
        order = np.concatenate([split.train, split.validation, split.test])
        np.testing.assert_array_equal(order, np.arange(len(order)))
    assert splits[-1].test[-1] == N_GRAPHS - 1
    many = call("cv", table, "--folds", N_GRAPHS, "--in-order", *options)
    assert many.exit_code == FAILURE
    assert "--folds must be at least 2, and with --in-order at most" in many.stderr


@pytest.mark.parametrize("decision", [[], ["--decode", "bayes", "--false", "3"]])
def test_a_fold_is_a_fit_and_an_evaluation(call, table, tmp_path, decision):
    arguments = ["cv", table, "--folds", 3, "--alpha", 0.1, "--seed", 5, *decision]
    summary = answer(call(*arguments, "--json"))
    assert summary["is_search"] is False
    assert summary["split_by"] == "graphs"
    splits = shuffled_splits(N_GRAPHS, "graphs", 3, 5, is_search=False)
    for row, split in zip(summary["folds"], splits, strict=True):
        assert (row["n_train"], row["n_validation"], row["n_test"]) == (8, 0, 4)
        paths, model = write_parts(tmp_path, split), tmp_path / "m.json"
        assert call("fit", paths["train"], "-m", model, "--alpha", 0.1).exit_code == OK
        by_hand = answer(call("evaluate", model, paths["test"], *decision, "--json"))
        assert row["measures"] == pytest.approx({name: by_hand[name] for name in SHARED})
    for name in SHARED:
        values = [row["measures"][name] for row in summary["folds"]]
        assert summary["mean"][name] == pytest.approx(np.mean(values))
        assert summary["spread"][name] == pytest.approx(np.std(values, ddof=1))
    assert answer(call(*arguments, "--json")) == summary


@pytest.mark.parametrize("estimator", ["map", "max-margin"])
def test_alpha_is_chosen_on_the_next_part(call, table, tmp_path, estimator):
    options = ["--alphas", "1,0.1,0.01", "--estimator", estimator]
    summary = answer(call("cv", table, "--folds", 4, *options, "--json"))
    split = shuffled_splits(N_GRAPHS, "graphs", 4, 0, is_search=True)[0]
    paths, model = write_parts(tmp_path, split), tmp_path / "m.json"
    valid = ["--cv", "--valid", paths["validation"]]
    fitted = answer(call("fit", paths["train"], "-m", model, *valid, *options, "--json"))
    first = summary["folds"][0]
    assert (first["n_train"], first["n_validation"], first["n_test"]) == (6, 3, 3)
    assert first["alpha"] == fitted["alpha"]
    criterion = {"map": "log_likelihood", "max-margin": "hamming"}[estimator]
    assert fitted["scoring"] == criterion
    by_hand = answer(call("evaluate", model, paths["test"], "--json"))
    assert first["measures"] == pytest.approx({name: by_hand[name] for name in SHARED})


def test_one_graph_is_split_by_component(call, table, tmp_path):
    one = write(tmp_path / "one.csv", [row[1:] for row in planted_rows()], HEAD[1:])
    options = ["--alpha", 0.1, "--folds", 3]
    result = call("cv", one, *options, "--json")
    assert "the folds are made of the 12 components" in result.stderr
    summary = answer(result)
    assert summary["split_by"] == "components"
    expected = answer(call("cv", table, *options, "--json"))["folds"]
    for row, same in zip(summary["folds"], expected, strict=True):
        assert row["measures"] == pytest.approx(same["measures"], rel=1e-5, abs=1e-9)
    assert "parts" in call("cv", one, *options).stdout


def test_unmatched_nodes_of_one_fold_are_allowed_in_all(call, tmp_path):
    path = write(tmp_path / "t.csv", planted_rows(n_alone=1))
    summary = answer(call("cv", path, "--alpha", 0.1, "--folds", 3, "--json"))
    assert all(row["measures"]["log_likelihood"] < 0 for row in summary["folds"])
    refused = call("cv", path, "--alpha", 0.1, "--folds", 3, "--unmatched", "larger")
    assert refused.exit_code == FAILURE
    assert "unmatched='larger'" in refused.stderr


def test_graphs_without_labels_are_left_out(call, tmp_path):
    rows = planted_rows()
    for row in rows:
        if int(row[0][1:]) >= 4:
            row[3] = ""
    path = write(tmp_path / "t.csv", rows)
    summary = answer(call("cv", path, "--alpha", 0.1, "--folds", 4, "--json"))
    assert [row["n_test"] for row in summary["folds"]] == [1, 1, 1, 1]
    result = call("cv", path, "--alpha", 0.1, "--folds", 5)
    assert result.exit_code == FAILURE
    assert "at most the number of labelled components, 4" in result.stderr


def test_output(call, table, tmp_path):
    out = tmp_path / "folds.csv"
    result = call("cv", table, "--folds", 3, "--alpha", 0.1, "--out", out)
    assert result.exit_code == OK, result.output
    for word in (
        "fold",
        "graphs",
        "precision",
        "F1",
        "ECE",
        "mean",
        "alpha given",
        "Confidence",
    ):
        assert word in result.stdout
    assert max(map(len, result.stdout.splitlines()[:-2])) <= 80
    summary = answer(call("cv", table, "--folds", 3, "--alpha", 0.1, "--json"))
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["fold"] for row in rows] == ["1", "2", "3"]
    for row, fold in zip(rows, summary["folds"], strict=True):
        assert float(row["f1"]) == fold["measures"]["f1"]
    fast = call("cv", table, "--alpha", 0.1, "--no-probabilities")
    assert fast.exit_code == OK
    assert "ECE" not in fast.stdout
    piped = call("cv", "-", "--folds", 3, "--alpha", 0.1, input=table.read_text())
    assert piped.stdout == result.stdout


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--folds", 1], WRONG_USAGE, "'--folds'"),
        (["--folds", 2], FAILURE, "at least 3 (to test, to choose alpha and to train)"),
        (["--folds", 13], FAILURE, "at most the number of labelled components, 12"),
        (["--alpha", 1, "--alphas", "1,2"], WRONG_USAGE, "exclude each other"),
        (["--alphas", "evidence"], WRONG_USAGE, "evidence is for fit; cv chooses"),
        (["--alpha", 1, "--false", 2], WRONG_USAGE, "needs --decode bayes"),
        (["--label-column", "truth"], FAILURE, "must say which pairs match"),
    ],
)
def test_refusals(call, table, tmp_path, options, status, words):
    out = tmp_path / "folds.csv"
    result = call("cv", table, "--out", out, *options)
    assert result.exit_code == status, result.output
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("n_done", [0, 2])
def test_ctrl_c_keeps_finished_folds(call, table, tmp_path, monkeypatch, n_done):
    from permatch.cli.match import folds

    fit, n_calls = folds.fit_model, 0

    def interrupted(*args, **options):
        nonlocal n_calls
        n_calls += 1
        return n_calls > n_done or fit(*args, **options)

    monkeypatch.setattr(folds, "fit_model", interrupted)
    out = tmp_path / "folds.csv"
    arguments = ["cv", table, "--alpha", 0.1, "--folds", 4, "--out", out, "--json"]
    result = call(*arguments)
    assert result.exit_code == INTERRUPTED
    if n_done == 0:
        assert result.stderr == "interrupted; nothing was written.\n"
        assert not out.exists()
        return
    assert result.stderr == "interrupted after 2 of 4 folds; only these are reported.\n"
    assert len(out.read_text().splitlines()) == 1 + n_done
    monkeypatch.undo()
    found, whole = json.loads(result.stdout), answer(call(*arguments[:-3], "--json"))
    assert found["folds"] == whole["folds"][:2]
