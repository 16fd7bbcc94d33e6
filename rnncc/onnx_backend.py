"""The standard's interface of a back end: `prepare`, `run_model`, `run_node`, `supports_device`.

    import rnncc.onnx_backend
    outputs = rnncc.onnx_backend.run_model(model, [x, h])

Inputs whose numbers decide shapes, such as that of Reshape, are constants of what is compiled,
which is compiled anew where they change, and where lists hold more, fewer or other tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from rnncc_runtime import Model

from rnncc.driver.in_memory import compile_in_memory
from rnncc.errors import CompileError
from rnncc.frontends.onnx.errors import NeedsValue, Unsupported
from rnncc.frontends.onnx.importer import Imported, read_model
from rnncc.frontends.onnx.inputs import Given
from rnncc.frontends.onnx.lists import Names, element_names
from rnncc.frontends.onnx.reading import load, onnx_package
from rnncc.ir.interpreter import run
from rnncc.ir.types import dims_of, dtype_of
from rnncc.options import Options

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

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
Arrays = dict[str, Array]
HOLDING = ("sequence_type", "optional_type")
"""Types of inputs that hold tensors."""
MAX_KEPT = 16
"""For how many values of such inputs a compiled model is kept."""


class _NeedsConstants(Exception):
    """Inputs whose numbers must be known, and are not yet constants."""

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__(*inputs)
        self.inputs = list(inputs)


@contextmanager
def _refusals() -> Generator[None]:
    """What is not supported is raised as the standard's interface has it."""
    try:
        yield
    except Unsupported as error:
        raise BackendIsNotSupposedToImplementIt(str(error)) from error


def _check_lists(imported: Imported) -> None:
    """Refuse lists with numbers in them as outputs: the standard's comparison takes the length of
    each element, and fails for those without axes whatever a back end gives."""
    outputs = imported.program.net.outputs
    for name, names in imported.outputs.items():
        for index, element in enumerate(names if isinstance(names, list) else ()):
            if not dims_of(outputs[element]):
                what = f'output "{name}" is a list whose element {index} has no axes'
                raise BackendIsNotSupposedToImplementIt(f"{what} (rnncc.compile gives it)")


