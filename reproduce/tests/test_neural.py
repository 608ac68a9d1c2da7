"""The experiment with networks: its data, its Sinkhorn plan, and a small run."""

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
pytest.importorskip("skimage")

import torch
from typer.testing import CliRunner

from reproduce.app import app
from reproduce.experiments.edge_network import log_plan, pad
from reproduce.experiments.neural import METHODS
from reproduce.experiments.outlier_points import Scenes, draw_pairs


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs(Scenes(), (4, 2, 2), 0)


def test_pairs_have_landmarks_and_outliers(pairs):
    for pair in pairs[0]:
        partners = pair.matching[pair.matching >= 0]
        assert len(partners) == len(np.unique(partners)) == 8
        assert 10 <= len(pair.left) <= 13
        assert pair.left.shape[1] == pair.right.shape[1] == 60
        # partners look more alike than others do
        gaps = np.abs(pair.left[:, None] - pair.right).sum(axis=2)
        rows = np.nonzero(pair.matching >= 0)[0]
        assert gaps[rows, pair.matching[rows]].mean() < gaps.mean()


def test_plan_has_the_right_sums(pairs):
    batch = pad(pairs[0])
    n, k = batch.mask.shape[1:]
    torch.manual_seed(0)
    scores = torch.randn(4, n, k), torch.randn(4, n), torch.randn(4, k)
    plan = log_plan(scores, batch.mask, 200).exp()
    is_left, is_right = batch.mask.any(2), batch.mask.any(1)
    torch.testing.assert_close(plan[:, :n].sum(2), is_left.float(), atol=1e-3, rtol=0)
    torch.testing.assert_close(plan[:, :, :k].sum(1), is_right.float(), atol=1e-3, rtol=0)


def test_a_small_run(tmp_path):
    done = CliRunner().invoke(app, ["neural", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "neural-quick.json").read_text())
    assert [row["method"] for row in found["rows"]] == list(METHODS)
    for row in found["rows"]:
        assert 0.0 <= row["hamming"] <= 1.0
        assert row["seconds_per_epoch"] > 0.0
        assert f"{row['hamming']:.4f}" in done.output
