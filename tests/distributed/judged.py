"""Judged lists, in memory and written to folders."""

import numpy as np
import pandas as pd

import permatch as pm

FEATURES = ["a", "b", "c", "d"]


def judged_lists(seed=0, n_queries=40, n_grades=3):
    """Return documents, grades and query ids of lists of 1 to 12 documents."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 13, size=n_queries)
    X = rng.normal(size=(lengths.sum(), len(FEATURES)))
    hidden = X[:, 0] - 0.5 * X[:, 1] + 0.7 * rng.normal(size=len(X))
    y = np.digitize(hidden, np.linspace(-0.3, 1.0, n_grades - 1))
    return X, y, np.repeat(10 * np.arange(n_queries), lengths)


def frame_of(X, y, qid):
    """Return lists as a table with columns grade, query and weight."""
    frame = pd.DataFrame(X, columns=FEATURES[: X.shape[1]])
    return frame.assign(grade=y, query=qid, weight=1.0 + qid % 3)


def cut(n_rows, n_parts, seed=1):
    """Return slices of rows that cut queries and leave some parts empty."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, n_rows + 1, size=n_parts - 1))
    ends = [0, *cuts.tolist(), n_rows]
    return [slice(*pair) for pair in zip(ends[:-1], ends[1:], strict=True)]


def write_parquet(folder, frame, n_parts):
    """Write a table to a folder of Parquet files."""
    folder.mkdir()
    for k, rows in enumerate(cut(len(frame), n_parts)):
        frame.iloc[rows].to_parquet(folder / f"part.{k}.parquet")
    return folder


def write_letor(folder, X, y, qid, n_parts):
    """Write lists to a folder of SVMlight files; empty parts are left out."""
    folder.mkdir()
    lines = [
        f"{grade} qid:{query} "
        + " ".join(f"{j}:{value!r}" for j, value in enumerate(row, 1) if value)
        for grade, query, row in zip(y, qid, X.tolist(), strict=True)
    ]
    for k, rows in enumerate(cut(len(lines), n_parts)):
        if lines[rows]:
            (folder / f"part{k}.txt").write_text("\n".join(lines[rows]) + "\n")
    return folder


def estimators():
    """Return an estimator of every kind."""
    return {
        "lists": pm.RankMatch(alpha=0.1),
        "lists of some": pm.RankMatch(alpha=0.1, levels="gains", form="profile"),
        "lists by position": pm.RankMatch(alpha=0.01, position_weights="dcg"),
        "subsets": pm.RankMatch(3, alpha=0.1, missing_grades="fill"),
        "grades": pm.RankMatch("grades", alpha=0.1, query_weight="per_document"),
        "pairs": pm.RankMatch("pairs", alpha=0.1, scaling="minmax"),
        "dorm": pm.DORM(alpha=0.1, tol=1e-8),
        "dorm of lists": pm.DORM("all", alpha=0.1, tol=1e-8, scaling="standard"),
        "ridge": pm.QueryRidge(scale_features=False),
        "search": pm.RankMatchCV(alphas=[0.3, 3.0, 30.0], cv=3, scaling="minmax"),
        "search of subsets": pm.DORMCV(
            3, alphas=[0.1, 1.0, 10.0], cv=3, missing_grades="fill", tol=1e-8
        ),
        "search of ridges": pm.QueryRidgeCV(alphas=[0.01, 0.1, 1.0], cv=3, scoring="MAP"),
    }
