"""A net and its parameters as two nets: one that fills the parameters, one that computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rnncc.errors import NetError
from rnncc.netdef.checks import check_net, copy_of
from rnncc.netdef.nested import expose
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef
from rnncc.netdef.versions import Steps, ssa

Array = np.ndarray[Any, Any]


def export(
    net: NetDef, parameters: Mapping[str, Any], outputs: Sequence[str] | str | None = None
) -> tuple[NetDef, NetDef]:
    """Split a net and its parameters into an init net and a predict net.

    Args:
        parameters: arrays of float32, int32, int64, uint8, bool or strings, by blob.
        outputs: what the predict net gives: names of blobs; or "unread", those that operators
            write and none reads, as Caffe2's exporter for mobile devices chooses them, in which
            case the init net also fills every input with a placeholder, a zero of shape [1, 1];
            by default the declared outputs, or the unread blobs where none are declared.
    Returns:
        The init net, and the predict net, whose external inputs are the blobs it reads without
        writing them and then the parameters.
    Raises:
        NetError: an array of another type; an output that the net does not have.
    """
    check_net(net)
    if isinstance(outputs, str) and outputs != "unread":
        raise NetError(net.name, f'outputs is {outputs!r}, not "unread" or a list of names')
    unread = outputs == "unread"
    steps, last = ssa(net if unread else expose(net))
    predict = copy_of(net)
    inputs = [name for name, version in last.items() if version == 0 and name not in parameters]
    # Caffe2's exporter forgets what is read undeclared, and what is overwritten
    read = [] if unread else [n for ins, _ in steps for n, version in ins if version == 0]
    first = [name for name in read if name not in parameters]
    predict.external_input[:] = dict.fromkeys([*inputs, *first, *net.external_input, *read])
    if unread or (outputs is None and not net.external_output):
        predict.external_output[:] = _unread(steps, last)
    elif outputs is not None:
        predict.external_output[:] = outputs
    for name in predict.external_output:
        if name not in last and name not in parameters:
            what = f'the output "{name}" is no input and no operator writes it'
            raise NetError(net.name, what)
    init = NetDef()
    init.op.extend(_fill(name, value) for name, value in parameters.items())
    if unread:
        placeholder = np.zeros((1, 1), np.float32)
        init.op.extend(_fill(name, placeholder) for name in inputs)
    return init, predict


def _unread(steps: Steps, last: Mapping[str, int]) -> list[str]:
    read = {name for inputs, _ in steps for name, _ in inputs}
    return [name for name, version in last.items() if version > 0 and name not in read]


def _fill(name: str, value: Any) -> OperatorDef:
    """The operator that makes an array."""
    array = np.asarray(value)
    if value is None:
        raise NetError("", f'the parameter "{name}" has no value')
    kind = "strings" if array.dtype.kind in "SUO" else array.dtype.name
    if kind not in _FILLS:
        names = ", ".join(_FILLS)
        raise NetError("", f'the parameter "{name}" is of type {array.dtype}', f"known: {names}")
    suffix, write = _FILLS[kind]
    op = OperatorDef(type=f"GivenTensor{suffix}Fill", output=[name], name="")
    op.arg.add(name="shape").ints.extend(array.shape)
    write(op.arg.add(name="values"), array, name)
    return op


def _floats(arg: Argument, array: Array, _: str) -> None:
    arg.floats.extend(array.ravel().tolist())


def _ints(arg: Argument, array: Array, _: str) -> None:
    arg.ints.extend(array.ravel().astype(np.int64).tolist())


def _bytes(arg: Argument, array: Array, _: str) -> None:
    arg.strings.append(array.tobytes())


def _strings(arg: Argument, array: Array, name: str) -> None:
    for text in array.ravel().tolist():
        if not isinstance(text, (str, bytes)):
            raise NetError("", f'the parameter "{name}" holds {type(text).__name__}, not strings')
        arg.strings.append(text.encode() if isinstance(text, str) else text)


_FILLS: dict[str, tuple[str, Callable[[Argument, Array, str], None]]] = {
    "float32": ("", _floats),
    "int32": ("Int", _ints),
    "int64": ("Int64", _ints),
    "bool": ("Bool", _ints),
    "uint8": ("ByteStringToUInt8", _bytes),
    "strings": ("String", _strings),
}
"""The type of an array -> the word in its fill's name, and what writes its values."""
