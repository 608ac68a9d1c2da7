"""``permatch match``: from a table to a model to matches, and every way to get it wrong."""

import csv
import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit
from typer.testing import CliRunner

import permatch as pm
from permatch.cli.match.commands import match
from permatch.datasets import read_edge_table
from permatch.estimators import MAPMatching, load
from permatch.labels import EdgeLabels
from permatch.metrics import calibration, hamming_loss, node_calibration

OK, FAILURE, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

PLANTED = {"distance": -2.0, "overlap": 1.0, "noise": 0.0}
N_TRAIN, N_TEST = 150, 60
# Standard errors of the planted coefficients at N_TRAIN graphs are about 0.1 and 0.07.
RECOVERY_TOL = 0.45


def planted_rows(rng, n_graphs, sizes=(2, 3, 4, 5, 6)):
    """Rows of graphs of mixed sizes whose matchings are drawn from the planted model."""
    coef = np.array(list(PLANTED.values()))
    for g in range(n_graphs):
        size = sizes[g % len(sizes)]
        features = rng.normal(size=(size, size, len(coef)))
        (truth,) = pm.MatchingDistribution(features @ coef).sample(1, rng=rng)
        for i in range(size):
            for j in range(size):
                yield [f"g{g}", f"a{i}", f"b{j}", int(truth[i] == j), *features[i, j]]


def write_table(path, rows, names=tuple(PLANTED), head=("graph", "left", "right", "label")):
    """Write rows as CSV, feature columns in the order of `names`."""
    columns = [*head, *PLANTED]
    order = [*head, *names]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(order)
        for row in rows:
            cells = dict(zip(columns, row, strict=True))
            writer.writerow(cells[name] for name in order)
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A training table, and a test table with its features in another order."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(7)
    train = write_table(folder / "train.csv", planted_rows(rng, N_TRAIN))
    test = write_table(
        folder / "test.csv",
        planted_rows(rng, N_TEST),
        names=("noise", "distance", "overlap"),
    )
    return train, test


@pytest.fixture(scope="module")
def model_file(tables, tmp_path_factory):
    """A model fitted by the command."""
    path = tmp_path_factory.mktemp("models") / "model.json"
    result = CliRunner().invoke(match, ["fit", str(tables[0]), "--model", str(path)])
    assert result.exit_code == OK, result.output
    return path


@pytest.fixture
def call():
    """Run a command in this process."""
    runner = CliRunner()
    return lambda *args, **options: runner.invoke(match, [*map(str, args)], **options)


def read_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


# ---- the whole way -----------------------------------------------------------------------


def test_fit_recovers_what_was_planted(call, tables, tmp_path):
    path = tmp_path / "model.json"
    result = call("fit", tables[0], "--model", path, "--alpha", "1e-4", "--json")
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    assert result.stderr == ""
    assert summary["n_graphs"] == N_TRAIN
    assert summary["n_left"] == summary["n_right"] == 4 * N_TRAIN
    assert summary["n_pairs"] == sum(size**2 for size in range(2, 7)) * N_TRAIN // 5
    assert summary["unmatched"] == "larger"
    assert summary["is_converged"] is True
    assert summary["grad_norm"] <= 1e-6
    found = {row["feature"]: row["coef"] for row in summary["coefficients"]}
    assert list(found) == list(PLANTED)
    for name, coef in PLANTED.items():
        assert found[name] == pytest.approx(coef, abs=RECOVERY_TOL)
    assert files_in(tmp_path) == ["model.json"]

    table = read_edge_table(tables[0])
    direct = MAPMatching(alpha=1e-4).fit(table.graphs, table.matchings)
    model = load(path)
    np.testing.assert_array_equal(model.coef_, direct.coef_)
    assert model.feature_names_ == list(PLANTED)
    assert model.verbose is False
    loss = 1.0 - direct.score(table.graphs, table.matchings)
    assert summary["hamming_loss"] == pytest.approx(loss)


def test_predict_and_evaluate_agree_with_the_library(call, tables, model_file, tmp_path):
    model = load(model_file)
    table = read_edge_table(tables[1]).arrange_features(list(PLANTED))
    matchings = model.predict(table.graphs)
    marginals = model.predict_marginals(table.graphs)

    out = tmp_path / "matches.csv"
    result = call("predict", model_file, tables[1], "--out", out)
    assert (result.exit_code, result.output) == (OK, "")
    rows = read_rows(out.read_text())
    assert list(rows[0]) == ["graph", "left", "right", "probability"]
    assert len(rows) == sum(graph.size for graph in table.graphs)
    expected = [
        (table.graph_ids[g], table.left_ids[g][i], table.right_ids[g][j], chance)
        for g, (graph, matching) in enumerate(zip(table.graphs, matchings, strict=True))
        for i, j, chance in zip(
            graph.structure.left, graph.structure.right, marginals[g], strict=True
        )
        if matching[i] == j
    ]
    found = [
        (row["graph"], row["left"], row["right"], float(row["probability"])) for row in rows
    ]
    assert found == expected

    answer = json.loads(call("evaluate", model_file, tables[1], "--json").stdout)
    assert answer["n_graphs"] == N_TEST
    assert answer["hamming_loss"] == pytest.approx(hamming_loss(table.matchings, matchings))
    is_exact = [(a == b).all() for a, b in zip(matchings, table.matchings, strict=True)]
    assert answer["exact_share"] == pytest.approx(np.mean(is_exact))
    mean = model.log_likelihood(table.graphs, table.matchings)
    assert answer["log_likelihood"] == pytest.approx(mean)
    known = [
        EdgeLabels((matching[graph.structure.left] == graph.structure.right).astype(int))
        for graph, matching in zip(table.graphs, table.matchings, strict=True)
    ]
    error = calibration(marginals, known).expected_calibration_error
    assert answer["expected_calibration_error"] == pytest.approx(error)
    nodes = node_calibration(marginals, known, graphs=table.graphs)
    for name in ("confidence", "accuracy"):
        assert answer[name] == pytest.approx(getattr(nodes, name))
    # Every node has a partner: one number for precision, recall and F1.
    right = sum((a == b).sum() for a, b in zip(matchings, table.matchings, strict=True))
    assert answer["n_correct"] == right
    assert answer["n_right"] == sum(graph.n_right for graph in table.graphs)
    assert answer["n_true"] == answer["n_found"] == answer["n_left"]
    assert answer["precision"] == answer["recall"] == right / answer["n_left"]
    assert answer["f1"] == pytest.approx(answer["precision"])
    # Matchings drawn from the model itself: it is calibrated, and far from guessing.
    assert answer["expected_calibration_error"] < 0.08
    assert answer["hamming_loss"] < 0.4


