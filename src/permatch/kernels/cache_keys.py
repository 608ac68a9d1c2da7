"""Compiled kernels on disk that know the kernels they call.

Numba keeps a compiled function as long as the file it stands in does not change, although
code of the functions it calls, from other files, has been compiled into it.  After an
upgrade that would run old code with new.  So the file name of a compiled kernel holds a
hash of its own source file and of every kernel file that one imports, directly or not.
"""

import hashlib
import re
from functools import cache
from pathlib import Path

from numba.core.caching import CacheImpl

FOLDER = Path(__file__).resolve().parent
# from permatch.kernels.module import ..., or from permatch.kernels import module, module
_IMPORT = re.compile(
    r"^from permatch\.kernels(?:\.([\w.]+) import | import (?:([\w, ]+)$|\(([\w,\s]+)\)))",
    re.MULTILINE,
)


@cache
def fingerprint(path: Path, folder: Path = FOLDER) -> str:
    """Return a hash of a kernel file and of all that it imports from `folder`."""
    texts: dict[Path, bytes] = {}
    ahead = [path]
    while ahead:
        here = ahead.pop()
        if here not in texts:
            texts[here] = here.read_bytes()
            for module, modules, more in _IMPORT.findall(texts[here].decode()):
                names = [module] if module else re.findall(r"\w+", modules + more)
                ahead += [folder / (name.replace(".", "/") + ".py") for name in names]
    parts = (hashlib.sha256(texts[each]).digest() for each in sorted(texts))
    return hashlib.sha256(b"".join(parts)).hexdigest()


class _KernelLocator:
    """Finds the place of a kernel as Numba does, and adds to its file name."""

    @classmethod
    def from_function(cls, py_func, py_file):
        path = Path(py_file).resolve()
        if not path.is_relative_to(FOLDER) or not path.is_file():
            return None
        others = (kind for kind in CacheImpl._locator_classes if kind is not cls)
        found = (kind.from_function(py_func, py_file) for kind in others)
        locator = next((each for each in found if each is not None), None)
        if locator is not None:
            line = locator.get_disambiguator()
            locator.get_disambiguator = lambda: f"{line}-{fingerprint(path)[:12]}"
        return locator


def tell_versions_apart() -> None:
    """From now on, keep kernels on disk only as long as what they call is the same."""
    if _KernelLocator not in CacheImpl._locator_classes:
        CacheImpl._locator_classes.insert(0, _KernelLocator)
