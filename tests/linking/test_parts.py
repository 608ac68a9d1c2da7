"""Linking in parts gives the answer of linking in memory: to the last bit if exact."""

import json
import shutil

import dask
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError, TableError
from permatch.linking import constant, link_parts, parted
from permatch.linking.grouping import Grouping, hash_ids
from permatch.linking.ledger import Ledger, new_folder
from permatch.linking.totals import Total

N_PAIRS = 900


@pytest.fixture(scope="module")
def pairs():
    """Return scored pairs in components of some records, in random order."""
    rng = np.random.default_rng(3)
    left = np.repeat(np.arange(N_PAIRS // 3), 3)
    right = left // 6 * 6 + rng.integers(0, 2, N_PAIRS) + np.tile([0, 2, 4], N_PAIRS // 3)
    table = pd.DataFrame({"left": left, "right": right}).sample(frac=1.0, random_state=1)
    table["probability"] = rng.beta(1, 3, len(table))
    return table.reset_index(drop=True)


@pytest.fixture
def small_parts(monkeypatch):
    """Cut into parts of some pairs, and search a pilot first."""
    monkeypatch.setattr(link_parts, "PER_PART", 100)
    monkeypatch.setattr(constant, "LARGE", 100)
    monkeypatch.setattr(parted, "LARGE", 100)
    monkeypatch.setattr(constant, "_PILOT", 200)


def as_text(pairs):
    """Return the pairs with text as ids."""
    return pairs.assign(
        left="a" + pairs["left"].astype(str), right="b" + pairs["right"].astype(str)
    )


def write(pairs, folder, n_files=3):
    """Write pairs to Parquet files."""
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(pairs)), n_files)):
        table = pa.Table.from_pandas(pairs.iloc[rows], preserve_index=False)
        pq.write_table(table, folder / f"{k}.parquet")
    return folder


def assert_same(links, expected):
    """Compare links in parts with those in memory."""
    found = links.to_links()
    assert links.offset == expected.offset
    for name in expected.columns:
        assert found[name].tolist() == expected[name].tolist(), name
    assert links.summary() == expected.summary()
    assert len(links) == len(expected)
    assert links.expected_links == pytest.approx(expected.expected_links, rel=1e-12)
    top, wanted = links.review(5), expected.review(5)
    assert top["gain"].tolist() == wanted["gain"].tolist()


@pytest.mark.parametrize(
    "options", [{}, {"expected_links": 150.0}, {"expected_links": None}]
)
@pytest.mark.parametrize("kind", [as_text, lambda pairs: pairs])
def test_from_disk_as_in_memory(pairs, tmp_path, small_parts, kind, options):
    pairs = kind(pairs)
    links = pm.link(write(pairs, tmp_path / "in"), out=tmp_path / "out", **options)
    assert len(list((tmp_path / "out").glob("part-*.parquet"))) > 5
    assert links.is_exact
    assert_same(links, pm.link(pairs, **options))
    # A folder without out= is read into memory.
    assert pm.link(tmp_path / "in", **options).offset == links.offset


@pytest.mark.parametrize("n_partitions", [1, 4])
def test_on_dask_as_in_memory(pairs, tmp_path, small_parts, n_partitions):
    pairs = as_text(pairs)
    frame = dask.dataframe.from_pandas(pairs, npartitions=n_partitions, sort=False)
    with dask.config.set(scheduler="synchronous"):
        links = pm.link(frame)
        assert_same(links, pm.link(pairs))
        assert isinstance(links.table, dask.dataframe.DataFrame)
        table = links.table.compute()
        links.write(tmp_path / "written")
        again = pm.link(frame, out=tmp_path / "out")
    assert again.figures == links.figures
    assert table["row"].sort_values().tolist() == list(range(len(pairs)))
    files = sorted((tmp_path / "written").glob("part-*.parquet"))
    assert sum(len(pm.Links.read(file)) for file in files) == len(pairs)


