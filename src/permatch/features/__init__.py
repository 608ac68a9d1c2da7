"""Raw data in, node features out."""

from permatch.features.shape_context import shape_context

__all__ = ["shape_context"]
