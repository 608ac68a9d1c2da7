"""The docstring of everything public names the parameters its signature has, in order."""

import inspect
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

import permatch
from permatch import boosting, datasets, decoding, features, inference, metrics, tracking

PARAMETERS = re.compile(r"^Parameters\n-{3,}\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", re.M | re.S)
NAME = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: :.*)?$", re.M)


def documented(thing: Any) -> list[str] | None:
    """Return the names under ``Parameters``, or None if there is no such section."""
    section = PARAMETERS.search(inspect.getdoc(thing) or "")
    if section is None:
        return None
    found = NAME.findall(section.group(1))
    return [name.lstrip("*") for names in found for name in names.split(", ")]


def accepted(thing: Any) -> list[str]:
    """Return the names in the signature, `self` and private ones left out."""
    names = inspect.signature(thing).parameters
    return [name for name in names if name != "self" and not name.startswith("_")]


def public_things() -> Iterator[tuple[str, Any]]:
    """Yield every public function, class and method with a signature of its own."""
    rooms = [permatch, inference, decoding, metrics, datasets, features, tracking, boosting]
    if find_spec("torch"):
        rooms.append(permatch.nn)
    for module in rooms:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing
            elif inspect.isclass(thing):
                yield f"{module.__name__}.{name}", thing
                for key, method in vars(thing).items():
                    if inspect.isfunction(method) and not key.startswith("_"):
                        yield f"{module.__name__}.{name}.{key}", method


THINGS = dict(public_things())


@pytest.mark.parametrize("name", THINGS)
def test_has_a_one_line_summary(name):
    lines = (inspect.getdoc(THINGS[name]) or "").splitlines()
    assert lines, "no docstring"
    assert lines[0].endswith("."), lines[0]
    assert len(lines) == 1 or not lines[1], "no blank line after the summary"


@pytest.mark.parametrize("name", THINGS)
def test_parameters_match_the_signature(name):
    thing = THINGS[name]
    names = documented(thing)
    if names is not None:
        assert names == accepted(thing)
    elif name.startswith("permatch.") and name.split(".")[1] in permatch.__all__:
        # Short ones may do without the section; results list their fields as Attributes.
        assert "Attributes\n-" in (inspect.getdoc(thing) or "") or len(accepted(thing)) <= 1


def test_the_checker_sees_a_disagreement():
    def wrong(scores, engine):
        """Do nothing.

        Parameters
        ----------
        scores : array
            Edge scores.
        motor : str
            Not in the signature.

        Returns
        -------
        nothing : None
            At all.
        """

    assert documented(wrong) == ["scores", "motor"]
    assert accepted(wrong) == ["scores", "engine"]
