"""The standard's interface of a back end: `prepare`, `run_model`, `run_node`, `supports_device`.

    import rnncc.onnx_backend
    outputs = rnncc.onnx_backend.run_model(model, [x, h])

Inputs whose numbers decide shapes, such as that of Reshape, are constants of what is compiled,
which is compiled anew where they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from rnncc.errors import CompileError
from rnncc.frontends.onnx.errors import NeedsValue, Unsupported
from rnncc.frontends.onnx.importer import import_model
from rnncc.frontends.onnx.reading import load, onnx_package
from rnncc.options import Options

if TYPE_CHECKING:
    from rnncc.ir.program import Program

onnx_package()  # before the others: where the package is missing, its error says what to install

from onnx.backend.base import (  # noqa: E402
    Backend as _Backend,
)
from onnx.backend.base import BackendRep as _BackendRep  # noqa: E402
from onnx.backend.base import namedtupledict  # noqa: E402
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt  # noqa: E402

Array = np.ndarray[Any, np.dtype[Any]]
Compute = Callable[[Mapping[str, Array]], Mapping[str, Array]]
MAX_KEPT = 16
"""For how many values of such inputs a compiled model is kept."""


class Prepared(_BackendRep):
    """A model that runs on arrays.

    Args:
        model: the message.
        interpret: run it by the interpreter of the IR, not as machine code.
    """

    def __init__(self, model: Any, interpret: bool = False) -> None:
        self._message, self._interpret = load(model), interpret
        held = {t.name for t in self._message.graph.initializer}
        self._inputs = [i.name for i in self._message.graph.input if i.name not in held]
        self._constant: list[str] = []
        self._first: Program | None = None
        self._made = dict[tuple[bytes, ...], tuple[list[str], Compute]]()
        try:
            self._first = self._import({})
        except NeedsValue as error:
            if not error.inputs:
                raise
            self._constant = error.inputs

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Compute the outputs.

        Args:
            inputs: arrays in the order of the graph's inputs, or by name; or one array.
        """
        given = self._named(inputs)
        while True:
            values = {name: given[name] for name in self._constant if name in given}
            try:
                results = self._call(values, given)
            except NeedsValue as error:
                more = [name for name in error.inputs if name not in self._constant]
                if not more:
                    raise
                self._constant += more
                continue
            names = [o.name for o in self._message.graph.output]
            return namedtupledict("Outputs", names)(*(results[name] for name in names))

    def _named(self, inputs: Any) -> dict[str, Array]:
        if isinstance(inputs, Mapping):
            named = cast(Mapping[str, Any], inputs)
            return {str(name): np.asarray(array) for name, array in named.items()}
        several = isinstance(inputs, (list, tuple))
        arrays = cast(Sequence[Any], inputs if several else [inputs])
        return {n: np.asarray(a) for n, a in zip(self._inputs, arrays, strict=False)}

    def _call(self, values: Mapping[str, Array], given: Mapping[str, Array]) -> Mapping[str, Array]:
        key = tuple(array.tobytes() + str(array.shape).encode() for array in values.values())
        if key not in self._made:
            while len(self._made) >= MAX_KEPT:
                self._made.pop(next(iter(self._made)))
            imported, self._first = self._first, None
            if imported is None or values:
                imported = self._import(values)
            self._made[key] = list(imported.net.inputs), self._runs(imported)
        inputs, run = self._made[key]
        return run({name: array for name, array in given.items() if name in inputs})

    def _runs(self, program: Program) -> Compute:
        """What computes a program's outputs."""
        if self._interpret:
            from rnncc.ir.interpreter import run

            return partial(run, program)
        from rnncc_runtime import Model

        from rnncc.pipeline import compile_in_memory

        model = compile_in_memory(program, None, Options.of(program, {}))
        assert isinstance(model, Model), "it is not compiled for training"
        return model.run

    def _import(self, values: Mapping[str, Array]) -> Program:
        return import_model(self._message, values=values)


class Backend(_Backend):
    """What `onnx.backend` calls; models that are not supported raise
    `BackendIsNotSupposedToImplementIt`, wrong ones `CompileError`."""

    interpret: ClassVar[bool] = False

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether a model can be compiled."""
        try:
            cls.prepare(model, device)
        except (CompileError, BackendIsNotSupposedToImplementIt):
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Read a model, and compile it when it first runs."""
        if not cls.supports_device(device):
            raise CompileError("", f"device {device!r} is not CPU")
        try:
            return Prepared(model, cls.interpret)
        except Unsupported as error:
            raise BackendIsNotSupposedToImplementIt(str(error)) from error

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run one node.

        Args:
            outputs_info: a dtype and a shape of each output, where they are known.
        """
        helper = onnx_package().helper
        given = [np.asarray(a) for a in inputs]
        names = [name for name in node.input if name]
        kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in given]
        ins = [
            helper.make_tensor_value_info(name, kind, a.shape)
            for name, kind, a in zip(names, kinds, given, strict=True)
        ]
        outs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", ins, outs)
        opset = kwargs.get("opset_version") or onnx_package().defs.onnx_opset_version()
        imports = [helper.make_opsetid(node.domain, opset)]
        model = helper.make_model(graph, opset_imports=imports)
        return cls.prepare(model, device).run(given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU alone."""
        return device.split(":")[0] == "CPU"


class Interpreter(Backend):
    """The same by the interpreter of the IR, without compiling: slow to run, quick to prepare."""

    interpret = True


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_node = Backend.run_node
run_model = Backend.run_model
supports_device = Backend.supports_device