class PreparedModel(_BackendRep):
    """A model that runs on arrays.

    Args:
        model: the message.
        interpret: run it by the interpreter of the IR, not as machine code.
    """

    def __init__(self, model: Any, interpret: bool = False) -> None:
        self._interpret = interpret
        with _refusals():
            self._message = load(model)
        initialised = {t.name for t in self._message.graph.initializer}
        inputs = [i for i in self._message.graph.input if i.name not in initialised]
        self._inputs = {i.name: i.type.WhichOneof("value") for i in inputs}
        self._declared = {i.name for i in self._message.graph.input}
        self._constant: list[str] = []
        self._sized = False
        self._first: Imported | None = None
        self._compiled = dict[object, tuple[Imported, Compute]]()
        if any(kind in HOLDING for kind in self._inputs.values()):
            return  # what they hold is known when it runs
        try:
            self._first = self._import(Given())
        except _NeedsConstants as error:
            self._constant = error.inputs

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Compute the outputs.

        Args:
            inputs: arrays in the order of the graph's inputs, or by name; or one array. A list of
                arrays is one of tensors, and None an optional value without an element.
            seed: of random numbers, if the model draws any; 0 without.
        """
        tensors, containers = self._named(inputs)
        seed = np.asarray(kwargs.get("seed", 0), np.int32)
        while True:
            values = {name: tensors[name] for name in self._constant if name in tensors}
            try:
                results = self._call(values, tensors, containers, seed)
            except _NeedsConstants as error:
                self._constant += error.inputs
                continue
            except BackendIsNotSupposedToImplementIt:
                if self._sized:
                    raise
                self._sized = True  # the sizes of the call may decide what names of them do not
                continue
            names = [o.name for o in self._message.graph.output]
            return namedtupledict("Outputs", names)(*(results[name] for name in names))

    def _named(self, inputs: Any) -> tuple[Arrays, dict[str, Names]]:
        """Arrays by the names of tensors, and what lists and optional values hold of these."""
        if not isinstance(inputs, Mapping):
            several = isinstance(inputs, (list, tuple))
            arrays = cast(Sequence[Any], inputs if several else [inputs])
            inputs = dict(zip(self._inputs, arrays, strict=False))
        tensors, containers = Arrays(), dict[str, Names]()
        for name, value in cast(Mapping[str, Any], inputs).items():
            if self._inputs.get(name) not in HOLDING:
                tensors[name] = np.asarray(value)
            elif value is None:
                containers[name] = None
            elif isinstance(value, (list, tuple)):
                items = cast(Sequence[Any], value)
                containers[name] = names = element_names(name, len(items))
                tensors.update(zip(names, map(np.asarray, items), strict=True))
            else:
                containers[name], tensors[name] = name, np.asarray(value)
        return tensors, containers

    def _call(
        self, values: Arrays, tensors: Arrays, containers: Mapping[str, Names], seed: Array
    ) -> Mapping[str, Any]:
        """The outputs, by what is compiled for these values and lists."""
        known = containers or self._sized
        shapes = {name: array.shape for name, array in tensors.items()} if known else {}
        fixed = [(array.tobytes(), array.shape) for array in values.values()]
        key = repr((fixed, containers, shapes))
        if key not in self._compiled:
            while len(self._compiled) >= MAX_KEPT:
                self._compiled.pop(next(iter(self._compiled)))
            imported, self._first = self._first, None
            if imported is None or values:
                imported = self._import(Given(values, containers, shapes))
            self._compiled[key] = imported, self._runner(imported.program)
        imported, run = self._compiled[key]
        net = imported.program.net
        inputs = {n: _with_bits(array) for n, array in tensors.items() if n in net.inputs}
        added = set(net.inputs) - self._declared - set(inputs)  # the seed, where there is one
        results = run(inputs | dict.fromkeys(added, seed))
        results = {n: _without_bits(array, net.outputs[n]) for n, array in results.items()}
        return {name: _assembled(names, results) for name, names in imported.outputs.items()}

    def _runner(self, program: Program) -> Compute:
        """What computes a program's outputs."""
        if not program.net.outputs:
            return lambda inputs: {}  # lists that are empty, or nothing
        if self._interpret:
            return partial(run, program)
        model = compile_in_memory(program, None, Options.of(program, {}))
        assert isinstance(model, Model), "it is not compiled for training"
        return model.run

    def _import(self, given: Given) -> Imported:
        """Read the model.

        Raises:
            _NeedsConstants: further inputs must be constants.
            BackendIsNotSupposedToImplementIt: it is not supported.
        """
        with _refusals():
            try:
                imported = read_model(self._message, given=given)
            except NeedsValue as error:
                if not {*error.inputs} <= {*self._constant}:
                    raise _NeedsConstants(error.inputs) from error
                raise
        _check_lists(imported)
        return imported


def _with_bits(array: Array) -> Array:
    """An array as a model takes it: bfloat16, which is not NumPy's, by its bits."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _without_bits(array: Array, value: SSAValue) -> Array:
    """The opposite; texts as ONNX's own tools have them, as Python's objects."""
    if array.dtype.kind == "U":
        return array.astype(object)
    if dtype_of(value) != "bf16":
        return array
    onnx = onnx_package()
    return array.view(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))


def _assembled(names: Names, results: Mapping[str, Array]) -> Any:
    """An output made of a program's: an array, a list of them, or None."""
    if isinstance(names, list):
        return [results[name] for name in names]
    return None if names is None else results[names]


def _declared(name: str, value: Any) -> Any:
    """The declaration of an input that is an array or a list of arrays."""
    helper = onnx_package().helper
    items = cast(list[Any], value) if isinstance(value, list) else []
    listed = any(isinstance(item, np.ndarray) for item in items)
    array: Array = np.asarray(items[0] if listed else cast(Any, value))
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    if listed:
        return helper.make_tensor_sequence_value_info(name, kind, None)
    return helper.make_tensor_value_info(name, kind, array.shape)


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
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Read a model, and compile it when it first runs."""
        if not cls.supports_device(device):
            raise CompileError("", f"device {device!r} is not CPU")
        return PreparedModel(model, cls.interpret)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run one node.

        Args:
            outputs_info: a dtype and a shape of each output, where they are known.
        """
        helper = onnx_package().helper
        arrays = list(inputs)
        names = [name for name in node.input if name]
        ins = [_declared(name, value) for name, value in zip(names, arrays, strict=True)]
        outs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", ins, outs)
        opset = kwargs.get("opset_version") or onnx_package().defs.onnx_opset_version()
        imports = [helper.make_opsetid(node.domain, opset)]
        model = helper.make_model(graph, opset_imports=imports)
        return cls.prepare(model, device).run(arrays)

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
