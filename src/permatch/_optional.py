"""Optional dependencies: if missing, how to install them; if broken, their own error."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from permatch.errors import MissingDependencyError


def require(module: str, extra: str, *, what: str | None = None) -> ModuleType:
    """Import an optional module, or say which extra of permatch to install for `what`.

    Only a package that is not installed is reported as missing; one that is installed but
    fails to import raises its own error.

    Examples
    --------
    >>> require("no_such_package", "tables", what="read_frame")
    Traceback (most recent call last):
        ...
    permatch.errors.MissingDependencyError: read_frame needs no_such_package: pip ...
    """
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise MissingDependencyError(
            f"{what or 'this part of permatch'} needs {package}: "
            f"pip install 'permatch[{extra}]'",
            name=package,
        )
    return import_module(module)
