"""Every golden call of Caffe2's and detectron2's own functions on nets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnncc import netdef
from rnncc.errors import NetError
from rnncc.netdef import NetDef, load
from tests.netdef.graph_cases import GRAPH, QUIRKS

Case = Path


def cases(function: str) -> list[Any]:
    folders = sorted((GRAPH / function).iterdir()) if GRAPH.exists() else []
    kept = [folder for folder in folders if (function, folder.name) not in QUIRKS]
    return [pytest.param(folder, id=folder.name) for folder in kept]


def args_of(case: Case) -> dict[str, Any]:
    return json.loads((case / "case.json").read_text())["args"]


def message(path: Path) -> NetDef:
    return NetDef.FromString(path.read_bytes())


def check(case: Case, call: Callable[..., Any], *nets: NetDef) -> Any:
    """Call with nets; None if it must fail and does, with nothing changed either way."""
    before = [net.SerializeToString() for net in nets]
    expected = case / "expected.json"
    fails = expected.exists() and "error" in json.loads(expected.read_text())
    try:
        if not fails:
            return call(*nets)
        with pytest.raises(NetError):
            call(*nets)
        return None
    finally:
        assert [net.SerializeToString() for net in nets] == before


def keyed(pairs: list[Any]) -> dict[tuple[str, int], Any]:
    return {(name, version): fact for (name, version), fact in pairs}


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("case", cases("get_ssa"))
def test_ssa(case: Case) -> None:
    given, net = args_of(case), load(case / "net.pb")
    start = dict(given["blob_versions"]) if "blob_versions" in given else None
    kept = dict(start) if start is not None else None
    argument = [net] if given.get("as_list") else net
    got = check(case, lambda n: netdef.ssa(argument, start), net)  # type: ignore[arg-type]
    assert start == kept
    if got is not None:
        want = json.loads((case / "expected.json").read_text())
        assert plain(got[0]) == want["ssa"]
        assert plain(list(got[1].items())) == want["versions"]


@pytest.mark.parametrize("case", cases("get_undefined_blobs"))
def test_undefined_blobs(case: Case) -> None:
    given, net = args_of(case), load(case / "net.pb")
    start = dict(given["blob_versions"]) if "blob_versions" in given else None
    got = check(case, lambda n: netdef.undefined_blobs(n, start), net)
    assert got == json.loads((case / "expected.json").read_text())


@pytest.mark.parametrize("case", cases("get_producer_map"))
def test_producers(case: Case) -> None:
    got = check(case, netdef.producers, load(case / "net.pb"))
    assert plain(sorted(got.items())) == json.loads((case / "expected.json").read_text())


@pytest.mark.parametrize("case", cases("get_consumer_map"))
def test_consumers(case: Case) -> None:
    got = check(case, netdef.consumers, load(case / "net.pb"))
    assert plain(sorted(got.items())) == json.loads((case / "expected.json").read_text())


@pytest.mark.parametrize("case", cases("get_sub_graph_external_input_output"))
def test_subgraph_io(case: Case) -> None:
    indices = args_of(case)["sub_graph_op_indices"]
    got = check(case, lambda n: netdef.subgraph_io(n, indices), load(case / "net.pb"))
    if got is not None:
        want = json.loads((case / "expected.json").read_text())
        assert plain(dict(zip(("inputs", "outputs"), got, strict=True))) == want


@pytest.mark.parametrize("case", cases("get_external_blob_names"))
def test_external_blobs(case: Case) -> None:
    scope = args_of(case)["lexical_scope"]
    got = check(case, lambda n: netdef.external_blobs(n, scope), load(case / "net.pb"))
    if got is not None:
        want = json.loads((case / "expected.json").read_text())
        assert dict(zip(("inputs", "outputs"), got, strict=True)) == want


@pytest.mark.parametrize("case", cases("rename_op_input"))
def test_rename_input(case: Case) -> None:
    a = args_of(case)
    nets = [load(case / "net.pb")]
    if (case / "init.pb").exists():
        nets.append(message(case / "init.pb"))

    def call(net: NetDef, init: Any = None) -> tuple[NetDef, NetDef]:
        more = a.get("from_producer", False)
        return netdef.rename_input(net, init, a["op_id"], a["input_id"], a["new_name"], more)

    got = check(case, call, *nets)
    if got is not None:
        assert got == (message(case / "expected.pb"), message(case / "expected_init.pb"))


@pytest.mark.parametrize("case", cases("rename_op_output"))
def test_rename_output(case: Case) -> None:
    a = args_of(case)

    def call(net: NetDef) -> NetDef:
        return netdef.rename_output(net, a["op_id"], a["output_id"], a["new_name"])

    got = check(case, call, load(case / "net.pb"))
    if got is not None:
        assert got == message(case / "expected.pb")


@pytest.mark.parametrize("case", cases("remove_dead_end_ops"))
def test_remove_dead_ops(case: Case) -> None:
    got = check(case, netdef.remove_dead_ops, load(case / "net.pb"))
    if got is not None:
        assert got == message(case / "expected.pb")


@pytest.mark.parametrize("case", cases("identify_reshape_sub_graph"))
def test_reshape_subgraphs(case: Case) -> None:
    got = check(case, netdef.reshape_subgraphs, load(case / "net.pb"))
    if got is not None:
        assert got == json.loads((case / "expected.json").read_text())


@pytest.mark.parametrize("names", [list, dict], ids=["names", "arrays"])
@pytest.mark.parametrize("case", cases("remove_reshape_for_fc"))
def test_remove_reshape_before_fc(case: Case, names: type) -> None:
    given = args_of(case)["params"]
    params = given if names is list else {name: np.zeros(1) for name in given}
    got = check(case, lambda n: netdef.remove_reshape_before_fc(n, params), load(case / "net.pb"))
    if got is not None:
        net, left = got
        assert net == message(case / "expected.pb")
        assert isinstance(left, names)
        assert list(left) == json.loads((case / "expected.json").read_text())["params"]


@pytest.mark.parametrize("case", cases("fuse_copy_between_cpu_and_gpu"))
def test_fuse_copies(case: Case) -> None:
    got = check(case, netdef.fuse_copies, load(case / "net.pb"))
    assert got == message(case / "expected.pb")


@pytest.mark.parametrize("case", cases("infer_device_type"))
def test_infer_devices(case: Case) -> None:
    given = args_of(case)
    known = keyed(given["known_status"])
    more = {name: given[name] for name in given if name == "device_name_style"}
    got = check(case, lambda n: netdef.infer_devices(n, known, **more), load(case / "net.pb"))
    if got is not None:
        assert got == keyed(json.loads((case / "expected.json").read_text()))


@pytest.mark.parametrize("case", cases("ssa_rewrite"))
def test_ssa_rewrite(case: Case) -> None:
    nets = [load(case / "net.pb")]
    if (case / "init.pb").exists():
        nets.append(message(case / "init.pb"))
    got = check(case, netdef.ssa_rewrite, *nets)
    if got is not None:
        assert got == message(case / "expected.pb")


def arrays_of(init: NetDef) -> dict[str, Any]:
    """What an init net fills, strings and bytes among it."""
    arrays: dict[str, Any] = {}
    for op in init.op:
        named = {arg.name: arg for arg in op.arg}
        shape, values = list(named["shape"].ints), named["values"]
        match op.type:
            case "GivenTensorByteStringToUInt8Fill":
                array: Any = np.frombuffer(values.strings[0], np.uint8)
            case "GivenTensorStringFill":
                array = np.array(list(values.strings), object)
            case _:
                array = netdef.parameters(NetDef(op=[op]))[op.output[0]]
        arrays[op.output[0]] = array.reshape(shape)
    return arrays


@pytest.mark.parametrize("case", cases("export"))
def test_export(case: Case) -> None:
    init = message(case / "init.pb")
    values = arrays_of(init)
    params = {name: values.get(name) for name in args_of(case)["params"]}
    got = check(case, lambda n: netdef.export(n, params, outputs="unread"), load(case / "net.pb"))
    if got is not None:
        want = message(case / "expected_init.pb"), message(case / "expected.pb")
        assert got == want