def test_bayes_decoding(call, tables, model_file):
    model = load(model_file)
    table = read_edge_table(tables[1]).arrange_features(list(PLANTED))
    matchings = model.predict(table.graphs, decode="bayes")
    rows = read_rows(call("predict", model_file, tables[1], "--decode", "bayes").stdout)
    expected = [
        table.right_ids[g][j] for g, matching in enumerate(matchings) for j in matching
    ]
    assert [row["right"] for row in rows] == expected
    answer = json.loads(
        call("evaluate", model_file, tables[1], "--decode", "bayes", "--json").stdout
    )
    assert answer["decode"] == "bayes"
    assert answer["hamming_loss"] == pytest.approx(hamming_loss(table.matchings, matchings))


def test_marginals_list_every_edge(call, tables, model_file):
    rows = read_rows(call("predict", model_file, tables[1], "--marginals").stdout)
    table = read_edge_table(tables[1])
    n_nodes = sum(graph.n_left + graph.n_right for graph in table.graphs)
    assert len(rows) == sum(graph.n_edges for graph in table.graphs) + n_nodes
    rows = [row for row in rows if row["left"] and row["right"]]
    sums = {}
    for row in rows:
        key = row["graph"], row["left"]
        sums[key] = sums.get(key, 0.0) + float(row["probability"])
    np.testing.assert_allclose(list(sums.values()), 1.0, atol=1e-9)
    assert sum(int(row["match"]) for row in rows) == len(sums)


def test_text_for_people(call, tables, model_file, tmp_path):
    result = call("fit", tables[0], "-m", tmp_path / "m.json", "--valid", tables[1])
    assert result.exit_code == OK, result.output
    for part in (
        "MAPMatching, alpha 0.01", "150, with 600 left", "converged after", "evaluations",
        "gradient norm", "of training nodes", "of validation nodes", "distance",
        "per standard deviation",
    ):  # fmt: skip
        assert part in result.stdout
    result = call("evaluate", model_file, tables[1])
    for part in (
        "Hamming loss",
        "exact matches",
        "log-likelihood",
        "calibration",
        "precision",
        "recall",
        "F1",
    ):
        assert part in result.stdout
    assert "\x1b" not in result.stdout


def test_labels_are_not_looked_at_by_predict(call, tables, model_file, tmp_path):
    path = tmp_path / "new.csv"
    text = tables[0].read_text()
    expected = call("predict", model_file, tables[0]).stdout
    lines = [line.split(",") for line in text.splitlines()]
    path.write_text("\n".join(",".join(cells[:3] + cells[4:]) for cells in lines))
    assert call("predict", model_file, path).stdout == expected
    path.write_text(
        "\n".join(
            ",".join([*cells[:3], "?" if k else cells[3], *cells[4:]])
            for k, cells in enumerate(lines)
        )
    )
    assert call("predict", model_file, path).stdout == expected


# ---- choices -----------------------------------------------------------------------------


def test_cross_validation(call, tables, tmp_path):
    path = tmp_path / "m.json"
    arguments = ["fit", tables[0], "-m", path, "--cv", "--folds", 3]
    result = call(*arguments, "--alphas", "10,0.01,1", "--json")
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    assert summary["estimator"] == "MAPMatchingCV"
    assert [row["alpha"] for row in summary["path"]] == [10.0, 1.0, 0.01]
    best = max(row["score"] for row in summary["path"])
    chosen = next(row for row in summary["path"] if row["alpha"] == summary["alpha"])
    assert chosen["score"] == best
    text = call(*arguments, "--alphas", "10,1,0.01", "--scoring", "hamming")
    assert text.exit_code == OK
    assert "hamming of 3 folds" in text.stdout
    assert "chosen" in text.stdout
    assert call("predict", path, tables[1]).exit_code == OK


def test_alpha_chosen_by_evidence(call, tables, tmp_path):
    path = tmp_path / "m.json"
    arguments = ["fit", tables[0], "-m", path, "--alphas", "evidence"]
    result = call(*arguments, "--json")
    assert result.exit_code == OK, result.output
    summary, model = json.loads(result.stdout), load(path)
    assert summary["alpha"] == model.alpha_
    assert summary["scoring"] == "log-evidence"
    assert max(row["score"] for row in summary["path"]) == model.log_evidence_
    text = call(*arguments, "--valid", tables[1])
    assert text.exit_code == OK, text.output
    assert "alphas tried, by evidence, which holds no graphs out" in text.stdout
    assert "log-evidence" in text.stdout
    assert "of validation nodes" in text.stdout
    for more, words in (
        (["--cv"], "without folds; drop --alpha, --cv and"),
        (["--folds", 3], "without folds; drop --alpha, --cv and"),
        (["--estimator", "max-margin"], "a likelihood: --estimator map"),
    ):
        wrong = call(*arguments, *more)
        assert wrong.exit_code == WRONG_USAGE
        assert words in " ".join(wrong.stderr.split())


def test_alpha_chosen_on_a_validation_table(call, tables, tmp_path):
    result = call(
        "fit", tables[0], "-m", tmp_path / "m.json", "--cv", "--valid", tables[1],
        "--alphas", "10,0.1,0.001", "--scoring", "hamming", "--json",
    )  # fmt: skip
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    assert summary["n_splits"] == 1
    assert summary["valid_hamming_loss"] == pytest.approx(
        min(row["score"] for row in summary["path"])
    )


@pytest.mark.parametrize(("flag", "sign"), [("--non-negative", 1), ("--non-positive", -1)])
def test_bounds(call, tables, tmp_path, flag, sign):
    path = tmp_path / "m.json"
    assert call("fit", tables[0], "-m", path, flag).exit_code == OK
    coef = load(path).coef_
    assert (sign * coef >= 0).all()
    assert (coef != 0).any()


