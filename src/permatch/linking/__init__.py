"""Link two tables: scored pairs in, one-to-one probabilities and decisions out."""

from permatch.linking.link import link
from permatch.linking.links import Links

__all__ = ["Links", "link"]
