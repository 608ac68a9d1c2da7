"""Training data that do not fit in memory: the same sums from disk and on Dask."""

from permatch.distributed.opening import Opened, has_columns, is_in_parts, open_queries
from permatch.distributed.predicting import predict_in_parts

__all__ = ["Opened", "has_columns", "is_in_parts", "open_queries", "predict_in_parts"]