def test_capacities_and_costs(pairs, tmp_path, small_parts):
    options = {
        "capacity_left": 2,
        "capacity_right": np.inf,
        "costs": pm.LinkCosts(false=2.0, abstain=0.2),
    }
    links = pm.link(write(pairs, tmp_path / "in"), out=tmp_path / "out", **options)
    assert_same(links, pm.link(pairs, **options))


def test_certain_and_forbidden_pairs(pairs, tmp_path, small_parts):
    weights = pairs.rename(columns={"probability": "match_weight"})
    weights["match_weight"] = np.random.default_rng(0).normal(0.0, 40.0, len(pairs))
    weights.loc[::50, "match_weight"] = np.inf
    weights.loc[7::50, "match_weight"] = -np.inf
    source = write(weights, tmp_path / "in")
    links = pm.link(source, out=tmp_path / "out", expected_links=200)
    assert_same(links, pm.link(weights, expected_links=200))


def test_a_giant_component_has_a_part_of_its_own(tmp_path, small_parts):
    rng = np.random.default_rng(5)
    left, right = np.nonzero(rng.random((60, 60)) < 0.4)
    table = pd.DataFrame({"left": left, "right": right})
    table["probability"] = rng.beta(0.2, 2.0, len(table))
    small = pd.DataFrame(
        {"left": [100, 101], "right": [100, 101], "probability": [0.4, 0.6]}
    )
    table = pd.concat([table.iloc[:5], small, table.iloc[5:]], ignore_index=True)
    source, options = write(table, tmp_path / "in"), {"budget": 0.2, "expected_links": 30}
    links = pm.link(source, out=tmp_path / "out", **options)
    counts = [
        pq.read_metadata(file).num_rows for file in sorted((tmp_path / "out").glob("p*"))
    ]
    assert counts == [len(table) - 2, 2]
    assert not links.is_exact
    assert "too wide" in links.summary()
    found = links.to_links()
    assert (found["low"] <= found["probability"]).all()
    assert found["is_exact"].tolist().count(True) == 2


def test_a_model_scores_parts(pairs, tmp_path, small_parts):
    labelled = pairs.assign(extra=np.arange(len(pairs)) % 7)
    partner = labelled.groupby("left")["probability"].transform("max")
    best = labelled.groupby("right")["probability"].transform("max")
    labelled["label"] = (labelled["probability"] == partner) & (
        labelled["probability"] == best
    )
    model = pm.fit_links(labelled, features=["probability", "extra"], engine="bethe")
    links = pm.link(write(labelled, tmp_path / "in"), model=model, out=tmp_path / "out")
    expected = pm.link(labelled, model=model)
    assert np.allclose(links.to_links()["probability"], expected["probability"], atol=1e-12)


def test_another_model_is_another_work(pairs, tmp_path, small_parts):
    labelled = pairs.assign(label=np.arange(len(pairs)) % 3 == 0)
    labelled = labelled.drop_duplicates("left").drop_duplicates("right")
    model = pm.fit_links(labelled, features=["probability"], engine="bethe")
    source = write(pairs, tmp_path / "in")
    pm.link(source, model=model, out=tmp_path / "out")
    model.history_ = []  # of the fit: the links are the same
    pm.link(source, model=model, out=tmp_path / "out")
    model.unmatched_intercept_ += 1.0
    with pytest.raises(
        InvalidOptionError, match="holds links of other pairs, or linked in"
    ):
        pm.link(source, model=model, out=tmp_path / "out")


