"""Optimizers of functions that return value and gradient."""

from permatch.optimizers.bundle import BundleOptimum, minimize_bundle
from permatch.optimizers.lbfgs import (
    NEWTON,
    SOLVERS,
    BaseOptimum,
    Optimum,
    check_solver,
    minimize,
)
from permatch.optimizers.newton import minimize_newton
from permatch.optimizers.newton_path import NewtonPath
from permatch.optimizers.noisy import minimize_noisy
from permatch.optimizers.planes import Planes

__all__ = [
    "NEWTON",
    "SOLVERS",
    "BaseOptimum",
    "BundleOptimum",
    "NewtonPath",
    "Optimum",
    "Planes",
    "check_solver",
    "minimize",
    "minimize_bundle",
    "minimize_newton",
    "minimize_noisy",
]
