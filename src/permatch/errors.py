"""Every exception permatch raises on purpose, each also a builtin one a caller expects.

A message has three parts: what was required, what was got, what to do about it.
"""


class PermatchError(Exception):
    """Base class of all errors permatch raises on purpose."""


class InvalidGraphError(PermatchError, ValueError):
    """Scores that do not describe a bipartite graph with as many rows as columns."""


class ScoreTypeError(InvalidGraphError, TypeError):
    """Scores of a type that has no real-number meaning (text, objects, complex numbers)."""


class ScoreShapeError(InvalidGraphError):
    """Scores that are not square, or no graph, stack of graphs or list of graphs."""


class NaNScoreError(InvalidGraphError):
    """At least one score is NaN."""


class InfiniteScoreError(InvalidGraphError):
    """At least one score is ``+inf`` or too large to be added up in float64."""


class InfeasibleGraphError(PermatchError, ValueError):
    """The allowed edges contain no perfect matching, so there is no distribution."""


class SizeLimitError(PermatchError, ValueError):
    """The graph is larger than the engine accepts; the message estimates its cost."""


class PrecisionError(PermatchError, ArithmeticError):
    """An engine's own check says its answer has lost too many digits."""


class InvalidMatchingError(PermatchError, ValueError):
    """A matching that is not a permutation of the columns."""


class InvalidOptionError(PermatchError, ValueError):
    """An option with a value outside its documented range."""


class MarginalsUnavailableError(PermatchError, RuntimeError):
    """Marginals were asked of an engine that computes the log-partition only."""


class MissingDependencyError(PermatchError, ImportError):
    """An optional dependency is not installed; the message names the extra."""
