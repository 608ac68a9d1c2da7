"""Files of results: what is kept, what is cut off, what is refused."""

import signal

import pytest

from reproduce.experiments import RowFile, read_rows
from reproduce.experiments.rows import Plan, RowFileError, experiment

KEY = ("seed", "n")


def test_rows_come_back(tmp_path):
    path = tmp_path / "new" / "rows.jsonl"
    rows = RowFile(path, KEY)
    assert not path.exists()
    rows.add({"seed": 0, "n": 5, "loss": 0.1})
    rows.add({"seed": 0, "n": 6, "loss": 0.1 + 0.2})
    again = RowFile(path, KEY)
    assert again.find(seed=0, n=6) == {"seed": 0, "n": 6, "loss": 0.1 + 0.2}
    assert again.find(seed=1, n=6) is None
    assert [row["n"] for row in read_rows(path)] == [5, 6]


def test_without_a_path_rows_stay_in_memory():
    rows = RowFile(None, KEY)
    rows.add({"seed": 0, "n": 1})
    assert rows.find(seed=0, n=1) == {"seed": 0, "n": 1}


@pytest.mark.parametrize("n_lost", [1, 2, 20])
def test_the_piece_of_a_line_is_cut_off(tmp_path, n_lost):
    path = tmp_path / "rows.jsonl"
    rows = RowFile(path, KEY)
    rows.add({"seed": 0, "n": 1, "loss": 0.5})
    rows.add({"seed": 0, "n": 2, "loss": 0.5})
    path.write_bytes(path.read_bytes()[:-n_lost])
    assert [row["n"] for row in read_rows(path)] == [1]
    resumed = RowFile(path, KEY)
    assert resumed.find(seed=0, n=2) is None
    resumed.add({"seed": 0, "n": 2, "loss": 0.25})
    assert [row["loss"] for row in read_rows(path)] == [0.5, 0.25]


@pytest.mark.parametrize("line", [b"not json", b"[1, 2]", b'{"seed": 0}', b"\xff\xfe", b""])
def test_a_damaged_line_is_refused_and_the_file_left_alone(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    content = b'{"seed": 0, "n": 1}\n' + line + b'\n{"seed": 0, "n": 2}\n'
    path.write_bytes(content)
    with pytest.raises(
        RowFileError, match=r"rows\.jsonl.*line 2 is not one\. Remove the line"
    ):
        RowFile(path, KEY)
    assert path.read_bytes() == content


def test_no_row_has_a_value_json_does_not_know(tmp_path):
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ValueError, match="not JSON compliant"):
        RowFile(path, KEY).add({"seed": 0, "n": 1, "loss": float("nan")})
    assert not path.exists()


@pytest.mark.parametrize("answer", [{"value": 2}, ValueError("query interrupted")])
def test_what_an_interrupt_left_makes_no_row(tmp_path, answer):
    def measure(key, show):
        if not key["repeat"]:
            return {"value": 1}
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if isinstance(answer, Exception):
                raise answer from None
            return answer

    @experiment(("config", "repeat"))
    def run(config):
        return Plan(config, [(0,), (1,)], measure, lambda key: 1.0)

    path = tmp_path / "rows.jsonl"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        list(run("some", path))
    assert signal.getsignal(signal.SIGINT) is handler
    assert read_rows(path) == [{"config": "some", "repeat": 0, "value": 1}]