@pytest.mark.parametrize("estimator", ["map", "max-margin"])
def test_prior_coefficients(call, tables, tmp_path, estimator):
    path = tmp_path / "m.json"
    arguments = ["fit", tables[0], "-m", path, "--alpha", 1e9, "--estimator", estimator]
    by_name = {"distance": -1.0, "overlap": 3.0}
    for prior, expected in (("-2", {}), ("overlap=3, distance=-1", by_name)):
        assert call(*arguments, "--prior-coef", prior).exit_code == OK
        model = load(path)
        wanted = [expected.get(name, 0.0) for name in model.feature_names_]
        np.testing.assert_allclose(model.coef_, wanted if expected else -2.0, atol=1e-4)
    unknown = call(*arguments, "--prior-coef", "height=1")
    assert unknown.exit_code == FAILURE
    assert "'height' is none of distance" in unknown.stderr


def test_alpha_chosen_in_order_of_time(call, tables, tmp_path):
    path = tmp_path / "m.json"
    arguments = ["fit", tables[0], "-m", path, "--cv", "--in-order", "--prior-coef", "-1"]
    assert call(*arguments, "--folds", 3).exit_code == OK
    model = load(path)
    assert repr(model.cv) == repr(TimeSeriesSplit(3))
    assert model.cv_results_["scores"].shape[1] == 3
    few = call(*arguments, "--folds", 1000)
    assert few.exit_code == FAILURE
    assert "--in-order needs more graphs than --folds" in few.stderr


def test_max_margin(call, tables, tmp_path):
    path = tmp_path / "m.json"
    result = call("fit", tables[0], "-m", path, "--estimator", "max-margin", "--json")
    assert result.exit_code == OK, result.output
    summary = json.loads(result.stdout)
    assert summary["estimator"] == "MaxMarginMatching"
    assert summary["gap"] >= 0
    found = {row["feature"]: row["coef"] for row in summary["coefficients"]}
    assert found["distance"] < 0 < found["overlap"]
    assert call("predict", path, tables[1]).exit_code == OK
    text = call("fit", tables[0], "-m", path, "--estimator", "max-margin").stdout
    assert "duality gap" in text


def test_unfinished_fits_say_so_and_are_kept(call, tables, tmp_path):
    path = tmp_path / "m.json"
    result = call("fit", tables[0], "-m", path, "--max-iter", 1)
    assert result.exit_code == OK
    assert result.stderr.startswith("warning: ")
    assert result.stderr.count("\n") == 1
    assert "not converged" in result.stdout
    assert load(path).is_converged_ is False


def test_columns_by_name_and_a_choice_of_features(call, tables, tmp_path):
    path = tmp_path / "train.csv"
    text = tables[0].read_text().replace("graph,left,right,label", "day,from,to,same", 1)
    path.write_text(text)
    names = ["--graph-column", "day", "--left-column", "from", "--right-column", "to"]
    names += ["--label-column", "same", "--features", "overlap,distance"]
    model = tmp_path / "m.json"
    assert call("fit", path, "-m", model, *names).exit_code == OK
    assert load(model).feature_names_ == ["overlap", "distance"]
    result = call("predict", model, path, *names)
    assert result.stdout.startswith("day,from,to,probability\n")
    # The model knows its columns; others may be there.
    assert load(model).columns_ == {
        "graph": "day", "left": "from", "right": "to", "label": "same"
    }  # fmt: skip
    assert call("predict", model, path).stdout == result.stdout
    assert call("evaluate", model, path).exit_code == OK
    assert call("predict", model, tables[0]).exit_code == FAILURE
    other = ["--graph-column", "graph", "--left-column", "left", "--right-column", "right"]
    assert call("predict", model, tables[0], *other).exit_code == OK


def test_columns_left_out_are_mentioned(call, tables, tmp_path):
    path = tmp_path / "train.csv"
    header, *lines = tables[0].read_text().splitlines()
    path.write_text("\n".join([f"{header},remark", *(f"{line},fine" for line in lines)]))
    result = call("fit", path, "-m", tmp_path / "m.json", "--json")
    assert result.exit_code == OK
    assert "remark" in result.stderr
    assert json.loads(result.stdout)["n_features"] == 3


def test_standard_input(call, tables, model_file):
    expected = call("predict", model_file, tables[1]).stdout
    text = "\ufeff" + tables[1].read_text()
    assert call("predict", model_file, "-", input=text).stdout == expected
    broken = call("predict", model_file, "-", input="graph,left\n")
    assert broken.exit_code == FAILURE
    assert "standard input must have the columns" in broken.stderr


