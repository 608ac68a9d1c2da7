"""Training on Dask: any scheduler, any partitions, and workers that die."""

import os
import signal
import threading

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

import permatch as pm
from permatch import _optional
from permatch.cli.main import app
from permatch.distributed import dask_rows, dask_shards
from permatch.distributed.dask_shards import DaskShards
from permatch.distributed.sources import Roles
from permatch.errors import (
    DocumentTypeError,
    InvalidOptionError,
    InvalidQueriesError,
    MissingDependencyError,
    NaNDocumentError,
    TableError,
)
from tests.distributed.judged import (
    FEATURES,
    cut,
    estimators,
    frame_of,
    judged_lists,
    write_letor,
    write_parquet,
)

LISTS = judged_lists()
FRAME = frame_of(*LISTS)
MODEL = pm.RankMatch(alpha=0.1, scaling="minmax")


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def parted(frame, n_parts):
    """Return a Dask DataFrame whose partitions cut queries, some of them empty."""
    parts = [dask.delayed(frame.iloc[rows]) for rows in cut(len(frame), n_parts)]
    return dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)


def chunked(n_parts):
    """Return the lists as Dask arrays."""
    sizes = tuple(rows.stop - rows.start for rows in cut(len(FRAME), n_parts))
    return [da.from_array(own, chunks=(sizes, *own.shape[1:])) for own in LISTS]


@pytest.mark.filterwarnings("ignore:the chosen alpha")
@pytest.mark.parametrize("name", ["subsets", "dorm", "ridge", "search"])
def test_the_same_coefficients_as_in_memory(name):
    held = clone(estimators()[name]).fit(*LISTS)
    spread = clone(held).fit(parted(FRAME, 3), "grade", "query", feature_names=FEATURES)
    np.testing.assert_allclose(spread.coef_, held.coef_, rtol=0, atol=1e-9)
    assert spread.feature_names_ == FEATURES
    assert getattr(spread, "alpha_", 0) == getattr(held, "alpha_", 0)


@pytest.mark.parametrize("n_parts", [2, 7])
def test_all_collections_give_the_same_bits(n_parts):
    table = parted(FRAME[[*FEATURES, "grade", "query"]], n_parts)
    slices = cut(len(FRAME), n_parts)
    listed = [dask.delayed(tuple(own[rows] for own in LISTS)) for rows in slices]
    fits = [
        clone(MODEL).fit(table, "grade", "query"),
        clone(MODEL).fit(table[FEATURES], table["grade"], table["query"]),
        clone(MODEL).fit(*chunked(n_parts)),
        clone(MODEL).fit(listed),
    ]
    with dask.config.set(scheduler="threads"):
        fits.append(clone(MODEL).fit(table, "grade", "query"))
    held = clone(MODEL).fit(*LISTS)
    np.testing.assert_allclose(fits[0].coef_, held.coef_, rtol=0, atol=1e-9)
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)


def test_a_query_may_span_several_partitions_and_only_its_rows_move(monkeypatch):
    moved = []
    find = dask_rows.find_ends

    def note(rows):
        ends = find(rows)
        moved.append(0 if ends is None else len(ends.head) + len(ends.tail))
        return ends

    X, y, _ = judged_lists()
    qid = np.repeat([0, 1, 2], [10, len(X) - 20, 10])
    slices = [slice(k, k + 20) for k in range(0, len(X), 20)]
    listed = [dask.delayed((X[rows], y[rows], qid[rows])) for rows in slices]
    held = clone(MODEL).fit(X, y, qid)
    spread = clone(MODEL).fit(listed)
    np.testing.assert_allclose(spread.coef_, held.coef_, rtol=0, atol=1e-9)
    monkeypatch.setattr(dask_rows, "find_ends", note)
    clone(MODEL).fit(parted(FRAME, 4), "grade", "query")
    longest = np.bincount(LISTS[2]).max()
    assert max(moved) <= 2 * longest


@pytest.mark.parametrize("scaling", [None, "minmax"])
def test_predictions_are_of_the_same_kind(scaling):
    X, y, qid = LISTS
    model = pm.QueryRidge(scaling=scaling).fit(FRAME[FEATURES], y, qid)
    wanted = model.predict(FRAME[FEATURES], qid)
    table = parted(FRAME, 9)
    ran = []
    with dask.config.set(scheduler=lambda *args, **more: ran.append(args)):
        series = model.predict(table, qid="query")
    assert not ran
    assert isinstance(series, dd.Series)
    found = series.compute()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_array_equal(found.index, FRAME.index)
    documents, _, queries = chunked(9)
    array = model.predict(documents, qid=queries)
    assert isinstance(array, da.Array)
    assert array.shape == (len(X),)
    np.testing.assert_allclose(array.compute(), wanted, rtol=1e-12)
    listed = [dask.delayed((X[rows], None, qid[rows])) for rows in cut(len(X), 9)]
    (parts,) = dask.compute(model.predict(listed))
    np.testing.assert_allclose(np.concatenate(parts), wanted, rtol=1e-12)
    wanted = model.score(FRAME[FEATURES], y, qid)
    assert model.score(table, "grade", "query") == pytest.approx(wanted)


