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


class FeatureShapeError(InvalidGraphError):
    """Edge features that are not of shape (m, m, d)."""


class FeatureTypeError(InvalidGraphError, TypeError):
    """Edge features of a type that has no real-number meaning."""


class NaNFeatureError(InvalidGraphError):
    """An edge feature is NaN or infinite; the message names graph and edge."""


class FeatureCountError(InvalidGraphError):
    """Graphs that differ in their number of features, or differ from the fitted model."""


class NoGraphsError(InvalidGraphError):
    """An empty training or test set."""


class ForbiddenEdgeError(InvalidMatchingError):
    """A labelled match that uses a forbidden edge."""


class NotFittedError(PermatchError, ValueError, AttributeError):
    """A method that needs a fitted model was called before `fit`."""


class ModelFileError(PermatchError, ValueError):
    """A model file that is truncated, foreign, or newer than this version."""


class TableError(PermatchError, ValueError):
    """A table of edges with missing columns, duplicate or missing edges, or bad labels."""


class InvalidPointsError(PermatchError, ValueError):
    """Points of the plane that are not of shape (n, 2), not finite, or all in one place."""


class ImageError(PermatchError, ValueError):
    """An image that cannot be read, or that shows no outline with enough points."""


class InvalidQueriesError(PermatchError, ValueError):
    """Documents, grades or query ids that do not fit together, or are not there at all."""


class DocumentTypeError(InvalidQueriesError, TypeError):
    """Documents of a type that has no real-number meaning (text, objects, complex)."""


class NaNDocumentError(InvalidQueriesError):
    """A feature of a document is NaN or infinite; the message names row and column."""


class GradeError(InvalidQueriesError):
    """Grades that are negative, fractional, too large, or all the same in every query."""


class LetorFileError(PermatchError, ValueError):
    """A LETOR file with a malformed line; the message names file and line."""
