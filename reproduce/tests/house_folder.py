"""A small house, in the layout of the real one."""

import numpy as np


def write_house(root, n_frames=24, size=6, n_bins=5, seed=0):
    """Write landmarks whose contexts tremble, some bins more, and return the folder."""
    rng = np.random.default_rng(seed)
    folder = root / "cmu_house"
    folder.mkdir(parents=True)
    base = rng.normal(size=(size, n_bins))
    noise = rng.normal(size=(n_frames, size, n_bins)) * np.geomspace(0.05, 3.0, n_bins)
    np.save(folder / "shape_contexts.npy", base + noise)
    times = np.arange(n_frames)[:, None, None]
    points = rng.uniform(0.0, 100.0, size=(size, 2))
    np.save(folder / "points.npy", points + 0.5 * times)
    return root