def test_parquet(call, tables, model_file, tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = pandas.read_csv(tables[1])
    path = tmp_path / "test.parquet"
    frame.sample(frac=1.0, random_state=0).sort_values("graph").to_parquet(path)
    found = json.loads(call("evaluate", model_file, path, "--json").stdout)
    expected = json.loads(call("evaluate", model_file, tables[1], "--json").stdout)
    assert found["hamming_loss"] == pytest.approx(expected["hamming_loss"])
    assert found["log_likelihood"] == pytest.approx(expected["log_likelihood"])


def test_a_pair_without_a_row_cannot_match(call, tables, tmp_path, model_file):
    path = tmp_path / "sparse.csv"
    lines = tables[0].read_text().splitlines()
    dropped = next(k for k, line in enumerate(lines) if line.split(",")[3] == "0")
    pair = lines.pop(dropped).split(",")[:3]
    path.write_text("\n".join(lines))
    assert call("evaluate", model_file, path).exit_code == OK
    rows = read_rows(call("predict", model_file, path, "--marginals").stdout)
    assert pair not in [[row["graph"], row["left"], row["right"]] for row in rows]
    assert call("fit", path, "-m", tmp_path / "m.json").exit_code == OK


def test_large_graphs_can_do_without_probabilities(call, model_file, tmp_path):
    rng = np.random.default_rng(0)
    rows = (
        ["g", i, j, 0, *rng.normal(size=len(PLANTED))] for i in range(40) for j in range(40)
    )
    path = write_table(tmp_path / "large.csv", rows)
    assert call("predict", model_file, path).exit_code == OK  # approximately
    refused = call("predict", model_file, path, "--engine", "glynn")
    assert refused.exit_code == FAILURE
    assert "--no-probabilities" in refused.stderr
    result = call("predict", model_file, path, "--no-probabilities")
    assert result.exit_code == OK
    assert result.stdout.startswith("graph,left,right\n")
    assert len(result.stdout.splitlines()) == 41
    labelled = tmp_path / "labelled.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    for line in lines[1:]:
        line[3] = str(int(line[1] == line[2]))
    labelled.write_text("\n".join(map(",".join, lines)))
    refused = call("evaluate", model_file, labelled, "--engine", "glynn")
    assert "--no-probabilities" in refused.stderr
    options = ["--no-probabilities", "--json"]
    answer = json.loads(call("evaluate", model_file, labelled, *options).stdout)
    assert answer["log_likelihood"] is None
    assert answer["expected_calibration_error"] is None
    assert 0.0 < answer["hamming_loss"] <= 1.0
    assert call("evaluate", model_file, labelled, options[0]).exit_code == OK


def test_models_without_feature_names_take_columns_in_order(call, tables, tmp_path):
    table = read_edge_table(tables[0])
    model = MAPMatching().fit(table.graphs, table.matchings)
    path = tmp_path / "m.json"
    model.save(path)
    assert call("predict", path, tables[0]).exit_code == OK
    result = call("predict", path, tables[0], "--features", "noise")
    assert result.exit_code == FAILURE
    assert "features" in result.stderr


def test_threads_and_engines_change_nothing(call, tables, model_file):
    expected = call("predict", model_file, tables[1]).stdout
    assert call("predict", model_file, tables[1], "--jobs", 2).stdout == expected
    rows = read_rows(call("predict", model_file, tables[1], "--engine", "subset_dp").stdout)
    for found, other in zip(rows, read_rows(expected), strict=True):
        assert found["right"] == other["right"]
        assert float(found["probability"]) == pytest.approx(float(other["probability"]))


# ---- wrong usage and failures ------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", [[], ["fit"], ["predict"], ["evaluate"], ["cv"]])
def test_help_teaches_by_example(call, command, flag):
    result = call(*command, flag)
    assert result.exit_code == OK
    assert "permatch match" in result.output
    assert "Examples" in result.output


@pytest.mark.parametrize(
    "args",
    [
        ["fit"],
        ["fit", "TRAIN"],
        ["fit", "TRAIN", "-m", "NEW", "--alpha", "1", "--cv"],
        ["fit", "TRAIN", "-m", "NEW", "--alpha", "-1"],
        ["fit", "TRAIN", "-m", "NEW", "--alpha", "nan"],
        ["fit", "TRAIN", "-m", "NEW", "--alphas", "1,2"],
        ["fit", "TRAIN", "-m", "NEW", "--cv", "--alphas", "1,x"],
        ["fit", "TRAIN", "-m", "NEW", "--cv", "--alphas", ""],
        ["fit", "TRAIN", "-m", "NEW", "--cv", "--folds", "1"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "guess"],
        ["fit", "TRAIN", "-m", "NEW", "--estimator", "max-margin", "--non-negative"],
        ["fit", "TRAIN", "-m", "NEW", "--non-negative", "--non-positive"],
        ["fit", "TRAIN", "-m", "NEW", "--prior-coef", "low"],
        ["fit", "TRAIN", "-m", "NEW", "--prior-coef", "nan"],
        ["fit", "TRAIN", "-m", "NEW", "--prior-coef", "distance=1,overlap"],
        ["fit", "TRAIN", "-m", "NEW", "--prior-coef", ""],
        ["fit", "TRAIN", "-m", "NEW", "--in-order"],
        ["fit", "TRAIN", "-m", "NEW", "--cv", "--in-order", "--valid", "TRAIN"],
        ["fit", "TRAIN", "-m", "NEW", "--engine", "warp"],
        ["fit", "TRAIN", "-m", "NEW", "--jobs", "0"],
        ["fit", "TRAIN", "-m", "NEW", "--features", ""],
        ["fit", "TRAIN", "-m", "NEW", "--features", "a,,b"],
        ["fit", "TRAIN", "-m", "NEW", "--unmatched", "some"],
        ["fit", "TRAIN", "-m", "TRAIN"],
        ["predict", "MODEL"],
        ["predict", "MODEL", "TRAIN", "--decode", "best"],
        ["predict", "MODEL", "TRAIN", "--no-probabilities", "--marginals"],
        ["predict", "MODEL", "TRAIN", "--no-probabilities", "--decode", "bayes"],
        ["predict", "MODEL", "TRAIN", "--false", "2"],
        ["predict", "MODEL", "TRAIN", "--threshold", "0.3"],
        ["predict", "MODEL", "TRAIN", "--threshold", "0.9", "--decode", "bayes"],
        ["predict", "MODEL", "TRAIN", "--threshold", "0.9", "--no-probabilities"],
        ["predict", "MODEL", "TRAIN", "--decode", "bayes", "--false", "-1"],
        ["predict", "MODEL", "TRAIN", "--out", "TRAIN"],
        ["predict", "MODEL", "TRAIN", "--out", "MODEL"],
        ["predict", "MODEL", "TRAIN", "--engine", "warp"],
        ["evaluate", "MODEL", "TRAIN", "--no-probabilities", "--decode", "bayes"],
        ["evaluate", "MODEL", "TRAIN", "--nonsense"],
    ],
)
def test_wrong_usage_exits_with_2_and_writes_nothing(
    call, tables, model_file, tmp_path, args
):
    places = {"TRAIN": tables[0], "MODEL": model_file, "NEW": tmp_path / "new.json"}
    before = tables[0].read_bytes(), model_file.read_bytes()
    result = call(*(places.get(arg, arg) for arg in args))
    assert result.exit_code == WRONG_USAGE, result.output
    assert result.stdout == ""
    assert (tables[0].read_bytes(), model_file.read_bytes()) == before
    assert files_in(tmp_path) == []


def assert_failed(result, message):
    assert result.exit_code == FAILURE, result.output
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


HEADER = "graph,left,right,label,distance"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("graph,left,right,distance\ng,a,p,1\n", "1 or 0 in a column 'label'"),
        (f"{HEADER}\ng,a,p,1,0\ng,a,p,1,0\n", "and line 3"),
        (f"{HEADER}\ng,a,p,1,nan\n", "'distance' is missing"),
        (f"{HEADER}\ng,a,p,0,1\n", "all its cells are 0 or empty"),
        (f"{HEADER}\ng,a,p,,1\n", "all its cells are empty"),
        (f"{HEADER}\ng,a,p,1,1\ng,a,q,1,1\n", "left id 'a' of graph 'g' has 2"),
        (f"{HEADER}\ng,,p,1,1\n", "the cell is empty at line 2"),
        (f"{HEADER}\ng,nan,p,1,1\n", "the cell is NaN at line 2"),
        (f"{HEADER}\ng,a,p,1\n", "line 2 of"),
    ],
)
def test_bad_tables_fail_in_one_line_and_leave_the_old_model(call, tmp_path, text, message):
    edges, model = tmp_path / "edges.csv", tmp_path / "model.json"
    edges.write_text(text)
    model.write_text("old")
    assert_failed(call("fit", edges, "--model", model), message)
    assert model.read_text() == "old"
    assert files_in(tmp_path) == ["edges.csv", "model.json"]


