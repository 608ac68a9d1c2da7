"""Kernels on ranked lists of documents, and on LETOR text."""
