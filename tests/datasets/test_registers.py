"""The two registers that come with the package."""

import runpy
from pathlib import Path

import pytest

from permatch.datasets import load_registers

ROOT = Path(__file__).parents[2]


def test_links_join_members_one_to_one():
    north, south, links = load_registers()
    assert set(links["north"]) < set(north["id"])
    assert set(links["south"]) < set(south["id"])
    for table in (north, south):
        assert len(set(table["id"])) == len(table["id"]) == 240
        assert {len(column) for column in table.values()} == {240}
    assert (
        len(set(links["north"])) == len(set(links["south"])) == len(links["north"]) == 168
    )


def test_ids_and_order_do_not_give_the_links_away():
    north, south, links = load_registers()
    places = [
        (north["id"].index(a) - south["id"].index(b))
        for a, b in zip(links["north"], links["south"], strict=True)
    ]
    assert sum(place == 0 for place in places) < 5


def test_frames_hold_the_same():
    pandas = pytest.importorskip("pandas")
    for frame, table in zip(load_registers(as_frame=True), load_registers(), strict=True):
        assert isinstance(frame, pandas.DataFrame)
        assert frame.to_dict("list") == table


def test_the_tables_are_what_their_script_writes(tmp_path):
    script = ROOT / "examples" / "make_registers.py"
    runpy.run_path(str(script))["make"](tmp_path)
    data = ROOT / "src" / "permatch" / "datasets" / "data"
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in data.glob("*.csv")}


def test_the_tables_are_small():
    data = ROOT / "src" / "permatch" / "datasets" / "data"
    assert sum(path.stat().st_size for path in data.iterdir()) < 40_000
