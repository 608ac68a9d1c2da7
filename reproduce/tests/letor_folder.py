"""A small data set in LETOR's layout, for experiments that take seconds."""

import numpy as np

N_PARTS, N_QUERIES, N_DOCUMENTS, N_FEATURES = 5, 3, 16, 4
_NAMES = {"train": "trainingset", "validation": "validationset", "test": "testset"}


def write_letor(root, name="OHSUMED", n_grades=3, seed=0):
    """Write ``root/letor/NAME`` with five folds, and return `root`."""
    rng = np.random.default_rng(seed)
    queries = [_query(rng, k + 1, n_grades) for k in range(N_PARTS * N_QUERIES)]
    parts = ["".join(queries[k::N_PARTS]) for k in range(N_PARTS)]
    for fold in range(N_PARTS):
        folder = root / "letor" / name / f"Fold{fold + 1}"
        folder.mkdir(parents=True)
        order = [parts[(fold + k) % N_PARTS] for k in range(N_PARTS)]
        content = {"train": "".join(order[:3]), "validation": order[3], "test": order[4]}
        for part, stem in _NAMES.items():
            # As in the real files, not all names are written alike.
            ending = ".TXT" if (fold, part) == (2, "train") else ".txt"
            (folder / (stem + ending)).write_text(content[part])
    return root


def write_published(root, name="OHSUMED"):
    """Add predictions of "RankBoost" and a table of means beside them."""
    published = root / "letor" / "published"
    folder = published / f"RankBoost_{name}"
    folder.mkdir(parents=True)
    for fold in range(1, N_PARTS + 1):
        lines = (root / "letor" / name / f"Fold{fold}" / "testset.txt").read_text()
        scores = [line.split()[2].partition(":")[2] for line in lines.splitlines()]
        (folder / f"{fold}_Prediction_7.txt").write_text("\n".join(scores) + "\n")
    cuts = ",".join(f"NDCG@{k}" for k in range(1, 11))
    (published / "ohsumed_recomputed_from_package_predictions.csv").write_text(
        f"dataset,method,ndcg_variant,{cuts}\n"
        f"{name},RankSVM,paper eq.,{','.join(['0.5'] * 10)}\n"
        f"{name},RankSVM,LETOR eval.pl,{','.join(['0.25'] * 10)}\n"
    )
    return root


def flip_grades(root, fold, part):
    """Turn the grades of one file upside down."""
    (path,) = (root / "letor" / "OHSUMED" / f"Fold{fold}").glob(f"{_NAMES[part]}.*")
    lines = path.read_text().splitlines()
    flipped = [f"{2 - int(line[0])}{line[1:]}" for line in lines]
    path.write_text("\n".join(flipped) + "\n")


def _query(rng, query, n_grades):
    """Return the lines of a query whose grades follow the first two features."""
    features = rng.normal(size=(N_DOCUMENTS, N_FEATURES))
    features[:, 3] = float(query)  # constant within the query, as some of OHSUMED's
    worth = features[:, 0] - features[:, 1] + 0.7 * rng.normal(size=N_DOCUMENTS)
    grades = np.argsort(np.argsort(worth)) * n_grades // N_DOCUMENTS
    return "".join(
        f"{grade} qid:{query} "
        + " ".join(f"{k + 1}:{value:.6f}" for k, value in enumerate(row))
        + "\n"
        for grade, row in zip(grades, features, strict=True)
    )
