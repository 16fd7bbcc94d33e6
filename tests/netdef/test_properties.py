"""What surgery must keep, on random nets that the interpreter runs before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rnncc
from rnncc.errors import NetError
from rnncc.netdef import (
    NetDef,
    consumers,
    export,
    extract,
    fuse_copies,
    parameters,
    prune,
    remove_dead_ops,
    rename_input,
    rename_output,
    ssa,
    ssa_rewrite,
    subgraph_io,
    undefined_blobs,
)
from tests.netdef.random_nets import INPUTS, PARAMS, init_net, nets, outputs_of, values

Array = np.ndarray[Any, Any]
INIT = init_net()


def computed(net: NetDef) -> dict[str, Array]:
    return outputs_of(net, INIT, values())


def assert_same(got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    assert list(got) == list(want)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@settings(deadline=None)
@given(nets())
def test_ssa_rewrite_writes_each_blob_once_and_computes_the_same(net: NetDef) -> None:
    before, made = net.SerializeToString(), ssa_rewrite(net, INIT)
    assert net.SerializeToString() == before
    written = Counter(name for op in made.op for name in op.output)
    assert set(written.values()) <= {1}
    assert written.keys().isdisjoint(undefined_blobs(made))
    want = list(computed(net).values())
    for got, array in zip(computed(made).values(), want, strict=True):
        np.testing.assert_array_equal(got, array)
    assert ssa_rewrite(made, INIT) == made


@settings(deadline=None)
@given(nets())
def test_prune_changes_no_output(net: NetDef) -> None:
    before = net.SerializeToString()
    made, gone = prune(net, parameters(INIT))
    assert net.SerializeToString() == before
    assert len(made.op) == len(net.op) - len(gone)
    assert [net.op[r.index].type for r in gone] == [r.type for r in gone]
    left = [op.type for i, op in enumerate(net.op) if i not in {r.index for r in gone}]
    assert [op.type for op in made.op] == left
    if made.op:
        assert_same(computed(made), computed(net))
    assert prune(made)[0] == made
    assert remove_dead_ops(made) == made
    assert fuse_copies(made) == made


def test_prune_keeps_a_copy_of_what_is_written_while_its_alias_is_read() -> None:
    net = NetDef(external_input=["v"], external_output=["v"])
    for kind, read, written in [("Copy", "v", "a"), ("Alias", "a", "b"), ("Tanh", "b", "v")]:
        net.op.add(type=kind, input=[read], output=[written])
    made, gone = prune(net)
    assert [op.type for op in made.op] == ["Copy", "Tanh"]
    assert [r.type for r in gone] == ["Alias"]
    assert_same(computed(made), computed(net))


@settings(deadline=None)
@given(nets(), st.data())
def test_halves_that_pass_on_what_subgraph_io_says_make_the_whole(
    net: NetDef, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(net.op)))
    known = {**values(), **values(PARAMS)}
    for ops in (range(cut), range(cut, len(net.op))):
        inputs, outputs = subgraph_io(net, ops)
        if not outputs:
            continue
        half = NetDef(op=[net.op[i] for i in ops])
        half.external_input.extend(dict.fromkeys(name for name, _ in inputs))
        half.external_output.extend(name for name, _ in outputs)
        known |= outputs_of(half, None, known)
    whole = computed(net)
    assert_same({name: known[name] for name in whole}, whole)


@settings(deadline=None)
@given(nets(), st.data())
def test_an_output_renamed_there_and_back_is_the_same_net(net: NetDef, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(net.op) - 1))
    name = net.op[index].output[0]
    there = rename_output(net, index, 0, "fresh")
    assert list(computed(there).values())
    for got, want in zip(computed(there).values(), computed(net).values(), strict=True):
        np.testing.assert_array_equal(got, want)
    try:
        assert rename_output(there, index, 0, name) == net
    except NetError:
        # another version of the blob still has the name
        assert name in {n for op in there.op for n in (*op.input, *op.output)} | set(
            there.external_input
        )


@settings(deadline=None)
@given(nets(), st.data())
def test_an_input_renamed_there_and_back_is_the_same_net(net: NetDef, data: st.DataObject) -> None:
    steps, _ = ssa(net)
    once = [of[0] for of in consumers(net).values() if len({op for op, _ in of}) == 1]
    assume(once)
    op, index = data.draw(st.sampled_from(once))
    name, _ = steps[op][0][index]
    there, init = rename_input(net, INIT, op, index, "fresh")
    inputs = {**values(), "fresh": values().get(name, np.zeros(0))}
    got = outputs_of(there, init, inputs)
    for array, want in zip(got.values(), computed(net).values(), strict=True):
        np.testing.assert_array_equal(array, want)
    taken = {n for net_ in (there, init) for o in net_.op for n in (*o.input, *o.output)}
    if name not in taken | set(there.external_input) | set(there.external_output):
        assert rename_input(there, init, op, index, name) == (net, INIT)


@settings(deadline=None)
@given(nets())
def test_an_extracted_net_computes_the_same_and_holds_no_more(net: NetDef) -> None:
    whole = computed(net)
    for name, want in whole.items():
        made = extract(net, [name])
        assert remove_dead_ops(made) == made
        assert set(made.external_input) <= set(net.external_input)
        if made.op:
            assert_same(computed(made), {name: want})


@settings(deadline=None)
@given(nets(declared=False))
def test_exported_nets_compute_the_same(net: NetDef) -> None:
    init, predict = export(net, values(PARAMS))
    for name, array in parameters(init).items():
        np.testing.assert_array_equal(array, values(PARAMS)[name])
    assert list(predict.external_output) == list(net.external_output)
    assert_same(outputs_of(predict, init, values()), outputs_of(net, INIT, values()))


@settings(max_examples=8, deadline=None)
@given(nets())
def test_an_exported_net_compiles_to_the_same(net: NetDef) -> None:
    init, predict = export(net, values(PARAMS))
    first, second = (
        rnncc.compile(n, init=i, shapes=dict.fromkeys(INPUTS, (2, 3)))
        for n, i in ((net, INIT), (predict, init))
    )
    assert list(second.inputs) == [name for name in predict.external_input if name in INPUTS]
    assert_same(second.run(values()), first.run(values()))
