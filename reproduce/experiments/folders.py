"""Where the data of an experiment is."""

import os
from collections.abc import Sequence
from pathlib import Path

from permatch.errors import InvalidOptionError
from reproduce.experiments.letor_folds import DATA_VARIABLE


def find_folder(
    what: str,
    folder: str,
    files: Sequence[str],
    data: str | os.PathLike[str] | None = None,
) -> Path:
    """Return the folder with some files.

    Parameters
    ----------
    what : str
        What is looked for, for messages.
    folder : str
        How the folder is called in that of all data.
    files : sequence of str
        The files it must have.
    data : path, optional
        That folder, or one that holds it; None looks where the environment variable
        ``PERMATCH_DATA`` says.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InvalidOptionError
        If it is missing; the message lists the folders searched.
    """
    *others, last = files
    names = f"{', '.join(others)} and {last}" if others else last
    wanted = f"{what} ({names}) is required"
    given = os.environ.get(DATA_VARIABLE) if data is None else data
    if not given:
        raise InvalidOptionError(
            f"{wanted}, but no folder was given. Use --data DIR or set {DATA_VARIABLE}."
        )
    root = Path(given)
    source = DATA_VARIABLE if data is None else "--data"
    for found in (root, root / folder):
        if all((found / name).is_file() for name in files):
            return found
    raise InvalidOptionError(
        f"{wanted}, but found neither in {root} nor in {root / folder}. Set {source} "
        "to the folder that contains the files."
    )
