"""Nets compared: renamed inner blobs do not count, all else is told."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, MutableSequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnncc.netdef import Argument, NetDef, OperatorDef, load, parse_text
from rnncc.netdef.diff import diff
from rnncc.netdef.inner import names_blobs
from rnncc.netdef.netdef_pb2 import DeviceOption
from tests import draw
from tests.golden import FILES, GOLDEN


def nested(net: NetDef) -> Iterator[NetDef]:
    yield net
    for op in net.op:
        for arg in op.arg:
            for inner in [*([arg.n] if arg.HasField("n") else []), *arg.nets]:
                yield from nested(inner)


def inner_names(net: NetDef) -> list[str]:
    """The blobs whose names do not matter: written somewhere, and not of the interface."""
    names: set[str] = set()
    for part in nested(net):
        for op in part.op:
            names.update(op.output)
            for arg in op.arg:
                if names_blobs(op, arg):
                    names.update(text.decode() for text in arg.strings)
    read_first, written = set[str](), set[str]()
    for op in net.op:
        read_first.update(name for name in op.input if name not in written)
        written.update(op.output)
    return sorted(names - {*net.external_input, *net.external_output} - read_first)


def renamed(net: NetDef, names: dict[str, str]) -> NetDef:
    made = NetDef.FromString(net.SerializeToString())
    for part in nested(made):
        for field in (part.external_input, part.external_output):
            field[:] = [names.get(name, name) for name in field]
        for op in part.op:
            op.input[:] = [names.get(name, name) for name in op.input]
            op.output[:] = [names.get(name, name) for name in op.output]
            for arg in op.arg:
                if names_blobs(op, arg):
                    texts = [text.decode() for text in arg.strings]
                    arg.strings[:] = [names.get(text, text).encode() for text in texts]
    return made


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_names_of_inner_blobs_do_not_count(path: object) -> None:
    net = load(str(path))
    names = inner_names(net)
    fresh = [f"blob_{index}" for index in range(len(names))]
    random.Random(1).shuffle(fresh)
    assert diff(net, renamed(net, dict(zip(names, fresh, strict=True)))) == []
    rotated = dict(zip(names, [*names[1:], *names[:1]], strict=True))
    assert diff(net, renamed(net, rotated)) == []


def references(net: NetDef) -> list[Callable[[str], None]]:
    """Setters of every name that an operator reads, in the net and the nets inside."""

    def setter(op: OperatorDef, index: int) -> Callable[[str], None]:
        def put(name: str) -> None:
            op.input[index] = name

        return put

    ops = [op for part in nested(net) for op in part.op]
    return [setter(op, index) for op in ops for index in range(len(op.input))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_one_other_input_anywhere_is_told(path: object) -> None:
    net = load(str(path))
    rng = random.Random(str(path))
    count = len(references(net))
    for place in rng.sample(range(count), min(count, 6)):
        other = NetDef.FromString(net.SerializeToString())
        references(other)[place]("nothing_of_this_name")
        assert diff(net, other), place
        assert diff(other, net), place


GPU = DeviceOption(device_type=1)


def put(field: MutableSequence[Any], index: int, value: object) -> None:
    field[index] = value


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda net: net.op[1].arg[0].ClearField("i"), "argument 'axis' is 2 | nothing"),
        (lambda net: net.op[1].arg.add(name="x", i=1), "argument 'x' is in the second net only"),
        (lambda net: net.op[1].arg.pop(), "argument 'axis' is in the first net only"),
        (lambda net: net.op.pop(2), 'op 2 (Tanh "t") is in the first net only'),
        (lambda net: setattr(net.op[2], "type", "Relu"), '(Relu "t") is in the second net only'),
        (lambda net: setattr(net.op[2], "engine", "CUDNN"), "engine is '' | 'CUDNN'"),
        (lambda net: setattr(net, "name", "other"), "the net: name is '' | 'other'"),
        (lambda net: net.external_input.pop(), "input 'b' is declared in the first net only"),
        (lambda net: net.external_output.append("t"), "output 't' is declared in the second"),
        (lambda net: net.external_input.reverse(), "lists the same blobs in another order"),
        (lambda net: net.op[3].input.append("x"), "input: their number is 2 | 3"),
        (lambda net: put(net.op[3].input, 0, "x"), 'input 0 is "t" of op 2 | "x"'),
        (lambda net: put(net.op[2].output, 0, "u"), 'input 0 is "t" of op 2 | "t" of op 1'),
        (lambda net: put(net.op[0].arg[0].floats, 1, 5), "'values' item 1 is 2.0 | 5.0"),
        (lambda net: net.op[0].arg[0].floats.pop(), "'values': the number of items is 2 | 1"),
        (lambda net: net.op[2].device_option.MergeFrom(GPU), "is empty | device_type: 1"),
    ],
)
def test_words(change: Callable[[NetDef], object], told: str) -> None:
    text = """
    op { output: "w" type: "GivenTensorFill" arg { name: "values" floats: 1 floats: 2 } }
    op { input: "x" input: "w" input: "b" output: "t" type: "FC" arg { name: "axis" i: 2 } }
    op { input: "t" output: "t" type: "Tanh" }
    op { input: "t" input: "w" output: "y" type: "Sum" }
    external_input: "x" external_input: "b" external_output: "y"
    """
    net = parse_text(text, "")
    other = parse_text(text, "")
    change(other)
    lines = "\n".join(diff(net, other))
    if " | " in told:
        told = told.replace(" | ", " in the first net, ") + " in the second"
    assert told in lines
    assert diff(other, net)


def test_versions_count_and_not_names() -> None:
    """A name used twice is another blob the second time."""
    a = parse_text(
        """op { input: "x" output: "t" type: "Relu" } op { input: "t" output: "t" type: "Tanh" }
        op { input: "t" output: "y" type: "Copy" } external_output: "y" """, ""
    )  # fmt: skip
    b = parse_text(
        """op { input: "x" output: "t" type: "Relu" } op { input: "t" output: "u" type: "Tanh" }
        op { input: "u" output: "y" type: "Copy" } external_output: "y" """, ""
    )  # fmt: skip
    assert diff(a, b) == []
    b.op[2].input[0] = "t"
    told = 'op 2 (Copy "y"): input 0 is "t" of op 1 in the first net, "t" of op 0 in the second'
    assert diff(a, b) == [told]


BRANCH = """
op {{ input: "x" output: "{0}" type: "Copy" }}
op {{ input: "c" input: "x" output: "{1}" type: "If"
  arg {{ name: "then_net" n {{ op {{ input: "x" output: "{2}" type: "Relu" }} }} }} }}
