"""The folds of a LETOR or MSLR-WEB folder, whatever its files are called.

    OHSUMED/Fold1/trainingset.txt, validationset.txt, testset.txt    LETOR 2.0, 3.0
    MQ2007/Fold1/train.txt, vali.txt, test.txt                       LETOR 4.0, MSLR-WEB

Upper or lower case, ``.gz``, and folders above the folds (``QueryLevelNorm``) all occur.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from permatch._validation import check_count
from permatch.datasets.letor import RankingData, check_memory, read_letor
from permatch.errors import InvalidOptionError, LetorFileError

#: The parts of a fold, and what their files are called, without ending and in lower case.
SPLITS = {
    "train": ("train", "training", "trainset", "trainingset"),
    "validation": ("vali", "valid", "validation", "valiset", "validset", "validationset"),
    "test": ("test", "testing", "testset", "testingset"),
}

_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE)
_ENDINGS = re.compile(r"(\.(txt|dat|letor|svm|svmlight|libsvm))?(\.gz)?", re.IGNORECASE)

# Folders above the folds that say nothing of the data's own name.
_COMMON_NAMES = ("data", "all", "querylevelnorm", "feature_min", "feature_null")

# How far below the folder given the folds may be, as in OHSUMED/Data/QueryLevelNorm/Fold1.
_MAX_DEPTH = 3


@dataclass(frozen=True, eq=False)
class LetorFold:
    r"""One split of the queries into training, validation and test data.

    Attributes
    ----------
    number : int
        The number in the folder's name.
    train, validation, test : RankingData
        Data to fit on, to choose options by, and to report results on.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from permatch.datasets import load_letor
    >>> lines = "1 qid:{0} 1:0.5 2:1\n0 qid:{0} 2:4\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k, name in enumerate(["train", "vali", "test"]):
    ...         path = Path(folder, "Fold1", f"{name}.txt")
    ...         path.parent.mkdir(exist_ok=True)
    ...         _ = path.write_text(lines.format(k))
    ...     data = load_letor(folder)
    >>> fold = data.folds[0]
    >>> fold.number, fold.train.n_queries, fold.test.qid.tolist()
    (1, 1, [2, 2])
    """

    number: int
    train: RankingData
    validation: RankingData
    test: RankingData


@dataclass(frozen=True, eq=False, repr=False)
class LetorData:
    r"""A data set in folds; `load_letor` reads it.

    Attributes
    ----------
    name : str
        Name of the folder.
    folds : list of LetorFold
        Sorted by number.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from permatch.datasets import load_letor
    >>> lines = "1 qid:{0} 1:0.5 2:1\n0 qid:{0} 2:4\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k, name in enumerate(["train", "vali", "test"]):
    ...         path = Path(folder, "Fold1", f"{name}.txt")
    ...         path.parent.mkdir(exist_ok=True)
    ...         _ = path.write_text(lines.format(k))
    ...     data = load_letor(folder)
    >>> len(data.folds), data.folds[0].validation.n_documents
    (1, 2)
    """

    name: str
    folds: list[LetorFold]

    @property
    def n_features(self) -> int:
        """Number of features, the same in all folds."""
        return self.folds[0].train.n_features

    def __repr__(self) -> str:
        numbers = [fold.number for fold in self.folds]
        return (
            f"{type(self).__name__}(name={self.name!r}, folds={numbers}, "
            f"n_features={self.n_features})"
        )


def load_letor(
    folder: str | os.PathLike[str],
    *,
    folds: Iterable[int] | None = None,
    dtype: Any = np.float64,
    max_bytes: int | None = None,
) -> LetorData:
    r"""Read a data set of LETOR 2.0, 3.0 or 4.0, or of MSLR-WEB, with its folds.

    Parameters
    ----------
    folder : path
        A folder with ``Fold1``, ``Fold2`` ... in it, at most three levels down, or one such
        fold.
    folds : iterable of int, optional
        Numbers of the folds to read; default: all.
    dtype : {float64, float32}
        The type of the features.
    max_bytes : int, optional
        Limit per file, as in `read_letor`.

    Returns
    -------
    LetorData
        Training, validation and test data of every fold, with the same number of features.

    Raises
    ------
    LetorFileError
        If folds or files are missing or ambiguous, or a line is malformed.

    Notes
    -----
    Features are not scaled.  Those of LETOR 2.0 are raw: scale them per query, as the
    published baselines did, with `permatch.estimators.QueryScaler`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> lines = "1 qid:{0} 1:0.5 2:1\n0 qid:{0} 2:4\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k, name in enumerate(["train", "vali", "test"]):
    ...         path = Path(folder, "Fold1", f"{name}.txt")
    ...         path.parent.mkdir(exist_ok=True)
    ...         _ = path.write_text(lines.format(k))
    ...     data = load_letor(folder)
    >>> fold = data.folds[0]
    >>> fold.number, fold.train.n_documents, fold.test.qid.tolist()
    (1, 2, [2, 2])
    """
    root = Path(folder)
    if not root.is_dir():
        raise LetorFileError(
            f"{root}: a folder with the folds of a data set is required; there is "
            f"{'a file' if root.exists() else 'nothing'} at this path. Give the folder, "
            "or read single files with read_letor."
        )
    places = _choose(_find_folds(root), folds, root)
    paths = {number: _find_files(place) for number, place in places.items()}
    parts = {
        (number, split): read_letor(path, dtype=dtype, max_bytes=max_bytes)
        for number, files in paths.items()
        for split, path in files.items()
    }
    width = max(part.n_features for part in parts.values())
    parts = {key: _widen(part, width, max_bytes) for key, part in parts.items()}
    return LetorData(
        _name_of(next(iter(places.values()))),
        [
            LetorFold(number, *(parts[number, split] for split in SPLITS))
            for number in places
        ],
    )


def _find_folds(root: Path) -> dict[int, Path]:
    """Return the folders of the folds by their numbers, in ascending order."""
    if any(_split_of(path) is not None for path in _visible(root)):
        named = _FOLD.fullmatch(root.resolve().name)
        return {int(named.group(1)) if named else 1: root}
    level = [root]
    for _ in range(_MAX_DEPTH + 1):
        below = [path for place in level for path in _visible(place) if path.is_dir()]
        folds = [path for path in below if _FOLD.fullmatch(path.name)]
        if folds:
            return _by_number(root, folds)
        level = below
    raise LetorFileError(
        f"{root}: a folder Fold1, or files such as train.txt, vali.txt and test.txt, are "
        f"required; found {_listed(_visible(root))}. Give the folder that contains the "
        "folds."
    )


def _by_number(root: Path, folds: list[Path]) -> dict[int, Path]:
    parents = sorted({path.parent for path in folds})
    if len(parents) > 1:
        raise LetorFileError(
            f"{root}: one set of folds is required; found {len(parents)}, in "
            f"{', '.join(str(path.relative_to(root)) for path in parents)}. Give one of "
            "these folders."
        )
    numbered: dict[int, Path] = {}
    for path in folds:
        named = _FOLD.fullmatch(path.name)
        number = int(named.group(1)) if named else 0
        if number in numbered:
            raise LetorFileError(
                f"{parents[0]}: one folder per fold is required; found "
                f"{numbered[number].name} and {path.name}. Rename or remove one of them."
            )
        numbered[number] = path
    return dict(sorted(numbered.items()))


def _choose(
    places: dict[int, Path], folds: Iterable[int] | None, root: Path
) -> dict[int, Path]:
    """Return the folds asked for; by default all, with no gap in the numbers."""
    if folds is None:
        missing = sorted(set(range(min(places), max(places))) - set(places))
        advice = f"Add it, or read the others with folds={list(places)}."
    else:
        wanted = [folds] if isinstance(folds, int) else list(folds)
        wanted = [check_count(number, "a number in folds", 0) for number in wanted]
        if not wanted:
            raise InvalidOptionError("folds must name at least one fold; got none.")
        missing = sorted(set(wanted) - set(places))
        advice = "Choose other folds."
        places = {number: places[number] for number in wanted if number in places}
    if missing:
        found = ", ".join(path.name for path in _find_folds(root).values())
        raise LetorFileError(
            f"{root}: Fold{missing[0]} is required and missing; found {found}. {advice}"
        )
    return places


def _find_files(place: Path) -> dict[str, Path]:
    """Return the file of every part of a fold."""
    entries = _visible(place)
    found: dict[str, list[Path]] = {split: [] for split in SPLITS}
    for path in entries:
        split = _split_of(path)
        if split is not None:
            found[split].append(path)
    files = {}
    for split, names in SPLITS.items():
        paths = found[split]
        if len(paths) != 1:
            got = "both " + " and ".join(path.name for path in paths)
            raise LetorFileError(
                f"{place}: one file for the {split} part is required, such as "
                f"{names[0]}.txt or {names[-1]}.txt; found "
                f"{got if paths else _listed(entries)}. "
                + ("Keep one of them." if paths else "Add or rename it.")
            )
        files[split] = _only_file(paths[0])
    return files


def _only_file(path: Path) -> Path:
    """Return a file, or the only one in a folder."""
    if not path.is_dir():
        return path
    inside = [entry for entry in _visible(path) if entry.is_file()]
    if len(inside) != 1:
        raise LetorFileError(
            f"{path}: a folder for one part of a fold must hold one file; found "
            f"{_listed(inside)}. Keep the one to be read."
        )
    return inside[0]


def _split_of(path: Path) -> str | None:
    """Return which part of a fold a file is, by its name; None for any other file."""
    stem = path.name.partition(".")[0].lower().replace("_", "").replace("-", "")
    ending = path.name[len(path.name.partition(".")[0]) :]
    if not _ENDINGS.fullmatch(ending):
        return None
    return next((split for split, names in SPLITS.items() if stem in names), None)


def _widen(part: RankingData, width: int, max_bytes: int | None) -> RankingData:
    """Return the data with features of 0 added up to `width`."""
    if part.n_features == width:
        return part
    shape = (part.n_documents, width)
    n_entries = int(np.count_nonzero(part.X))
    check_memory(shape, part.X.dtype, n_entries, str(part.path), max_bytes)
    wide = np.zeros(shape, dtype=part.X.dtype)
    wide[:, : part.n_features] = part.X
    return replace(part, X=wide)


def _name_of(place: Path) -> str:
    """Return what the data of a fold is called: the first folder with a name of its own."""
    whole = place.resolve()
    while whole.name.lower() in _COMMON_NAMES or _FOLD.fullmatch(whole.name):
        whole = whole.parent
    return whole.name


def _visible(place: Path) -> list[Path]:
    return sorted(
        path for path in place.iterdir() if not path.name.startswith((".", "__MACOSX"))
    )


def _listed(paths: list[Path]) -> str:
    names = [path.name for path in paths]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return (", ".join(names[:8]) + more) if names else "nothing"
