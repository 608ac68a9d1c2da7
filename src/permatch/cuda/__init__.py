"""Sums over matchings on NVIDIA GPUs, from source that is compiled on first use."""
