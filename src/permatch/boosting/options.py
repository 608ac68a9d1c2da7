"""The options of boosted trees, checked and in LightGBM's words."""

from collections.abc import Mapping, Sequence
from typing import Any

from permatch._validation import as_index, check_count
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import check_number

#: Options of LightGBM that are passed on as they are, besides those with a parameter.
PASSED_ON = (
    "bagging_fraction",
    "bagging_freq",
    "bin_construct_sample_cnt",
    "extra_trees",
    "feature_fraction_bynode",
    "interaction_constraints",
    "lambda_l1",
    "max_bin",
    "max_delta_step",
    "max_depth",
    "min_data_in_bin",
    "min_gain_to_split",
    "min_sum_hessian_in_leaf",
    "monotone_constraints_method",
    "monotone_penalty",
    "path_smooth",
    "use_quantized_grad",
)


def check_share(value: Any, name: str) -> float:
    """Return a number above 0, at most 1."""
    share = check_number(value, name, is_zero_allowed=False)
    if share > 1.0:
        raise InvalidOptionError(f"{name} must be above 0 and at most 1; got {value!r}.")
    return share


def check_tree_options(options: Any) -> dict[str, Any]:
    """Return further options of LightGBM, of those that there are."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidOptionError(
            "tree_options must be a dict of options of LightGBM; got "
            f"{type(options).__name__}."
        )
    unknown = [name for name in options if name not in PASSED_ON]
    if unknown:
        raise InvalidOptionError(
            f"tree_options must be some of {', '.join(PASSED_ON)}; got {unknown[0]!r}. "
            "Others have a parameter of their own, or would change the model."
        )
    return dict(options)


def check_monotone(
    constraints: Any, n_features: int, names: Sequence[str] | None
) -> list[int] | None:
    """Return whether scores must rise (1) or fall (-1) with every feature, or None."""
    if constraints is None:
        return None
    required = (
        "monotone_constraints must be -1, 0 or 1 for each of the "
        f"{n_features} features, or a dict of these by name"
    )
    if isinstance(constraints, Mapping):
        known = dict.fromkeys(names or (), 0)
        unknown = [name for name in constraints if name not in known]
        if unknown:
            have = f"have {', '.join(known)}" if known else "have no names"
            raise InvalidOptionError(
                f"{required}; got the name {unknown[0]!r}, and the features {have}. Pass "
                "a DataFrame, or feature_names."
            )
        constraints = list((known | dict(constraints)).values())
    try:
        signs = [as_index(sign) for sign in constraints]
    except TypeError:
        signs = [None]
    if len(signs) != n_features or not all(sign in (-1, 0, 1) for sign in signs):
        raise InvalidOptionError(f"{required}; got {constraints!r}.")
    return [sign for sign in signs if sign is not None]


def check_leaves(value: Any, name: str = "num_leaves") -> int:
    """Return the number of leaves of a tree."""
    return check_count(value, name, 2)