def test_files_that_cannot_be_read_or_written(call, tables, model_file, tmp_path):
    absent = tmp_path / "absent.csv"
    assert_failed(call("fit", absent, "-m", tmp_path / "m.json"), f"{absent}: No such")
    assert_failed(call("predict", absent, tables[1]), f"{absent}: No such")
    nowhere = tmp_path / "nowhere" / "m.json"
    assert_failed(call("fit", tables[0], "-m", nowhere), f"{nowhere}: its folder does not")
    out = call("predict", model_file, tables[1], "--out", nowhere)
    assert_failed(out, f"{nowhere}: its folder does not")
    folder = call("predict", model_file, tables[1], "--out", tmp_path)
    assert_failed(folder, f"{tmp_path}: Is a directory")
    assert_failed(call("fit", tables[0], "-m", tmp_path), f"{tmp_path}: Is a directory")
    assert files_in(tmp_path) == []


def test_foreign_and_truncated_models(call, tables, model_file, tmp_path):
    path = tmp_path / "model.json"
    for text in ("", "{}", "graph,left", model_file.read_text()[:-40]):
        path.write_text(text)
        assert_failed(call("predict", path, tables[1]), str(path))


def test_features_that_do_not_fit_the_model(call, tables, model_file, tmp_path):
    path = tmp_path / "edges.csv"
    text = tables[0].read_text()
    path.write_text(text.replace("noise", "sound", 1))
    result = call("evaluate", model_file, path)
    assert_failed(result, "'noise' not found in")
    valid = call("fit", tables[0], "-m", tmp_path / "m.json", "--valid", path)
    assert_failed(valid, f"{path}: the table must have the 3 features")
    assert files_in(tmp_path) == ["edges.csv"]


def test_engine_without_marginals(call, tables, tmp_path):
    result = call("fit", tables[0], "-m", tmp_path / "m.json", "--engine", "ryser")
    assert_failed(result, "marginals")


# ---- auto in a fit -----------------------------------------------------------------------


def test_a_fit_tells_what_it_does_before_it_begins(call, tmp_path, rng):
    table, path = tmp_path / "wide.csv", tmp_path / "m.json"
    rows = [["left", "right", "label", "x"]]
    for i in range(13):
        rows += [[f"a{i}", f"b{j}", int(i == j and i > 2), rng.normal()] for j in range(13)]
    table.write_text("".join(f"{','.join(map(str, row))}\n" for row in rows))
    result = call("fit", table, "-m", path, "--budget", "0.001", "--json")
    assert result.exit_code == OK, result.stderr
    note = result.stderr.splitlines()[0]  # a warning follows if it is far off
    assert note.startswith("note: auto: 1 component (169 of 169 pairs) by belief prop")
    assert "per evaluation" in note
    report = json.loads(result.stdout)["engine_report"]
    assert (report["n_exact"], report["n_approximate"]) == (0, 1)
    result = call("fit", table, "-m", path, "--budget", "inf")
    assert (result.exit_code, result.stderr) == (OK, "")
    result = call("fit", table, "-m", path)
    assert "inference 1 component solved exactly" in " ".join(result.stdout.split())


def test_alpha_is_chosen_on_one_component_by_entity(call, tmp_path, rng):
    table, path = tmp_path / "one.csv", tmp_path / "m.json"
    rows = [["left", "right", "label", "x"]]
    for i in range(30):
        for j in (i, (i + 1) % 30):
            is_link = int(i == j and i % 3 > 0)
            rows.append([f"a{i}", f"b{j}", is_link, 2.0 * is_link + rng.normal()])
    table.write_text("".join(f"{','.join(map(str, row))}\n" for row in rows))
    options = ["--cv", "--folds", "3", "--alphas", "0.1,1,10", "--json"]
    result = call("fit", table, "-m", path, *options)
    assert result.exit_code == OK, result.stderr
    assert "the folds are made of nodes, matched ones together" in result.stderr
    assert json.loads(result.stdout)["n_splits"] == 3
    result = call("fit", table, "-m", path, "--cv", "--folds", "21")
    assert_failed(result, "at most the number of pairs that match, 20")


def test_a_cross_validation_tells_once_what_it_does(call, tmp_path, rng):
    table = tmp_path / "wide.csv"
    rows = ["graph,left,right,label,x"]
    for g in range(3):
        pairs = [(i, j) for i in range(9) for j in range(9)]
        rows += [f"{g},a{i},b{j},{int(i == j > 2)},{rng.normal():.4f}" for i, j in pairs]
    table.write_text("\n".join(rows))
    options = ["--folds", 3, "--alpha", 0.1, "--budget", "1e-4", "--no-probabilities"]
    result = call("cv", table, *options)
    assert result.exit_code == OK, result.stderr
    assert result.stderr.count("note: auto: 2 components (162 of 162 pairs) by belief") == 1


@pytest.mark.parametrize("budget", ["0", "-1", "nan"])
def test_a_budget_is_a_time(call, tables, tmp_path, budget):
    result = call("fit", tables[0], "-m", tmp_path / "m.json", "--budget", budget)
    assert result.exit_code == WRONG_USAGE
    assert "must be a number of seconds above 0, or inf" in result.stderr


# ---- Ctrl-C ------------------------------------------------------------------------------


@pytest.fixture
def interrupt_after(monkeypatch):
    """Press Ctrl-C within the given evaluation of an objective."""
    from permatch.objectives import MatchingHinge, MatchingLikelihood

    def interrupt_after(n_evaluations):
        counter = iter(range(1, 10**6))

        def interrupted(evaluate):
            def wrapper(self, coef):
                if next(counter) == n_evaluations:
                    signal.raise_signal(signal.SIGINT)
                return evaluate(self, coef)

            return wrapper

        for objective, name in (
            (MatchingLikelihood, "evaluate"),
            (MatchingHinge, "risk_and_subgradient"),
        ):
            monkeypatch.setattr(objective, name, interrupted(getattr(objective, name)))

    return interrupt_after


