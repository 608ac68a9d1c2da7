"""A small sequence of people walking, in the layout of TUD-Campus."""

import numpy as np

from permatch.datasets import Boxes, write_mot


def write_campus(root, n_frames=16, n_people=5, seed=0):
    """Write people who cross the image both ways, some late, and return the folder."""
    rng = np.random.default_rng(seed)
    frame, id, box = [], [], []
    for k in range(n_people):
        size = np.array([20.0 + 2 * k, 50.0 + 5 * k])
        place = np.array([30.0 * k, 20.0 + 4 * k])
        velocity = np.array([4.0 if k % 2 else -3.0, 0.2])
        for t in range(3 * (k == 0), n_frames - 3 * (k == 1)):
            frame.append(t + 1)
            id.append(k + 1)
            box.append([*(place + t * velocity + rng.normal(scale=0.3, size=2)), *size])
    folder = root / "tud_campus"
    folder.mkdir(parents=True)
    write_mot(folder / "gt.txt", Boxes(frame, id, box))
    return root
