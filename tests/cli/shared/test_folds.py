"""The folds of a cross-validation and their summary."""

import json

import numpy as np

from permatch.cli.shared.folds import report_folds, show_folds, shuffled_splits


def test_parts_test_once_and_share_nothing():
    splits = shuffled_splits(11, "graphs", 4, 0, is_search=True)
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(11))
    for split in splits:
        every = [*split.train, *split.validation, *split.test]
        assert sorted(every) == list(range(11))


def test_a_measure_that_some_folds_lack(capsys):
    def row(name, tau):
        start = {"fold": name, "n_train": 2, "n_validation": 0, "n_test": 1, "alpha": 1.0}
        return start | {"is_converged": True, "measures": {"Tau": tau, "MAP": None}}

    rows = [row("1", 0.5), row("2", None), row("3", 0.7)]
    summary = {"estimator": "dorm", "is_search": False}

    def show(console, found):
        show_folds(console, found, "queries", {"Tau": "Tau", "MAP": "MAP"})

    report_folds(summary, rows, 3, None, as_json=True, show=show)
    found = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(found["mean"]["Tau"], 0.6)
    np.testing.assert_allclose(found["spread"]["Tau"], 0.02**0.5)
    assert found["mean"]["MAP"] is found["spread"]["MAP"] is None
    report_folds(summary, rows, 3, None, as_json=False, show=show)
    assert "0.6000" in capsys.readouterr().out