@pytest.mark.parametrize("estimator", ["map", "max-margin"])
def test_ctrl_c_saves_the_best_model_so_far(
    call, tables, tmp_path, interrupt_after, estimator
):
    path = tmp_path / "m.json"
    interrupt_after(6)
    result = call("fit", tables[0], "-m", path, "--estimator", estimator)
    assert result.exit_code == INTERRUPTED
    assert result.stdout == ""
    assert "interrupted after" in result.stderr
    assert str(path) in result.stderr
    assert files_in(tmp_path) == ["m.json"]
    model = load(path)
    assert model.is_converged_ is False
    assert model.feature_names_ == list(PLANTED)
    coef = dict(zip(PLANTED, model.coef_, strict=True))
    assert coef["distance"] < 0 < coef["overlap"]


@pytest.mark.parametrize("estimator", ["map", "max-margin"])
def test_ctrl_c_before_the_first_step_writes_nothing(
    call, tables, tmp_path, interrupt_after, estimator
):
    interrupt_after(1)
    result = call("fit", tables[0], "-m", tmp_path / "m.json", "--estimator", estimator)
    assert result.exit_code == INTERRUPTED
    assert "before the first step; there is no model yet" in result.stderr
    assert result.stderr.endswith("nothing was written.\n")
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("n_evaluations", "words"),
    [
        (3, "within the first alpha, 10, fitted to one of the folds"),
        (15, "alphas"),
        (None, "after 6 alphas"),  # the first of the last fit, to all data
    ],
)
def test_ctrl_c_during_cross_validation(
    call, tables, tmp_path, interrupt_after, n_evaluations, words
):
    path = tmp_path / "m.json"
    line = "fit", tables[0], "-m", path, "--cv", "--folds", 2
    if n_evaluations is None:
        whole = json.loads(call(*line, "--json").stdout)
        n_evaluations = whole["path_evaluations"] + 1
        path.unlink()
    interrupt_after(n_evaluations)
    result = call(*line)
    assert result.exit_code == INTERRUPTED
    assert f"{words}; the best model so far is in {path}." in result.stderr
    model = load(path)
    assert model.is_converged_ is False
    assert model.coef_.any()


def test_ctrl_c_while_the_last_fit_is_prepared(call, tables, tmp_path, monkeypatch):
    from permatch.estimators import MAPMatching

    path, whole, calls = tmp_path / "m.json", MAPMatching._problem, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) == 3:  # after two folds
            signal.raise_signal(signal.SIGINT)
        return whole(self, *args)

    monkeypatch.setattr(MAPMatching, "_problem", interrupted)
    result = call("fit", tables[0], "-m", path, "--cv", "--folds", 2)
    assert result.exit_code == INTERRUPTED
    assert "after 6 alphas; the best model so far is in" in result.stderr
    assert load(path).coef_.any()


def test_ctrl_c_while_the_model_is_written_or_reported(call, tables, tmp_path, monkeypatch):
    from permatch.estimators import MAPMatching

    path = tmp_path / "m.json"
    for name in ("save", "score"):
        whole = getattr(MAPMatching, name)

        def interrupted(self, *args, whole=whole):
            signal.raise_signal(signal.SIGINT)
            return whole(self, *args)

        with monkeypatch.context() as patch:
            patch.setattr(MAPMatching, name, interrupted)
            result = call("fit", tables[0], "-m", path)
        assert result.exit_code == INTERRUPTED
        assert result.stderr.startswith("interrupted; the fit had ended, and its model is")
        assert load(path).is_converged_
        path.unlink()


def test_ctrl_c_before_incomplete_labels_are_used(call, tables, tmp_path, interrupt_after):
    # The fit starts with the nodes whose labels are known; one Ctrl-C ends it there.
    table, path = tmp_path / "open.csv", tmp_path / "m.json"
    lines = tables[0].read_text().splitlines()
    cells = [line.split(",") for line in lines]
    for row in cells[1::7]:
        row[3] = ""
    table.write_text("\n".join(map(",".join, cells)))
    interrupt_after(4)
    result = call("fit", table, "-m", path)
    assert result.exit_code == INTERRUPTED, result.stderr
    assert "the best model so far is in" in result.stderr
    assert load(path).coef_.any()


def test_ctrl_c_while_predicting_leaves_the_old_file(
    call, tables, model_file, tmp_path, monkeypatch
):
    def interrupt(self, graphs):
        raise KeyboardInterrupt

    out = tmp_path / "matches.csv"
    out.write_text("old")
    monkeypatch.setattr("permatch.estimators.BaseMatcher.predict_marginals", interrupt)
    result = call("predict", model_file, tables[1], "--out", out)
    assert result.exit_code == INTERRUPTED
    assert out.read_text() == "old"


# ---- in a process of its own -------------------------------------------------------------