def test_columns_of_any_name(pairs, tmp_path, small_parts):
    expected = pm.link(pairs)
    for names in ({"left": "part", "probability": "row"}, {"probability": "part"}):
        other = pairs.rename(columns=names)
        own = {"left": names.get("left", "left"), "probability": names["probability"]}
        frame = dask.dataframe.from_pandas(other, npartitions=2, sort=False)
        with dask.config.set(scheduler="synchronous"):
            links = pm.link(frame, right="right", **own)
            found = links.to_links()["probability"].tolist()
        assert found == expected["probability"].tolist()
    source = write(pairs.rename(columns={"right": "row"}), tmp_path / "in")
    with pytest.raises(TableError, match="must not be called 'row'.*Rename the column"):
        pm.link(source, left="left", right="row", out=tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_corrected_call_and_a_damaged_folder(pairs, tmp_path, small_parts):
    twice, out = pd.concat([pairs, pairs.iloc[[11]]], ignore_index=True), tmp_path / "out"
    with pytest.raises(TableError, match="has two"):
        pm.link(write(twice, tmp_path / "bad"), out=out)
    source = write(pairs, tmp_path / "in")
    expected = pm.link(source, out=out)
    (out / "part-00002.parquet").unlink()
    again = pm.link(source, out=out)
    assert again.figures == expected.figures
    assert again.to_links()["left"].tolist() == pairs["left"].tolist()
    assert not (out / "_pairs").exists()
    (out / "_link.json").write_text('{"key": ')
    with pytest.raises(InvalidOptionError, match="a damaged _link.json .*, or remove"):
        pm.link(source, out=out)


def test_ctrl_c_loses_nothing(pairs, tmp_path, small_parts, monkeypatch):
    source, out = write(pairs, tmp_path / "in"), tmp_path / "out"
    write_part, done = link_parts.write_part, []

    def noted(part, *arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(part.number)
        return write_part(part, *arguments)

    monkeypatch.setattr(link_parts, "write_part", noted)
    with pytest.raises(KeyboardInterrupt):
        pm.link(source, out=out)
    assert len(list(out.glob("part-*.parquet"))) == 3
    done.clear()
    monkeypatch.setattr(
        link_parts,
        "write_part",
        lambda part, *a: (done.append(part.number), write_part(part, *a)),
    )
    monkeypatch.setattr(link_parts, "find_constant", None)  # known from before
    links = pm.link(source, out=out)
    assert done[0] == 3
    assert_same(links, pm.link(pairs))
    assert not (out / "_pairs").exists()
    # Once more: all is there.
    done.clear()
    assert pm.link(source, out=out).figures == links.figures
    assert not done


def test_out_is_not_overwritten(pairs, tmp_path, small_parts):
    source = write(pairs, tmp_path / "in")
    pm.link(source, out=tmp_path / "out")
    with pytest.raises(
        InvalidOptionError, match="holds links of other pairs, or linked in"
    ):
        pm.link(source, out=tmp_path / "out", tol=0.1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("x")
    with pytest.raises(InvalidOptionError, match="not empty. Name another folder"):
        pm.link(source, out=tmp_path / "mine")


def test_bad_pairs_are_named_by_their_row(pairs, tmp_path, small_parts):
    def refused(bad, message):
        folder = tmp_path / "in"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        with pytest.raises(TableError, match=message):
            pm.link(write(bad, folder), out=tmp_path / "out")

    bad = pairs.copy()
    bad.loc[777, "probability"] = np.nan
    refused(bad, r"missing for pair .*, row 777 \(counted from 0\)")
    bad.loc[777, "probability"] = 1.5
    refused(bad, r"is 1.5 for pair .*, row 777 \(counted from 0\)")
    twice = pd.concat([pairs, pairs.iloc[[11]]], ignore_index=True)
    refused(twice, rf"has two, at row 11 \(counted from 0\) of .* and row {len(pairs)} ")
    bad = as_text(pairs)
    bad.loc[500, "right"] = None
    refused(bad, r"every pair needs a 'right'; the cell is empty at row 500 \(counted")
    refused(pairs.iloc[:0], "at least one pair is required; .* has no rows")
    refused(pairs.rename(columns={"left": "x"}), "must have the ids of the two records")


def test_bad_sources(pairs, tmp_path):
    (tmp_path / "in").mkdir()
    with pytest.raises(TableError, match="it holds none. Check the path"):
        pm.link(tmp_path / "in", out=tmp_path / "out")
    (tmp_path / "in" / "a.csv").write_text("left,right,probability\n1,2,0.5\n")
    with pytest.raises(TableError, match="Convert the pairs to Parquet"):
        pm.link(tmp_path / "in", out=tmp_path / "out")
    with pytest.raises(InvalidOptionError, match="out= is for pairs on disk or on Dask"):
        pm.link(pairs, out=tmp_path / "out")
    damaged = write(pairs, tmp_path / "damaged")
    last = max(damaged.iterdir())
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(TableError, match=f"{last.name} must be a complete Parquet file"):
        pm.link(damaged, out=tmp_path / "out")
    splink = pairs.assign(source_dataset_l="a", source_dataset_r="b")
    splink.loc[5, "source_dataset_r"] = "c"
    with pytest.raises(TableError, match="from two sources; got 3"):
        pm.link(write(splink, tmp_path / "three"), out=tmp_path / "out")
    array = dask.dataframe.from_pandas(pairs, npartitions=2).to_dask_array()
    with pytest.raises(TableError, match="from Dask as a DataFrame"):
        pm.link(array)


def test_files_may_hold_numbers_of_several_types(pairs, tmp_path, small_parts):
    certain = pairs.assign(probability=np.where(pairs.index < 3, 0.0, pairs["probability"]))
    (tmp_path / "in").mkdir()
    whole = certain.iloc[:3].astype({"probability": "int64"})
    for k, part in enumerate([whole, certain.iloc[3:]]):
        part.to_parquet(tmp_path / "in" / f"{k}.parquet", index=False)
    found = pm.link(tmp_path / "in", out=tmp_path / "out").to_links()
    assert (found["probability"] == pm.link(certain)["probability"]).all()


def test_an_arrow_dataset(pairs, tmp_path, small_parts):
    dataset = pyarrow.dataset.dataset(write(pairs, tmp_path / "in"))
    links = pm.link(dataset, out=tmp_path / "out")
    assert_same(links, pm.link(dataset))
    assert links.table.count_rows() == len(pairs)
    state = json.loads((tmp_path / "out" / "_link.json").read_text())
    assert state["offset"] == links.offset


def test_streamed_components_are_those_of_the_whole():
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, 4000, (2, 3000)).astype(np.uint64)
    other += np.uint64(1 << 40)
    whole = Grouping()
    whole.join(one, other)
    pieces = Grouping()
    for rows in np.array_split(np.arange(len(one)), 7):
        piece = Grouping()
        piece.join(one[rows], other[rows])
        pieces.merge(piece.forest)
    assert whole.deal(50) == pieces.deal(50) > 10
    parts = whole.parts(one)
    assert (parts == whole.parts(other)).all()
    assert (parts == pieces.parts(one)).all()
    assert np.array_equal(np.sort(whole.forest.sizes), np.sort(pieces.forest.sizes))
    assert whole.forest.sizes.sum() == len(one)


def test_hashes_depend_on_ids_and_sides_alone():
    texts = pa.array(["a", "", "bcd", "é"])
    expected = hash_ids(texts, 0)
    assert len(set(expected.tolist()) | set(hash_ids(texts, 1).tolist())) == 8
    for other in (
        texts.cast(pa.large_string()),
        texts.dictionary_encode(),
        pa.chunked_array([texts[:1], texts[1:]]),
        pa.concat_arrays([pa.array(["x", "yz"]), texts])[2:],
    ):
        assert hash_ids(other, 0).tolist() == expected.tolist()
    numbers = hash_ids(pa.array([1, -2, None], pa.int32()), 0)
    assert numbers.tolist() == hash_ids(pa.array([1, -2, 0], pa.int64()), 0).tolist()
    assert len(hash_ids(pa.array([1.5, 2.5]), 0)) == 2


def test_totals_do_not_depend_on_order(rng):
    chances = rng.random(1000) ** 8
    total = Total.of(chances)
    shuffled = rng.permutation(chances)
    assert Total.of(shuffled[:300]) + Total.of(shuffled[300:]) == total
    assert total.number == pytest.approx(chances.sum(), rel=1e-14)
    assert total.variance == pytest.approx((chances * (1.0 - chances)).sum(), rel=1e-14)


def test_folders_of_links_are_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Ledger.open("out", "key").folder == tmp_path / "out"
    assert new_folder("written") == tmp_path / "written"
