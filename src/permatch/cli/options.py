"""Options that several commands take, and their checks."""

from pathlib import Path
from typing import Annotated

import typer

#: More threads than any machine has processors are a slip of the finger.
MAX_JOBS = 4096

#: Read by the class of all commands, see `permatch.cli.terminal`.
Debug = Annotated[
    bool, typer.Option("--debug", metavar="", help="Show the traceback of a failure.")
]

#: Of every command that reads files; read by the class of all commands, too.
MaxBytes = Annotated[
    int | None,
    typer.Option(
        "--max-bytes",
        min=1,
        metavar="N",
        help="Most bytes of a file, unpacked; raises the limits on lines and memory too.",
        show_default=False,
    ),
]


def check_engine(name: str) -> str:
    """Refuse unknown engines as wrong usage, listing the known ones."""
    from permatch.inference import ENGINES

    if name not in ENGINES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(ENGINES)}.")
    return name


def check_jobs(jobs: int) -> int:
    """Refuse numbers of threads that cannot work."""
    if jobs == 0:
        raise typer.BadParameter("0 threads cannot work; -1 means all processors.")
    if jobs > MAX_JOBS:
        raise typer.BadParameter(f"at most {MAX_JOBS} threads; -1 means all processors.")
    return jobs


def make_folder(folder: Path) -> Path:
    """Make sure, before anything is computed, that the results have a place to go."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".permatch").touch()
        (folder / ".permatch").unlink()
    except OSError as err:
        raise typer.BadParameter(
            f"cannot write to {folder}: {err.strerror}. Choose another folder."
        ) from err
    return folder