def test_clean_in_a_pipe(tables, tmp_path):
    plain = {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS"}
    env = {key: value for key, value in os.environ.items() if key not in plain}
    code = (
        "from permatch.cli.match.commands import match; match(prog_name='permatch match')"
    )

    def run(*args):
        command = [sys.executable, "-c", code, *map(str, args)]
        return subprocess.run(
            command, capture_output=True, text=True, env=env, encoding="utf-8", check=False
        )

    path = tmp_path / "m.json"
    done = run("fit", tables[0], "--model", path)
    assert (done.returncode, done.stderr) == (OK, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    done = run("predict", path, tables[1])
    assert (done.returncode, done.stderr) == (OK, "")
    assert done.stdout.startswith("graph,left,right,probability\n")


def test_closed_standard_input(call, model_file, monkeypatch):
    monkeypatch.setattr("permatch.cli.shared.steps.sys.stdin", None)
    from permatch.cli.match.steps import read_table
    from permatch.errors import TableError

    with pytest.raises(TableError, match="it is closed. Pipe in a table"):
        read_table("-", {})


def test_sides_of_different_sizes(call, tmp_path):
    """Two payments a day for three invoices: one invoice stays open."""
    rng = np.random.default_rng(3)
    path = tmp_path / "days.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["day", "invoice", "payment", "is_match", "gap"])
        for day in range(30):
            invoices, shape = rng.normal(size=3), (3, 2) if day % 2 else (2, 3)
            paid = rng.permutation(3)
            for i in range(shape[0]):
                for j in range(shape[1]):
                    one, other = (i, paid[j]) if day % 2 else (paid[i], j)
                    gap = abs(invoices[one] - invoices[other] + 0.1 * rng.normal())
                    writer.writerow([day, f"i{i}", f"p{j}", int(one == other), gap])
    names = ["--graph-column", "day", "--left-column", "invoice"]
    names += ["--right-column", "payment"]
    labelled = [*names, "--label-column", "is_match"]
    model = tmp_path / "m.json"
    fitted = call("fit", path, "-m", model, "--cv", "--engine", "frontier", *labelled)
    assert fitted.exit_code == OK, fitted.output
    assert "only nodes left over on the larger side" in fitted.stdout
    found = json.loads(call("evaluate", model, path, "--json").stdout)
    assert found["hamming_loss"] < 0.2
    assert -1.0 < found["log_likelihood"] < 0.0
    assert found["n_true"] == found["n_found"] == 60
    table = read_rows(call("predict", model, path).stdout)
    links = [row for row in table if row["invoice"] and row["payment"]]
    assert len(links) == 60
    assert len(table) == 90  # and one node a day that stays unmatched
    assert {row["payment"] for row in links if row["day"] == "1"} == {"p0", "p1"}


# ---- nodes without a partner -------------------------------------------------------------


def registers(rng, n_graphs, n_left=5, n_right=4):
    """Rows of graphs whose nodes often have no partner, and which lack some pairs."""
    coef, unmatched = np.array(list(PLANTED.values())), 0.5
    for g in range(n_graphs):
        features = rng.normal(size=(n_left, n_right, len(coef)))
        is_listed = rng.random((n_left, n_right)) < 0.7
        is_listed[:, 0] = is_listed[0] = True
        scores = np.where(is_listed, features @ coef, -np.inf)
        truth = sample_partial(scores, unmatched, rng)
        for i, j in np.argwhere(is_listed):
            yield [f"g{g}", f"a{i}", f"b{j}", int(truth[i] == j), *features[i, j]]


def sample_partial(scores, unmatched, rng):
    """Draw a partial matching, by listing them all."""
    n_left, n_right = scores.shape
    found = [((), 0.0)]
    for i in range(n_left):
        found = [
            ((*matching, j), total + (unmatched if j < 0 else scores[i, j] - unmatched))
            for matching, total in found
            for j in range(-1, n_right)
            if j < 0 or (j not in matching and scores[i, j] > -np.inf)
        ]
    weights = np.exp([total for _, total in found])
    return found[rng.choice(len(found), p=weights / weights.sum())][0]


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """Two tables of registers, and a model of the first."""
    folder = tmp_path_factory.mktemp("linked")
    rng = np.random.default_rng(11)
    train = write_table(folder / "train.csv", registers(rng, 60))
    test = write_table(folder / "test.csv", registers(rng, 30))
    model = folder / "model.json"
    arguments = ["fit", str(train), "-m", str(model), "--engine", "frontier", "--json"]
    result = CliRunner().invoke(match, arguments)
    assert result.exit_code == OK, result.output
    return test, model, json.loads(result.stdout)


def test_fit_learns_the_score_of_staying_unmatched(linked):
    _, model, summary = linked
    assert summary["unmatched"] == "any"
    assert summary["unmatched_score"] == load(model).unmatched_intercept_
    assert summary["unmatched_score"] == pytest.approx(0.25, abs=0.4)
    expected = summary["expected_unmatched"]
    assert expected[0] - expected[1] == summary["n_left"] - summary["n_right"]
    found = {row["feature"]: row["coef"] for row in summary["coefficients"]}
    for name, coef in PLANTED.items():
        assert found[name] == pytest.approx(coef, abs=0.6)


def test_predict_says_who_stays_unmatched(call, linked):
    test, path, _ = linked
    model, table = load(path), read_edge_table(test)
    rows = read_rows(call("predict", path, test).stdout)
    matchings = model.predict(table.graphs)
    links = [row for row in rows if row["left"] and row["right"]]
    assert len(links) == sum((matching >= 0).sum() for matching in matchings)
    alone = [row for row in rows if not row["right"]]
    assert len(alone) == sum((matching < 0).sum() for matching in matchings)
    only = read_rows(call("predict", path, test, "--links-only").stdout)
    assert only == links
    # Of every node, the probabilities of its pairs and of having no partner sum to one.
    rows = read_rows(call("predict", path, test, "--marginals").stdout)
    for side in ("left", "right"):
        sums = {}
        for row in rows:
            if row[side]:
                key = row["graph"], row[side]
                sums[key] = sums.get(key, 0.0) + float(row["probability"])
        np.testing.assert_allclose(list(sums.values()), 1.0, atol=1e-9)


def test_evaluate_counts_links(call, linked):
    test, path, _ = linked
    model, table = load(path), read_edge_table(test)
    matchings = model.predict(table.graphs)
    answer = json.loads(call("evaluate", path, test, "--json").stdout)
    both = list(zip(matchings, table.matchings, strict=True))
    n_right = sum(((a == b) & (a >= 0)).sum() for a, b in both)
    assert answer["n_true"] == sum((b >= 0).sum() for _, b in both)
    assert answer["precision"] == n_right / sum((a >= 0).sum() for a, _ in both)
    assert answer["recall"] == n_right / answer["n_true"]
    assert answer["hamming_loss"] == pytest.approx(hamming_loss(table.matchings, matchings))
    mean = model.log_likelihood(table.graphs, table.matchings)
    assert answer["log_likelihood"] == pytest.approx(mean)
    assert answer["expected_calibration_error"] < 0.1


def test_costs_change_the_links(call, linked):
    test, path, _ = linked
    options = ["evaluate", path, test, "--json", "--decode", "bayes"]
    even = json.loads(call(*options).stdout)
    careful = json.loads(call(*options, "--false", 20, "--wrong", 20).stdout)
    assert careful["n_found"] < even["n_found"]
    assert careful["precision"] > even["precision"]
    asked = json.loads(call(*options, "--abstain", 0.05).stdout)
    assert asked["n_review"] > 0
    rows = read_rows(
        call("predict", path, test, "--decode", "bayes", "--abstain", 0.05).stdout
    )
    review = [row for row in rows if row["decision"] == "review" and row["left"]]
    assert len(review) == asked["n_review"]
    assert all(not row["right"] for row in review)


def test_nodes_left_to_a_person_count_as_wrong(call, linked):
    test, path, _ = linked
    model, table = load(path), read_edge_table(test)
    matchings = model.predict(table.graphs, "bayes", costs=pm.LinkCosts(abstain=0.1))
    arguments = ["evaluate", path, test, "--decode", "bayes", "--abstain", "0.1", "--json"]
    answer = json.loads(call(*arguments).stdout)
    assert answer["n_review"] == sum((m == pm.ABSTAINED).sum() for m in matchings) > 0
    assert answer["hamming_loss"] == pytest.approx(hamming_loss(table.matchings, matchings))
    assert "averaged over graphs" in " ".join(call(*arguments[:-1]).stdout.split())


def test_empty_labels_are_unknown(call, linked, tmp_path):
    test, path, _ = linked
    lines = [line.split(",") for line in test.read_text().splitlines()]
    rng = np.random.default_rng(0)
    for cells in lines[1:]:
        if rng.random() < 0.3:
            cells[3] = ""
    some = tmp_path / "some.csv"
    some.write_text("\n".join(map(",".join, lines)))
    arguments = ["fit", some, "-m", tmp_path / "m.json", "--engine", "frontier"]
    assert call(*arguments).exit_code == OK
    whole = json.loads(call("evaluate", path, test, "--json").stdout)
    part = json.loads(call("evaluate", path, some, "--json").stdout)
    assert part["n_true"] < whole["n_true"]
    assert part["n_found"] < whole["n_found"]
    assert part["log_likelihood"] > whole["log_likelihood"]


def test_a_table_without_graphs(call, linked, tmp_path):
    test, path, _ = linked
    lines = [line.split(",") for line in test.read_text().splitlines()]
    for cells in lines[1:]:
        cells[1:3] = [f"{cells[0]}-{cells[1]}", f"{cells[0]}-{cells[2]}"]
    one = tmp_path / "one.csv"
    one.write_text("\n".join(",".join(cells[1:]) for cells in lines))
    model = tmp_path / "m.json"
    assert call("fit", one, "-m", model, "--engine", "frontier").exit_code == OK
    assert load(model).columns_["graph"] is None
    rows = read_rows(call("predict", model, one).stdout)
    assert list(rows[0]) == ["left", "right", "probability"]
    chosen = call("fit", one, "-m", model, "--cv", "--engine", "frontier", "--json")
    assert chosen.exit_code == OK, chosen.output
    assert "the folds are made of the 30 components" in chosen.stderr
    assert json.loads(chosen.stdout)["n_graphs"] == 1
    answer = json.loads(call("evaluate", model, one, "--json").stdout)
    assert answer["n_graphs"] == 1
    assert answer["n_pairs"] == len(lines) - 1


def test_there_is_no_graph_to_name_without_a_column(call, linked, tmp_path):
    test, path, _ = linked
    lines = [line.split(",") for line in test.read_text().splitlines()]
    one = tmp_path / "one.csv"
    kept = [lines[0], *(cells for cells in lines[1:] if cells[0] == lines[1][0])]
    one.write_text("\n".join(",".join(cells[1:]) for cells in kept))
    model = tmp_path / "m.json"
    assert call("fit", one, "-m", model, "--alpha", "1").exit_code == OK
    result = call("show", model, one, "--graph", "1", "--out", tmp_path / "page.html")
    assert result.exit_code != OK
    assert "Drop --graph, or name the column" in " ".join(result.stderr.split())


def test_links_above_a_threshold(call, linked):
    test, path, _ = linked
    result = call("predict", path, test, "--threshold", 0.8, "--links-only")
    rows = read_rows(result.stdout)
    links = load(path).predict_links(read_edge_table(test).graphs, threshold=0.8)
    found = sorted(float(row["probability"]) for row in rows)
    np.testing.assert_allclose(found, links["probability"][::-1])
    assert result.stderr == (
        f"note: {len(rows)} links, expected precision {links['precision'][-1]:.4f}, "
        f"recall {links['recall'][-1]:.4f}\n"
    )
    answer = call("evaluate", path, test, "--threshold", 0.8, "--json")
    assert json.loads(answer.stdout)["n_found"] == len(rows)
    assert json.loads(answer.stdout)["decode"] == "threshold 0.8"
    assert call("predict", path, test, "--threshold", 1.0, "--links-only").exit_code == OK


def test_show_draws_unmatched_nodes(call, linked, tmp_path):
    test, path, _ = linked
    page = tmp_path / "m.html"
    shown = call("show", path, test, "--graph", "g1", "--out", page)
    assert shown.exit_code == OK, shown.output
    assert shown.stdout.startswith(f"wrote {page}: graph g1, 5 x 4 nodes, exact")
    text = page.read_text(encoding="utf-8")
    score = f"{load(path).unmatched_intercept_:.4g}"
    assert f"Any node may stay unmatched, at the score {score} (learned)." in text
    assert '"alone": [' in text


def test_show_one_component(call, linked, tmp_path):
    test, path, _ = linked
    lines = [line.split(",") for line in test.read_text().splitlines()]
    for cells in lines[1:]:
        cells[1:3] = [f"{cells[0]}-{cells[1]}", f"{cells[0]}-{cells[2]}"]
    one = tmp_path / "one.csv"
    one.write_text("\n".join(",".join(cells[1:]) for cells in lines))
    page = tmp_path / "m.html"
    shown = call("show", path, one, "--graph-column", "left", "--out", page)
    assert shown.exit_code != OK  # a column with two roles
    text = one.read_text().replace("left,right", "from,to", 1)
    one.write_text(text)
    names = ["--left-column", "from", "--right-column", "to"]
    model = tmp_path / "m.json"
    fitted = call("fit", one, "-m", model, "--engine", "frontier", *names)
    assert fitted.exit_code == OK, fitted.output
    shown = call("show", model, one, "--node", "g3-a2", "--out", page)
    assert shown.exit_code == OK, shown.output
    assert "5 x 4 nodes in 1 of 30 components" in shown.stdout
    assert "This page shows 1 of 30 components, those asked for." in page.read_text()
    refused = call("show", model, one, "--node", "g3-a9", "--out", page)
    assert refused.exit_code == WRONG_USAGE
    assert "did you mean g3-a" in refused.stderr
    shown = call("show", model, one, "--out", page)
    assert "150 x 120 nodes in 30 components, exact" in shown.stdout
    assert "left-out" not in page.read_text()
