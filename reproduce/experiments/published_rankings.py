"""What others published on LETOR's data, read from the files that come with it.

    published/RankBoost_OHSUMED/1_Prediction_124.txt    scores for the test part of fold 1
    published/ohsumed_recomputed_from_package_predictions.csv    means, both discounts
    published/letor1_ndcg_average.csv                   means, LETOR's discount

The folder stands beside that of the data set.  Without it nothing published is shown.
"""

import csv
from pathlib import Path

from permatch._types import FloatArray
from permatch.datasets import read_scores
from permatch.errors import LetorFileError
from reproduce.experiments.letor_folds import CUTS, PAPER, Fold, FoldSet
from reproduce.experiments.rows import Row

#: Methods by the names they have in these files.
PUBLISHED = {"rankboost_published": "RankBoost", "ranksvm_published": "RankSVM"}

#: What is published, by the methods that are run here.
PUBLISHED_OF = {method.removesuffix("_published"): method for method in PUBLISHED}

_RECOMPUTED = "ohsumed_recomputed_from_package_predictions.csv"
_AVERAGES = "letor1_ndcg_average.csv"


def published_scores(method: str, data: FoldSet, fold: Fold) -> FloatArray | None:
    """Return the scores that a published ranker gave the test documents of a fold.

    Parameters
    ----------
    method : str
        One of `PUBLISHED`.
    data : FoldSet
        The data set.
    fold : Fold
        One of its folds.

    Returns
    -------
    ndarray of shape (n,) or None
        None if they are not there.

    Raises
    ------
    LetorFileError
        If they are those of other documents.
    """
    folder = _folder(data) / f"{PUBLISHED[method]}_{data.name}"
    paths = sorted(folder.glob(f"{fold.number}_Prediction*.txt"))
    if not paths:
        return None
    scores = read_scores(paths[0])
    if len(scores) != len(fold.test.y):
        raise LetorFileError(
            f"{paths[0]} must have one score for each of the {len(fold.test.y)} test "
            f"documents of fold {fold.number}; got {len(scores)}. Remove it if it belongs "
            "to other data."
        )
    return scores


def published_means(method: str, data: FoldSet) -> Row | None:
    """Return published means of NDCG@1 to NDCG@10 over the folds.

    Parameters
    ----------
    method : str
        One of `PUBLISHED`.
    data : FoldSet
        The data set.

    Returns
    -------
    dict or None
        ``ndcg_letor``, and ``ndcg`` with the paper's discount, None where only the other
        one was published; None if the method is not there.
    """
    found: Row = {}
    for name in (_RECOMPUTED, _AVERAGES):
        for line in _read(_folder(data) / name):
            if (line["dataset"], line["method"]) != (data.name, PUBLISHED[method]):
                continue
            is_paper = line.get("ndcg_variant", "").startswith("paper")
            values = [float(line[str(PAPER @ k)]) for k in CUTS]
            found.setdefault("ndcg" if is_paper else "ndcg_letor", values)
    return {"ndcg": None} | found if found else None


def _folder(data: FoldSet) -> Path:
    return data.folder.resolve().parent / "published"


def _read(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
