"""Files that are there whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Yield a text file that takes the place of `path` once written without an error."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        # A pipe or a device is written to, never replaced; a folder is refused by `open`.
        with target.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as err:
        raise OSError(err.errno, err.strerror, str(path)) from err  # not the draft's name
    finally:
        draft.unlink(missing_ok=True)