def test_ctrl_c_keeps_the_best_so_far(monkeypatch):
    calls = []

    def interrupted(self, function, *arguments):
        calls.append(function)
        if len(calls) == 12:
            signal.raise_signal(signal.SIGINT)
        return whole(self, function, *arguments)

    whole = DaskShards.map
    monkeypatch.setattr(DaskShards, "map", interrupted)
    model = pm.RankMatch(alpha=1e-3)
    with pytest.warns(ConvergenceWarning, match="was interrupted after"):
        model.fit(parted(FRAME, 3), "grade", "query")
    assert model.coef_.any()


# ---- a cluster ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    # Workers that were killed are replaced, with noise.
    with Client(cluster) as client, dask.config.set(scheduler=None):
        client.wait_for_workers(2)
        yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_costs_a_retry(client, monkeypatch):
    table = parted(FRAME, 7)
    wanted = clone(MODEL).fit(table, "grade", "query")
    with dask.config.set(scheduler="synchronous"):
        alone = clone(MODEL).fit(table, "grade", "query")
    np.testing.assert_array_equal(wanted.coef_, alone.coef_)
    calls, whole = [], DaskShards.map

    def killing(self, function, *arguments):
        calls.append(function)
        if len(calls) == 9:
            victim = next(iter(client.run(os.getpid).values()))
            threading.Timer(0.01, os.kill, (victim, signal.SIGKILL)).start()
        return whole(self, function, *arguments)

    monkeypatch.setattr(DaskShards, "map", killing)
    found = clone(MODEL).fit(table, "grade", "query")
    assert len(calls) > 9
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_lost_arguments_are_sent_again(client, monkeypatch):
    shards = DaskShards([dask.delayed(3), dask.delayed(4)]).persisted()
    sent = []

    def lose(self, arguments):
        sent.append(arguments)
        raise OSError("the worker is gone")

    monkeypatch.setattr(DaskShards, "_scatter", lose)
    assert shards.map(pow, 2) == [9, 16]
    assert sent == [(2,)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_command_line_on_a_cluster(client, cluster, tmp_path):
    frame = FRAME.rename(columns={"query": "qid"}).drop(columns="weight")
    folders = [
        write_parquet(tmp_path / "parquet", frame, 3),
        write_letor(tmp_path / "letor", *LISTS, 3),
    ]
    held = clone(MODEL).fit(*LISTS)
    for folder in folders:
        for where in (["--dask", cluster.scheduler_address], ["--from-disk"]):
            model = tmp_path / "model.json"
            options = ["rank", "fit", str(folder), "-m", str(model), "--alpha", "0.1"]
            options += ["--scaling", "minmax"]
            done = CliRunner().invoke(app, [*options, *where])
            assert done.exit_code == 0, done.output
            np.testing.assert_allclose(pm.load(model).coef_, held.coef_, rtol=0, atol=1e-9)


# ---- bad input ---------------------------------------------------------------------------


def test_unsorted_rows_say_how_to_sort():
    frame = pd.concat([FRAME, FRAME.iloc[:2]])
    table = parted(frame, 4)
    with pytest.raises(InvalidQueriesError, match=r"partition 0 and .*ddf\.sort_values"):
        clone(MODEL).fit(table, "grade", "query")
    model = clone(MODEL).fit(FRAME[FEATURES], *LISTS[1:])
    turned = parted(pd.concat([FRAME.iloc[2:], FRAME.iloc[:2]]), 4)
    scores = model.predict(turned, qid="query")
    with pytest.raises(InvalidQueriesError, match=r"partition 3.*ddf\.sort_values"):
        scores.compute()


def test_values_that_are_missing_are_named_by_partition_and_row():
    frame = FRAME.assign(b=FRAME["b"].mask(FRAME.index == 100))
    with pytest.raises(NaNDocumentError, match=r"partition \d: .* at row \d+, column 1"):
        clone(MODEL).fit(parted(frame, 4), "grade", "query")


def test_roles_and_columns():
    table = parted(FRAME.assign(title="word"), 3)
    fit = clone(MODEL).fit
    with pytest.raises(InvalidQueriesError, match="y must be the name of a column"):
        fit(table)
    with pytest.raises(InvalidQueriesError, match="the Dask DataFrame .* lacks 'q'"):
        fit(table, "grade", "q")
    with pytest.raises(DocumentTypeError, match="'title' is not"):
        fit(table, "grade", "query", feature_names=["a", "title"])
    with pytest.raises(
        InvalidQueriesError, match="y must have the partitions of X, 3; got"
    ):
        fit(table[FEATURES], parted(FRAME, 4)["grade"], table["query"])
    documents, grades, queries = chunked(3)
    with pytest.raises(InvalidQueriesError, match="qid must be a Dask array too"):
        fit(documents, grades, LISTS[2])
    with pytest.raises(InvalidQueriesError, match="y must have one entry per document"):
        fit(documents, grades[:-1], queries)
    with pytest.raises(InvalidQueriesError, match="got 1 dimensions"):
        fit(grades, grades, queries)


def test_parts_that_differ_or_are_no_tuples():
    X, y, qid = LISTS
    some, others = slice(0, 100), slice(100, None)
    parts = [(X[some], y[some], qid[some]), (X[others, :2], y[others], qid[others] + 1)]
    with pytest.raises(InvalidQueriesError, match="partition 0 has 4, partition 1 has 2"):
        clone(MODEL).fit([dask.delayed(part) for part in parts])
    with pytest.raises(
        InvalidQueriesError, match=r"partition 0 must be a tuple .* got int"
    ):
        clone(MODEL).fit([dask.delayed(3)])
    with pytest.raises(InvalidQueriesError, match="got qid too. Put it into the parts"):
        clone(MODEL).fit([dask.delayed(parts[0])], qid="query")
    with pytest.raises(InvalidQueriesError, match="all partitions are empty"):
        clone(MODEL).fit(parted(FRAME.iloc[:0], 2), "grade", "query")
    model = clone(MODEL).fit(X, y, qid)
    with pytest.raises(
        InvalidQueriesError, match="partition 0: .*4 features of the fitted"
    ):
        dask.compute(model.predict([dask.delayed((X[:, :3], None, qid))]))


def test_parts_must_be_alike():
    X, y, qid = LISTS
    inside = int(np.flatnonzero(np.diff(qid) == 0)[30]) + 1  # a cut within a query
    some, others = slice(0, inside), slice(inside, None)
    whole = [(X[some], y[some], qid[some]), (X[others], y[others], qid[others])]

    def refused(message, first, second):
        with pytest.raises(InvalidQueriesError, match=message):
            clone(MODEL).fit([dask.delayed(first), dask.delayed(second)])

    one, other = whole
    refused("must be of one type in all parts", one, (*other[:2], other[2].astype(str)))
    refused(
        "partition 0 has no sample_weight, partition 1 has sample_weight",
        one,
        (*other, np.ones(len(other[1]))),
    )
    refused("partition 0 has 4, partition 1 has 2", one, (other[0][:, :2], *other[1:]))
    refused("0 has dense ones, .* 1 has sparse", one, (csr_array(other[0]), *other[1:]))
    refused("partition 1 must be a tuple .* it has no qid. Add it", one, other[:2])


def test_collections_of_another_kind():
    with pytest.raises(TableError, match=r"names that are text; got 0\. Rename"):
        clone(MODEL).fit(dd.from_pandas(pd.DataFrame(LISTS[0]), npartitions=2), "y", "q")
    with pytest.raises(InvalidQueriesError, match=r"must be a DataFrame.*got Bag"):
        clone(MODEL).fit(dask.bag.from_sequence([1, 2]), "y", "q")
    for model in (clone(MODEL), pm.MAPMatching()):
        with pytest.raises(InvalidOptionError, match=r"Put it into a list: fit\(\[part"):
            model.fit(dask.delayed(LISTS))


@pytest.mark.parametrize("write", [write_letor, write_parquet])
def test_workers_are_told_whole_paths(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = LISTS if write is write_letor else (FRAME,)
    write(tmp_path / "in", *data, 2)
    found = dask_rows.read_on_workers("in", Roles("grade", "query"))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    X, y, qid = found
    assert clone(MODEL).fit(X, y, qid).coef_.any()


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(_optional, "find_spec", lambda name: None)
    with pytest.raises(
        MissingDependencyError, match="needs dask: install the extra 'dask'"
    ):
        clone(MODEL).fit(parted_without_dask())


def parted_without_dask():
    class Part:
        __dask_graph__ = None

    return [Part()]


def test_a_scheduler_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(dask_shards, "_PATIENCE", 0.2)
    folder = write_letor(tmp_path / "letor", *LISTS, 2)
    options = ["--dask", "tcp://127.0.0.1:9", "-m", str(tmp_path / "m.json")]
    done = CliRunner().invoke(app, ["rank", "fit", str(folder), *options])
    assert done.exit_code == 1
    assert "must be the address of a Dask scheduler" in done.output
    assert " ".join(done.output.split()).endswith("check the address and the port.")
    both = CliRunner().invoke(app, ["rank", "fit", str(folder), *options, "--from-disk"])
    assert both.exit_code == 2
    assert "exclude each other" in both.output


def _applied(shard, function, *more):
    return function(shard, *more)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_a_function_may_be_an_argument(scheduler):
    shards = DaskShards([dask.delayed([1, 2]), dask.delayed([3])])
    with dask.config.set(scheduler=scheduler):
        assert shards.map(_applied, len) == [2, 1]
        assert shards.derive(_applied, sorted).keep(_applied, sum).map(str) == [
            "([1, 2], 3)",
            "([3], 3)",
        ]