op {{ input: "{1}" output: "z" type: "Copy" }}
external_input: "x" external_input: "c" external_output: "z"
"""


@pytest.mark.parametrize("names", [("y", "y", "u"), ("u", "y", "y"), ("y", "u", "u")])
def test_what_a_branch_leaves_counts(names: tuple[str, ...]) -> None:
    """If writes y; where it does not, the earlier y stays: other names are another net."""
    a = parse_text(BRANCH.format("y", "y", "y"), "")
    assert diff(a, parse_text(BRANCH.format("v", "v", "v"), "")) == []
    assert diff(a, parse_text(BRANCH.format(*names), ""))


def test_a_step_net_in_text_form_is_one() -> None:
    net = load(GOLDEN / "caffe2/lstm/net.pb")
    other = load(GOLDEN / "caffe2/lstm/net.pb")
    for op in other.op:
        for arg in op.arg:
            if arg.name.endswith("step_net"):
                text = str(arg.n).encode()
                arg.ClearField("n")
                arg.s = text
    assert diff(net, other) == []
    for op in other.op:
        for arg in op.arg:
            if arg.name == "step_net":
                arg.s = arg.s.replace(b"LSTMUnit", b"GRUUnit")
    assert any("GRUUnit" in line for line in diff(net, other))


BLOBS = ("a", "b", "c", "d")


@st.composite
def flat_nets(draw: st.DrawFn) -> NetDef:
    names = st.sampled_from(BLOBS)
    net = NetDef()
    for _ in range(draw(st.integers(0, 6))):
        op = OperatorDef(type=draw(st.sampled_from(["Relu", "Sum"])))
        op.input.extend(draw(st.lists(names, max_size=2)))
        op.output.extend(draw(st.lists(names, min_size=1, max_size=2)))
        if draw(st.booleans()):
            op.arg.append(Argument(name="k", i=draw(st.integers(0, 1))))
        net.op.append(op)
    net.external_input.extend(draw(st.lists(names, max_size=2, unique=True)))
    written = {name for op in net.op for name in op.output}
    known = sorted(written | set(net.external_input))
    if known:
        net.external_output.extend(draw(st.lists(st.sampled_from(known), max_size=2, unique=True)))
    return net


def canonical(net: NetDef) -> object:
    """The net with every value called after the operator and the output that write it."""
    values: dict[str, object] = {}
    operators: list[object] = []
    for index, op in enumerate(net.op):
        inputs = [values.get(name, name) for name in op.input]
        arguments = [(arg.name, arg.i) for arg in op.arg]
        # an output named twice is one value, written last
        places = {name: (index, place) for place, name in enumerate(op.output)}
        values.update(places)
        operators.append((op.type, inputs, arguments, [places[name] for name in op.output]))
    outputs = [(name, values.get(name, name)) for name in net.external_output]
    return operators, list(net.external_input), outputs


@settings(max_examples=draw.examples(300), deadline=None)
@given(flat_nets(), flat_nets())
def test_it_tells_of_any_two_nets_that_differ(a: NetDef, b: NetDef) -> None:
    assert bool(diff(a, b)) == (canonical(a) != canonical(b))


@settings(max_examples=draw.examples(300), deadline=None)
@given(flat_nets(), st.data())
def test_it_tells_of_one_change(net: NetDef, data: st.DataObject) -> None:
    other = NetDef.FromString(net.SerializeToString())
    if not other.op:
        return
    op = other.op[data.draw(st.integers(0, len(other.op) - 1))]
    field = op.input if op.input and data.draw(st.booleans()) else op.output
    field[data.draw(st.integers(0, len(field) - 1))] = data.draw(st.sampled_from([*BLOBS, "e"]))
    assert bool(diff(net, other)) == (canonical(net) != canonical(other))


def test_large_nets_take_seconds() -> None:
    def chain(types: list[str]) -> NetDef:
        net = NetDef(external_input=["b0"], external_output=[f"b{len(types)}"])
        for index, kind in enumerate(types):
            net.op.append(OperatorDef(type=kind, input=[f"b{index}"], output=[f"b{index + 1}"]))
        return net

    rng = random.Random(0)
    types = [rng.choice(["Relu", "Tanh", "Sigmoid"]) for _ in range(3000)]
    shuffled = rng.sample(types, len(types))
    shorter = types[:1500] + types[1501:]
    started = time.process_time()
    assert diff(chain(types), chain(types)) == []
    assert diff(chain(types), chain(shuffled))
    # the operator, the external output's name, and no more
    assert sum("op " in line for line in diff(chain(types), chain(shorter))) < 4
    assert time.process_time() - started < 6
