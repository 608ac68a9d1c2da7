"""Link two tables: scored pairs in, one-to-one probabilities and decisions out."""

from permatch.linking.entities import split_entities
from permatch.linking.fit import fit_links
from permatch.linking.link import link
from permatch.linking.links import Links

__all__ = ["Links", "fit_links", "link", "split_entities"]
