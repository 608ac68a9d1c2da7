"""Optional dependencies: if missing, how to install them; if broken, their own error."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from permatch.errors import MissingDependencyError


def how_to_install(*extras: str) -> str:
    """Return how to install extras of permatch.

    Examples
    --------
    >>> how_to_install("tables")
    "install the extra 'tables' (in a clone of permatch: pip install '.[tables]')"
    """
    names = " and ".join(repr(extra) for extra in extras)
    return (
        f"install the extra{'s' * (len(extras) > 1)} {names} "
        f"(in a clone of permatch: pip install '.[{','.join(extras)}]')"
    )


def require(module: str, extra: str, *, what: str | None = None) -> ModuleType:
    """Import an optional module, or say which extra of permatch to install for `what`.

    Only a package that is not installed is reported as missing; one that is installed but
    fails to import raises its own error.

    Examples
    --------
    >>> require("no_such_package", "tables", what="read_frame")
    Traceback (most recent call last):
        ...
    permatch.errors.MissingDependencyError: read_frame needs no_such_package: install ...
    """
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise MissingDependencyError(
            f"{what or 'this part of permatch'} needs {package}: {how_to_install(extra)}",
            name=package,
        )
    return import_module(module)
