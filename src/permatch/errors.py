"""All exceptions and warnings of permatch, each also the builtin type a caller expects.

A message says what was required, what was received and what to do.
"""


class PermatchError(Exception):
    """Base class of all permatch errors."""


class InvalidGraphError(PermatchError, ValueError):
    """Scores that do not describe a bipartite graph."""


class ScoreTypeError(InvalidGraphError, TypeError):
    """Scores that are not real numbers (text, objects, complex numbers)."""


class ScoreShapeError(InvalidGraphError):
    """Scores of the wrong shape, or several graphs where one is asked for."""


class EdgeListError(InvalidGraphError):
    """Edges that occur twice, or that join nodes out of range."""


class NaNScoreError(InvalidGraphError):
    """At least one score is NaN."""


class InfiniteScoreError(InvalidGraphError):
    """At least one score is ``+inf`` or too large to sum in float64."""


class InfeasibleGraphError(PermatchError, ValueError):
    """No matching of allowed edges includes every node that must be matched."""


class PartialMatchingError(PermatchError, ValueError):
    """An engine for perfect matchings was given nodes that may stay unmatched."""


class CapacityError(PermatchError, ValueError):
    """An engine for matchings was given nodes that may have several links."""


class SizeLimitError(PermatchError, ValueError):
    """The graph is larger than the engine accepts; the message estimates its cost."""


class PrecisionError(PermatchError, ArithmeticError):
    """An engine's own check found that its answer lost too many digits."""


class DeviceError(PermatchError, RuntimeError):
    """There is no GPU to compute on, or its driver failed."""


class DerivativeError(PermatchError, NotImplementedError):
    """A derivative of higher order than there is a formula for."""


class InvalidMatchingError(PermatchError, ValueError):
    """A matching that gives a node two partners, or knowledge that contradicts itself."""


class InvalidOptionError(PermatchError, ValueError):
    """An option with a value outside its documented range."""


class MarginalsUnavailableError(PermatchError, RuntimeError):
    """Marginals requested from an engine that computes only the log-partition."""


class MissingDependencyError(PermatchError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class FeatureShapeError(InvalidGraphError):
    """Edge features that are not of shape (m, m, d)."""


class FeatureTypeError(InvalidGraphError, TypeError):
    """Edge features that are not real numbers."""


class NaNFeatureError(InvalidGraphError):
    """An edge feature is NaN or infinite; the message names graph and edge."""


class FeatureCountError(InvalidGraphError):
    """Graphs whose number of features differs, among them or from the fitted model."""


class NoGraphsError(InvalidGraphError):
    """An empty training or test set."""


class ForbiddenEdgeError(InvalidMatchingError):
    """A labelled match that uses a forbidden edge."""


class NotFittedError(PermatchError, ValueError, AttributeError):
    """A method that needs a fitted model was called before `fit`."""


class ModelFileError(PermatchError, ValueError):
    """A model file that is damaged, not from permatch, or newer than this version."""


class TableError(PermatchError, ValueError):
    """A table of edges with missing columns, duplicate or missing edges, or bad labels."""


class InvalidPointsError(PermatchError, ValueError):
    """Points that are not of shape (n, 2), not finite, or all in one place."""


class ImageError(PermatchError, ValueError):
    """An image that cannot be read, or that shows no outline with enough points."""


class InvalidQueriesError(PermatchError, ValueError):
    """Documents, grades or query ids that are missing or inconsistent."""


class MissingQueriesError(InvalidQueriesError):
    """Documents without the query of each, where it is needed."""


class UnroutedQueriesError(BaseException):
    """scikit-learn asked for a score without query ids.

    Not an `Exception`: the searches and cross-validation of scikit-learn turn those of a
    scorer into nan and warnings, one for every split, and go on.
    """


class DocumentTypeError(InvalidQueriesError, TypeError):
    """Documents that are not real numbers (text, objects, complex numbers)."""


class NaNDocumentError(InvalidQueriesError):
    """A feature of a document is NaN or infinite; the message names row and column."""


class GradeError(InvalidQueriesError):
    """Grades that are negative, fractional, too large, or constant in every query."""


class LetorFileError(PermatchError, ValueError):
    """A LETOR file with a malformed line; the message names file and line."""


class UnsortedQueriesError(LetorFileError, TableError):
    """A query comes back after another one in a file that is read in blocks."""


class FeatureIndexError(LetorFileError):
    """A document with more features than allowed; `problem` is the message less advice."""

    def __init__(
        self,
        problem: str,
        advice: str = "Give a larger n_features, or a file with these features only.",
    ) -> None:
        super().__init__(problem, advice)
        self.problem = problem

    def __str__(self) -> str:
        return " ".join(self.args)


class BoxError(PermatchError, ValueError):
    """Boxes of objects that are incomplete, not finite or of no size; or such a file."""


class ServingWarning(UserWarning):
    """A model is being fitted that cannot be exported to serving systems."""
