"""A graph in ONNX, put together node by node."""

import json
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._version import __version__

#: Format of the operators; every runtime since 2020 reads it.
_OPSET = 13
_IR = 7
#: The operators of machine learning that are no neural networks.
ML_DOMAIN = "ai.onnx.ml"


class OnnxGraph:
    """From an input ``X`` (n, d), float32, to an output ``scores`` (n,).

    Categories have an input of their own, ``categories`` (n, k), text.  An input without
    columns is left out.

    Attributes
    ----------
    features, categories : str
        The inputs.
    """

    features = "X"
    categories = "categories"

    def __init__(self, n_features: int, n_categories: int = 0) -> None:
        self._onnx = require("onnx", "serving", what="export to ONNX")
        self._helper = require("onnx.helper", "serving")
        self._opsets = {"": _OPSET}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        kinds = self._onnx.TensorProto
        inputs = (
            (self.features, kinds.FLOAT, n_features),
            (self.categories, kinds.STRING, n_categories),
        )
        self._inputs = [
            self._helper.make_tensor_value_info(name, kind, ["n", n_columns])
            for name, kind, n_columns in inputs
            if n_columns
        ]

    def constant(self, values: Any) -> str:
        """Add an array: truth values, whole numbers as int64, all others as float32."""
        array = np.asarray(values)
        kinds: dict[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.int64}
        kind = kinds.get(array.dtype.kind, np.float32)
        name = f"constant{len(self._constants)}"
        tensor = require("onnx.numpy_helper", "serving").from_array
        self._constants.append(tensor(array.astype(kind), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output, and return the name of that."""
        name = f"{operator.lower()}{len(self._nodes)}"
        self._nodes.append(
            self._helper.make_node(operator, inputs, [name], domain=domain, **attributes)
        )
        return name

    def use(self, domain: str, version: int) -> None:
        """Declare a set of operators besides the standard one."""
        self._opsets[domain] = version

    def file(
        self, scores: str, name: str, names: list[str], categories: list[str] | None = None
    ) -> bytes:
        """Return the file of a graph whose output is called `scores` so far.

        `names` and `categories` are those of the columns of the inputs.
        """
        make = self._helper
        nodes = [*self._nodes, make.make_node("Identity", [scores], ["scores"])]
        real = self._onnx.TensorProto.FLOAT
        output = make.make_tensor_value_info("scores", real, ["n"])
        graph = make.make_graph(nodes, name, self._inputs, [output], self._constants)
        document = make.make_model(
            graph,
            producer_name="permatch",
            producer_version=__version__,
            opset_imports=[make.make_opsetid(*pair) for pair in self._opsets.items()],
            ir_version=_IR,
        )
        columns = {"features": names} | ({"categories": categories} if categories else {})
        told = {key: json.dumps(value) for key, value in columns.items()}
        make.set_model_props(document, told)
        self._onnx.checker.check_model(document)
        return document.SerializeToString()
