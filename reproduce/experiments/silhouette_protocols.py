"""What the learners of the silhouette experiment see, next to what they are tested on.

    same-landmarks     the landmarks of the test pairs, as in the paper
    new-landmarks      other points of the same outline
    other-silhouette   points of two other outlines: one to train on, one to validate on

The test pairs are the same ones every time, and training pairs have the same shears, so
nothing but what was learned from tells the protocols apart.  The other outlines are images
of a folder or, without one, dingbats of DejaVu Sans, the font that comes with matplotlib.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import FloatArray
from permatch.errors import InvalidOptionError
from permatch.pages.demo_learning import Draw, Setup, copies, deal, draw, seeds

PROTOCOLS = ("same-landmarks", "new-landmarks", "other-silhouette")

#: Chess pieces, an aeroplane, an umbrella and other things; none of them is a horse.
DINGBATS = "♚♛♜♝♞♟♠♣✂✈☎☂⚑⚒⚓⚜"

#: Endings of the files of a folder that are images.
ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".tif", ".tiff")


def draw_pairs(setup: Setup, repeat: int, protocol: str, others: str | None = None) -> Draw:
    """Return the pairs of a repeat under a protocol.

    Parameters
    ----------
    setup : Setup
        What is drawn.
    repeat : int
        Number of the repeat, from 0.
    protocol : str
        One of `PROTOCOLS`.
    others : str, optional
        Folder of other silhouettes; None takes `DINGBATS`.

    Returns
    -------
    Draw
        Test pairs that do not depend on the protocol, and pairs to learn from.
    """
    if protocol != "other-silhouette":
        return draw(setup, repeat, "new" if protocol == "new-landmarks" else "same")
    data_seed, pairs_seed, others_seed = seeds(setup, repeat)
    data = copies(setup, setup.image, data_seed)
    images = other_images(others, setup.image)
    names = np.random.default_rng(others_seed).choice(list(images), 2, replace=False)
    # The same seed: the same shears.
    train, validation = (copies(setup, _read(images[name]), data_seed) for name in names)
    return deal(setup, data, train, validation, pairs_seed)


def other_images(others: str | None, image: str | None = None) -> dict[str, str | Path]:
    """Return dingbats, or the images of a folder, by name; not the one tested on.

    Parameters
    ----------
    others : str, optional
        A folder.
    image : str, optional
        The image that is tested on; its copy in the folder is left out.

    Returns
    -------
    dict
        Characters, or paths.

    Raises
    ------
    InvalidOptionError
        If the folder has fewer than two other images.
    """
    if others is None:
        return {character: character for character in DINGBATS}
    tested = None if image is None else Path(image).read_bytes()
    found: dict[str, str | Path] = {
        path.name: path
        for path in sorted(Path(others).glob("*"))
        if path.suffix.lower() in ENDINGS and path.read_bytes() != tested
    }
    if len(found) < 2:
        raise InvalidOptionError(
            "the folder of other silhouettes must contain at least two images, one to "
            "train on and one to validate on, besides the one that is tested on; "
            f"{others} has {len(found)} with the endings {', '.join(ENDINGS)}. Add images, "
            "or leave out the folder to use dingbats."
        )
    return found


def digest(others: str | None, image: str | None) -> list[str]:
    """Name the content of other silhouettes."""
    return [
        hashlib.sha256(each.read_bytes()).hexdigest() if isinstance(each, Path) else each
        for each in other_images(others, image).values()
    ]


def _read(image: str | Path) -> Any:
    """Return what `silhouettes` takes as an image."""
    return str(image) if isinstance(image, Path) else dingbat(image)


def dingbat(character: str) -> FloatArray:
    """Return an image (600, 600) of a character, black on white."""
    figure = require("matplotlib.figure", "plots").Figure(figsize=(6.0, 6.0), dpi=100.0)
    agg = require("matplotlib.backends.backend_agg", "plots")
    canvas = agg.FigureCanvasAgg(figure)
    place = {"horizontalalignment": "center", "verticalalignment": "center"}
    figure.text(0.5, 0.5, character, fontsize=300, family="DejaVu Sans", **place)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., 0] / 255.0
