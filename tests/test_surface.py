"""What `import permatch` promises: a fixed list of names, and nothing loaded needlessly."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import permatch
from permatch._optional import require
from permatch.errors import MissingDependencyError

OPTIONAL = (
    "torch", "triton", "dask", "matplotlib", "pandas", "pyarrow", "skimage", "lightgbm",
    "onnx", "stonesoup",
)  # fmt: skip
SLOW_TO_IMPORT = ("numba", "scipy", "sklearn")


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages in memory after `statement` in a fresh interpreter."""
    code = (
        f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_plain_import_loads_neither_compiler_nor_optional_parts():
    assert not loaded_by("import permatch").intersection(OPTIONAL + SLOW_TO_IMPORT)


def test_inference_loads_no_optional_part():
    statement = "import permatch; permatch.MatchingDistribution([[0.0]]).marginals"
    assert not loaded_by(statement).intersection(OPTIONAL)


def test_help_loads_no_compiler():
    statement = "import permatch.cli.main"
    assert not loaded_by(statement).intersection(OPTIONAL + SLOW_TO_IMPORT)


def test_every_public_name_resolves_and_is_listed():
    for name in permatch.__all__:
        assert getattr(permatch, name) is not None
        assert name in dir(permatch)
    assert len(set(permatch.__all__)) == len(permatch.__all__)


def test_star_import_gives_the_public_names():
    names: dict[str, object] = {}
    exec("from permatch import *", names)
    assert names.keys() - {"__builtins__"} == set(permatch.__all__)


def test_table_type_checking_imports_and_all_agree():
    tree = ast.parse(Path(permatch.__file__).read_text(encoding="utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    seen_by_checkers = {
        alias.asname or alias.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen_by_checkers == permatch._HOMES
    assert set(permatch._HOMES) | {"__version__", "errors"} == set(permatch.__all__)


def test_unknown_attribute_reads_as_python_says_it():
    expected = "^module 'permatch' has no attribute 'nonsense'$"
    with pytest.raises(AttributeError, match=expected):
        _ = permatch.nonsense
    assert not hasattr(permatch, "nonsense")


def test_version_is_a_string():
    assert permatch.__version__.split(".")[0].isdigit()


def test_require_returns_a_module_that_is_there():
    assert require("json", "tables").dumps([]) == "[]"


def test_require_names_the_extra():
    expected = (
        r"^read_frame needs no_such_package: install the extra 'tables' "
        r"\(in a clone of permatch: pip install '\.\[tables\]'\)$"
    )
    with pytest.raises(MissingDependencyError, match=expected) as caught:
        require("no_such_package.part", "tables", what="read_frame")
    assert caught.value.name == "no_such_package"
    assert isinstance(caught.value, ImportError)


def test_require_shows_the_real_error_of_a_broken_module(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import a_dependency_it_lacks\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_dependency_it_lacks") as caught:
        require("broken_package", "tables")
    assert not isinstance(caught.value, MissingDependencyError)
