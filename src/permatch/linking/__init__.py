"""Link two tables: scored pairs in, one-to-one probabilities and decisions out.

From two tables to links, learned from pairs whose labels are known:

>>> import permatch as pm
>>> from permatch.datasets import load_registers
>>> from permatch.features import candidate_pairs, compare_pairs
>>> north, south, known = load_registers()
>>> pairs = candidate_pairs(north, south, on="name", id="id", n_neighbors=3)
>>> how = {"name": "jaro_winkler", "street": "token_sort", "town": "exact", "born": "exact"}
>>> pairs = compare_pairs(pairs, north, south, how, id="id")
>>> true = set(zip(known["north"], known["south"]))
>>> pairs["label"] = [pair in true for pair in zip(pairs["left"], pairs["right"])]
>>> model = pm.fit_links(pairs, engine="bethe")
>>> links = pm.link(pairs, model=model)
>>> links.columns[:3]
['left', 'right', 'probability']

Labels may be empty: a model is learned from some pairs and links them all.
"""

from permatch.linking.entities import split_entities
from permatch.linking.fit import fit_links
from permatch.linking.link import link
from permatch.linking.links import Links
from permatch.linking.parted_links import PartedLinks

__all__ = ["Links", "PartedLinks", "fit_links", "link", "split_entities"]
