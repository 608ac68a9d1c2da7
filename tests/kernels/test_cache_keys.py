"""A compiled kernel is used only as long as the kernels it calls are the same."""

import re
from pathlib import Path

from permatch.kernels import cache_keys, glynn, intrinsics
from permatch.kernels.cache_keys import FOLDER, fingerprint


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)


def test_what_is_called_counts_and_nothing_else(tmp_path):
    call = "from permatch.kernels.{} import f\n"
    both = "from permatch.kernels import (\n    c,\n    e,\n)\n"
    write(tmp_path, a=call.format("b"), b=both, c="one", d="one", e="one")
    before = fingerprint(tmp_path / "a.py", tmp_path)
    write(tmp_path, d="another")
    fingerprint.cache_clear()
    assert fingerprint(tmp_path / "a.py", tmp_path) == before
    for name in "bce":
        text = (tmp_path / f"{name}.py").read_text()
        write(tmp_path, **{name: text + "# another\n"})
        fingerprint.cache_clear()
        now = fingerprint(tmp_path / "a.py", tmp_path)
        assert now != before
        before = now


def test_kernels_may_import_in_a_ring(tmp_path):
    call = "from permatch.kernels.{} import f\n"
    write(tmp_path, a=call.format("b"), b=call.format("a"))
    assert fingerprint(tmp_path / "a.py", tmp_path)


def test_numba_names_files_by_it():
    for kernel in (glynn.add_chunk, intrinsics.uniform):
        source = Path(kernel.py_func.__code__.co_filename).resolve()
        assert f"-{fingerprint(source)[:12]}.py" in kernel._cache._impl.filename_base


def test_kernels_import_each_other_in_a_form_that_is_followed():
    for path in FOLDER.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        lines = re.findall(r"^\s*(?:from|import) .*permatch\.kernels", text, re.MULTILINE)
        assert len(cache_keys._IMPORT.findall(text)) == len(lines), path
        fingerprint(path)  # finds every file
