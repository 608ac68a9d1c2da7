"""Sums over matchings on NVIDIA GPUs: source compiled on first use, plain pointers in and out."""
