"""Likelihoods of tracks and detections in, association probabilities out."""

from permatch.tracking.associate import Association, associate, infer_association

__all__ = ["Association", "associate", "infer_association"]
