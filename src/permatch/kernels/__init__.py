"""Compiled functions on plain arrays.

No validation, no objects, no I/O, no global random state.
"""

from permatch._progress import announce_compilations

announce_compilations()
