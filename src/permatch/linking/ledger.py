"""A folder of links that is written part by part, so that Ctrl-C loses nothing.

    part-00000.parquet ...   the links of the parts that are done
    _link.json               what the work is, and how far it has come
    _pairs/                  the pairs of every part, until all are linked

The same call goes on where the last one stopped.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permatch._files import whole_file
from permatch.errors import InvalidOptionError, PermatchError
from permatch.linking.files import read_kept
from permatch.linking.report import Figures
from permatch.linking.table import Rules

_STATE, _PAIRS = "_link.json", "_pairs"


def part_file(folder: Path, number: int) -> Path:
    """Return the file with the links of a part."""
    return folder / f"part-{number:05d}.parquet"


def fingerprint(rules: Rules, identity: Any, per_part: int) -> str:
    """Return a text that changes if the pairs or the way to link them do."""
    model = rules.model
    learned = None
    if model is not None:
        # All that links depend on, and nothing of how long a fit took.
        weights = np.asarray(model._weights()).tolist()
        learned = [weights, model.unmatched_, model.feature_names_, str(model)]
    told = {name: value for name, value in vars(rules).items() if name != "model"}
    told.pop("n_jobs")
    known = repr([told, learned, identity, per_part])
    return hashlib.sha256(known.encode()).hexdigest()


@dataclass(eq=False)
class Ledger:
    """What is done of a folder of links.

    Attributes
    ----------
    folder : Path
        The folder.
    state : dict
        The fingerprint of the work as ``key``, and what was found so far.
    """

    folder: Path
    state: dict[str, Any]

    @classmethod
    def open(cls, out: str | Path, key: str) -> "Ledger":
        """Return the ledger of a new or empty folder, or of the same work begun before."""
        folder = Path(out).absolute()  # workers may have another working folder
        state = folder / _STATE
        if state.is_file():
            try:
                found = dict(json.loads(state.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as err:
                raise _no_room(folder, f"holds a damaged {_STATE} ({err})") from err
            if found.get("key") == key:
                return cls(folder, found)
            raise _no_room(folder, "holds links of other pairs, or linked in another way")
        ledger = cls(new_folder(folder), {})
        ledger.note(key=key)
        return ledger

    @contextmanager
    def given_up_on_error(self) -> Iterator[None]:
        """Leave nothing behind if the pairs are refused before any is linked."""
        try:
            yield
        except PermatchError:
            if "offset" not in self.state:
                self.clear_pairs()
                (self.folder / _STATE).unlink(missing_ok=True)
            raise

    def note(self, **found: Any) -> None:
        """Write down what was found."""
        self.state |= found
        with whole_file(self.folder / _STATE) as file:
            json.dump(self.state, file)

    def pair_files(self, n_parts: int) -> list[Path]:
        """Return the files for the pairs of every part, in an existing folder."""
        pairs = self.folder / _PAIRS
        pairs.mkdir(exist_ok=True)
        return [pairs / f"{number:05d}.arrow" for number in range(n_parts)]

    def clear_pairs(self) -> None:
        """Remove the pairs of all parts."""
        shutil.rmtree(self.folder / _PAIRS, ignore_errors=True)

    def has_pairs(self) -> bool:
        """Return whether the pairs of all parts that are not linked yet are there."""
        if "n_parts" not in self.state:
            return False
        files = self.pair_files(self.state["n_parts"])
        return all(files[k].is_file() for k in self.missing())

    def missing(self) -> list[int]:
        """Return the parts that are not linked yet."""
        every = range(self.state["n_parts"])
        return [k for k in every if not part_file(self.folder, k).is_file()]

    def files(self) -> list[Path]:
        """Return the files of all parts."""
        return [part_file(self.folder, k) for k in range(self.state["n_parts"])]

    def figures(self) -> Figures:
        """Return what is counted of all links."""
        total = Figures()
        for path in self.files():
            kept = read_kept(path)["figures"]
            total += Figures(**kept | {"largest": tuple(kept["largest"])})
        return total


def new_folder(path: str | Path) -> Path:
    """Return a folder that is empty, and made if need be."""
    folder = Path(path).absolute()  # workers may have another working folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _no_room(folder, "exists and is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _no_room(folder: Path, found: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"out must be a new or empty folder, or one in which the same links were begun; "
        f"{folder} {found}. Name another folder, or remove this one."
    )
