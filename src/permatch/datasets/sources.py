"""Inputs named on a command line, including standard input and other pipes."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from permatch._files import Gauge
from permatch.errors import InvalidOptionError, LetorFileError


@dataclass(frozen=True)
class Copy:
    """A file that is opened at `path`, and called `name` in errors."""

    path: str
    name: str

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.name


@contextmanager
def local_file(name: str | Path | Copy) -> Iterator[Path | Copy]:
    """Yield the path of an input; standard input and other pipes are copied to disk.

    Errors name the input, not the copy; a copy stays as it is.
    """
    if isinstance(name, Copy):
        yield name
        return
    given = Path(name)
    if name != "-" and (given.is_file() or given.is_dir() or not given.exists()):
        yield given
        return
    if name == "-" and sys.stdin is None:
        raise LetorFileError(
            "standard input must hold data; it is closed. Pipe in a file, or name one "
            "instead of -."
        )
    with tempfile.TemporaryDirectory(prefix="permatch-") as folder:
        copy = Copy(
            os.path.join(folder, "input"), "standard input" if name == "-" else str(name)
        )
        with ExitStack() as stack:
            file = stack.enter_context(open(copy, "wb"))
            pipe = (
                sys.stdin.buffer if name == "-" else stack.enter_context(given.open("rb"))
            )
            file.writelines(Gauge(copy.name, LetorFileError).unread(pipe))
        yield copy


def read_feature_names(path: Path | None) -> list[str] | None:
    """Read one name per line, without blank lines at the end."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            data = Gauge(str(path), InvalidOptionError).whole(file)
        return data.decode("utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError as err:
        raise InvalidOptionError(
            f"{path} must hold the names of the features, one per line, as UTF-8 text; "
            f"got the byte {err.object[err.start]:#x}. Convert the file."
        ) from err
