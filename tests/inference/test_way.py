"""The way of `pm.infer`: which files of the package a call enters, as CONTRIBUTING lists.

A file is on the way if one of its functions is entered during a call that finds kernels
compiled.  Of compiled functions the interpreter sees only those that Python calls; what
these call in turn is read off the names they use.
"""

import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import permatch as pm

PACKAGE = Path(pm.__file__).parent
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
# Sizes, and the most files that an answer may pass through.
LIMITS = {20: 12, 200: 22}


def files_entered(call):
    """Return the files of the package whose functions a call enters."""
    entered = set()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered.add((path, frame.f_code.co_name))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    files = {path for path, _ in entered}
    for path, name in entered:
        if path.is_relative_to(PACKAGE / "kernels"):
            module = sys.modules[_module_of(path)]
            follow(getattr(module, name, None), files, set())
    return {path.relative_to(PACKAGE).as_posix() for path in files}


def follow(function, files, seen):
    """Add the files of all functions that a compiled one calls."""
    function = getattr(function, "py_func", getattr(function, "_defn", function))
    code = getattr(function, "__code__", None)
    if code is None or code in seen or not function.__module__.startswith("permatch."):
        return
    seen.add(code)
    files.add(Path(code.co_filename))
    for name in code.co_names:
        follow(function.__globals__.get(name), files, seen)


def _module_of(path):
    return ".".join(["permatch", *path.relative_to(PACKAGE).with_suffix("").parts])


def listed(size):
    """Return the files that CONTRIBUTING lists for graphs of a size."""
    rows = re.findall(r"^\| `([\w/]+\.py)` \| ([^|]+) \|", CONTRIBUTING.read_text(), re.M)
    return {file for file, sizes in rows if str(size) in sizes.split(", ")}


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="profilers see compiled functions up to Python 3.11"
)
@pytest.mark.parametrize("size", LIMITS)
def test_the_way_of_infer_is_short_and_written_down(size):
    scores = np.random.default_rng(0).normal(size=(size, size))
    engine = pm.AutoEngine(tol=0.05)  # few draws take the same way as many
    pm.infer(scores, engine)  # compiles what has to be
    files = files_entered(lambda: pm.infer(scores, engine))
    assert files == listed(size)
    assert len(files) <= LIMITS[size]
