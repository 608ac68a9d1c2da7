"""The wheel: what is in it, and that inference runs from it with core packages only."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="builds the wheel (extra 'dev')")

ROOT = Path(__file__).resolve().parents[1]
# It holds 1.1 MB: source as written, docstrings and the one CUDA source included, and the
# index of it all. That is 2.6 KB a module; nothing else is large. There is room for growth,
# not for data.
MAX_BYTES = 1_300_000
SHIPPED = (".py", ".js", ".css", ".csv", ".cu", ".md", "py.typed")
OK = 0

# An interpreter for which the packages named first are not installed.
PRELUDE = """
import sys
from importlib.machinery import PathFinder
absent, find = set(sys.argv.pop(1).split(",")), PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else find(name, path, target)
PathFinder.find_spec = find_spec
"""
COMMAND = "from permatch.cli.main import app\napp(prog_name='permatch')"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The one file that ``pip wheel`` makes."""
    folder = tmp_path_factory.mktemp("wheel")
    command = ["wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *command, "--wheel-dir", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == OK, done.stderr
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def run(wheel, tmp_path_factory):
    """Run code on what the wheel holds, optional packages absent."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    _bring_compiled_kernels(unpacked)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    env |= {"PYTHONPATH": str(unpacked)}

    def run(code, *args):
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + code, ",".join(OPTIONAL), *args],
            cwd=elsewhere,
            env=env,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert (done.returncode, done.stderr) == (OK, ""), done.stderr
        return done.stdout

    run.folder, run.unpacked = elsewhere, unpacked
    return run


def _bring_compiled_kernels(unpacked):
    """Spare the compiler what it has compiled: the wheel's kernels are the repository's."""
    for source in (ROOT / "src").rglob("kernels/**/*.py"):
        copy = unpacked / source.relative_to(ROOT / "src")
        assert copy.read_bytes() == source.read_bytes()
        shutil.copystat(source, copy)  # Numba knows a source file by its time and size
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.nb[ic]"):
            cache = copy.parent / "__pycache__"
            cache.mkdir(exist_ok=True)
            shutil.copy2(compiled, cache)


def optional_packages():
    """Return what the extras install, by the names to import."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    names, core = (
        {re.match(r"[\w.-]+", line)[0].lower() for line in lines}
        for lines in (extras, project["dependencies"])
    )
    homes = packages_distributions()
    found = {name.replace("-", "_") for name in names - {"permatch"}}
    for module, owners in homes.items():
        if {owner.lower() for owner in owners} & (names - core - {"permatch"}):
            found.add(module)
    return found


OPTIONAL = sorted(optional_packages())


def test_extras_are_known_by_the_names_to_import():
    assert {"matplotlib", "pandas", "pyarrow", "onnx", "skimage"} <= set(OPTIONAL)
    assert not {"numpy", "scipy", "numba", "sklearn", "typer", "rich"} & set(OPTIONAL)


def test_one_pure_wheel(wheel):
    assert re.fullmatch(r"permatch-[\w.]+-py3-none-any\.whl", wheel.name)


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < MAX_BYTES


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "permatch").rglob("*")
        if path.name.endswith(SHIPPED) and "__pycache__" not in path.parts
    }
    assert held == expected


def test_the_wheel_holds_the_modules_word_for_word(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted((ROOT / "src" / "permatch").rglob("*.py")):
            name = path.relative_to(ROOT / "src").as_posix()
            assert archive.read(name) == path.read_bytes(), name


def test_core_dependencies_are_those_of_the_project(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(name).decode()
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, flags=re.MULTILINE)
    core = {"numpy", "scipy", "numba", "clarabel", "scikit-learn", "threadpoolctl"}
    core |= {"typer", "rich"}
    assert set(required) == core


@pytest.mark.slow
def test_inference_runs_with_core_packages_only(run):
    code = """
import numpy as np, permatch as pm
from importlib.util import find_spec
d = pm.MatchingDistribution(np.log([[3.0, 1.0], [2.0, 2.0]]))
print(pm.__file__)
print([find_spec(name) for name in ("matplotlib", "skimage", "pandas", "onnx")])
print(round(float(np.exp(pm.infer(d.scores).log_partition)), 9))
print(d.marginals.round(2).tolist(), d.mode().tolist(), d.bayes_matching().tolist())
print(len(d.k_best(5).matchings), d.sample(3, rng=0).shape)
"""
    home, absent, *answers = run(code).splitlines()
    assert Path(home).is_relative_to(run.unpacked)
    assert absent == "[None, None, None, None]"
    assert answers == ["8.0", "[[0.75, 0.25], [0.25, 0.75]] [0, 1] [0, 1]", "2 (3, 2)"]


@pytest.mark.slow
def test_commands_run_with_core_packages_only(run):
    (run.folder / "scores.csv").write_text("id,x,y\nann,1.5,-0.5\nbob,0,1\n")
    answer = json.loads(run(COMMAND, "infer", "scores.csv", "--json"))
    assert answer["mode"]["matching"] == [0, 1]
    assert answer["marginals"][0][0] == pytest.approx(0.9526, abs=1e-4)
    assert "glynn" in run(COMMAND, "engines")


@pytest.mark.slow
def test_the_demo_infers_with_core_packages_only(run):
    lines = run(COMMAND, "demo").splitlines()
    assert any(line.split()[:1] == ["pm.link"] for line in lines)
    # The rest is one line away.
    (line,) = (line for line in lines if "pip install" in line)
    assert line.endswith("pip install '.[vision,plots]')")
    assert not (run.folder / "permatch-demo").exists()
