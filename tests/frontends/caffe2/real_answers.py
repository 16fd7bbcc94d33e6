"""The real Caffe2 as a process that answers: run by its Python, asked by mutated.py.

A request is a pickled (net, inputs, outputs), preceded by its length in 4 bytes; the answer, in the
same form, has the outputs or is what Caffe2 says. Arrays are (shape, type, bytes): what NumPy
pickles, older versions do not read.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import Any

import numpy as np

Packed = dict[str, tuple[tuple[int, ...], str, bytes]]


def packed(arrays: dict[str, Any]) -> Packed:
    return {name: (a.shape, a.dtype.str, a.tobytes()) for name, a in arrays.items()}


def unpacked(arrays: Packed) -> dict[str, Any]:
    made = {n: np.frombuffer(data, kind) for n, (_, kind, data) in arrays.items()}
    return {name: array.reshape(arrays[name][0]).copy() for name, array in made.items()}


def send(stream: Any, what: Any) -> None:
    data = pickle.dumps(what, 4)
    stream.write(struct.pack("I", len(data)) + data)
    stream.flush()


def receive(stream: Any) -> Any:
    """Raises `EOFError` where the other side has ended."""
    head = stream.read(4)
    if len(head) < 4:
        raise EOFError
    return pickle.loads(stream.read(struct.unpack("I", head)[0]))


def answer(net: bytes, inputs: Packed, outputs: list[str]) -> Packed | str:
    from caffe2.proto import caffe2_pb2
    from caffe2.python import workspace

    workspace.ResetWorkspace()
    try:
        message = caffe2_pb2.NetDef.FromString(net)
        for name, array in unpacked(inputs).items():
            workspace.FeedBlob(name, array)
        workspace.RunNetOnce(message)
        return packed({name: np.asarray(workspace.FetchBlob(name)) for name in outputs})
    except Exception as error:
        return str(error)[:300]


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Caffe2 prints is no answer
    while True:
        try:
            request = receive(sys.stdin.buffer)
        except EOFError:
            return
        send(answers, answer(*request))


if __name__ == "__main__":
    main()
