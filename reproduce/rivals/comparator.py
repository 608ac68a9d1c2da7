"""The network of SortNet, and the error it is trained by.

With one hidden layer, every hidden unit has a twin that sees the two documents exchanged:

    a_k(x, y) = tanh(<p_k, x> + <q_k, y> + b_k)          twin: a_k(y, x)
    N(x, y)   = logistic( sum_k u_k a_k(x, y) + v_k a_k(y, x) + c )

so that N(y, x) is the output for "y before x", of the same weights.  The error of a pair, x
better than y, is ``(1 - N(x, y))^2 + N(y, x)^2``.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from permatch._types import FloatArray, IntArray


class Comparator(NamedTuple):
    """The weights of a network, for d features and h hidden units."""

    of_first: FloatArray  # p, (d, h)
    of_second: FloatArray  # q, (d, h)
    bias: FloatArray  # b, (h,)
    own: FloatArray  # u, (h,)
    twin: FloatArray  # v, (h,)
    threshold: FloatArray  # c, (1,)

    @classmethod
    def from_vector(cls, weights: FloatArray, n_features: int) -> "Comparator":
        """Return a network with these weights, one after the other."""
        n_hidden = (len(weights) - 1) // (2 * n_features + 3)
        shapes = [(n_features, n_hidden)] * 2 + [(n_hidden,)] * 3 + [(1,)]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        parts = np.split(weights, ends)
        return cls(*(part.reshape(s) for part, s in zip(parts, shapes, strict=True)))

    def prefers(self, documents: FloatArray) -> FloatArray:
        """Return N(x, y) for every pair x, y of documents, (n, n)."""
        first, second = documents @ self.of_first + self.bias, documents @ self.of_second
        total = np.full((len(documents),) * 2, self.threshold[0])
        for k, (own, twin) in enumerate(zip(self.own, self.twin, strict=True)):
            hidden = np.tanh(first[:, k, None] + second[:, k])
            total += own * hidden + twin * hidden.T
        return expit(total)


class SquaredError:
    """The mean squared error of a comparator on pairs, as a function of its weights.

    Parameters
    ----------
    documents : ndarray of shape (n, d)
        Features.
    pairs : ndarray of shape (2, p)
        Rows of the better and of the worse document of each pair.
    decay : float
        Strength of the penalty.
    """

    def __init__(self, documents: FloatArray, pairs: IntArray, decay: float) -> None:
        self._documents, self._pairs, self._decay = documents, pairs, decay

    def value_and_grad(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the penalised error and its gradient."""
        documents, (above, below) = self._documents, self._pairs
        net = Comparator.from_vector(weights, documents.shape[1])
        first, second = documents @ net.of_first + net.bias, documents @ net.of_second
        own = np.tanh(first[above] + second[below])  # of (better, worse), and its twin
        twin = np.tanh(first[below] + second[above])
        right = expit(own @ net.own + twin @ net.twin + net.threshold)
        wrong = expit(twin @ net.own + own @ net.twin + net.threshold)
        error = float(((1.0 - right) ** 2 + wrong**2).mean())
        # Slopes by the arguments of the two logistic functions, then by those of tanh.
        up = -2.0 * (1.0 - right) * right * (1.0 - right) / len(above)
        down = 2.0 * wrong * wrong * (1.0 - wrong) / len(above)
        by_own = (np.outer(up, net.own) + np.outer(down, net.twin)) * (1.0 - own**2)
        by_twin = (np.outer(up, net.twin) + np.outer(down, net.own)) * (1.0 - twin**2)
        better, worse = documents[above].T, documents[below].T
        grad = np.concatenate(
            [
                (better @ by_own + worse @ by_twin).ravel(),
                (worse @ by_own + better @ by_twin).ravel(),
                by_own.sum(axis=0) + by_twin.sum(axis=0),
                up @ own + down @ twin,
                up @ twin + down @ own,
                [up.sum() + down.sum()],
            ]
        )
        value = error + 0.5 * self._decay * float(weights @ weights)
        return value, grad + self._decay * weights
