"""Compiled functions on plain arrays.

No validation, no objects, no I/O, no global random state.
"""

from permatch._progress import announce_compilations
from permatch.kernels.cache_keys import tell_versions_apart

announce_compilations()
tell_versions_apart()
