"""Alpha by evidence and by cross-validation: the rows, and the command."""

import json

import pytest
from typer.testing import CliRunner

from reproduce.app import app

pytest.importorskip("skimage", reason="needs scikit-image (extra 'vision')")


@pytest.mark.slow
def test_quick_run(tmp_path):
    result = CliRunner().invoke(app, ["alpha", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "cross-validation" in result.stdout
    found = json.loads((tmp_path / "alpha_choice-quick.json").read_text())
    assert "data" not in found["config"]
    by_method = {line["method"]: line for line in found["summary"]}
    assert set(by_method) == {"evidence", "cross-validation"}
    one, two = by_method["evidence"], by_method["cross-validation"]
    assert one["n_evaluations"]["mean"] < two["n_evaluations"]["mean"]
    assert one["log_likelihood"]["mean"] == pytest.approx(
        two["log_likelihood"]["mean"], abs=1.0
    )
    rows = (tmp_path / "alpha_choice-quick.jsonl").read_text().splitlines()
    again = CliRunner().invoke(app, ["alpha", "--quick", "--out", str(tmp_path)])
    assert again.exit_code == 0
    assert (tmp_path / "alpha_choice-quick.jsonl").read_text().splitlines() == rows
