"""A blob renamed as a whole: another name is no other net, and the way back leads home."""

from __future__ import annotations

from pathlib import Path

import pytest

from rnncc.errors import NetError
from rnncc.netdef import NetDef, load, parse_text
from rnncc.netdef.diff import diff
from rnncc.netdef.rename_blob import rename_blob
from tests.golden import GOLDEN

NETS = sorted(path for part in ("caffe2", "control") for path in GOLDEN.glob(f"{part}/*/net.pb"))


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.parent.name)
def test_there_and_back(path: Path) -> None:
    net = load(path)
    written = {name for op in net.op for name in op.output}
    read = {name for op in net.op for name in op.input}
    for name in sorted(written | read):
        try:
            made = rename_blob(net, name, "another name")[0]
        except NetError as error:
            assert "gradient" in str(error)
            continue
        back = rename_blob(made, "another name", name)[0]
        assert back == net
        is_inner = name in written and name not in {*net.external_input, *net.external_output}
        assert bool(diff(net, made)) != is_inner, name


def test_errors() -> None:
    net = parse_text('op { input: "x" output: "y" type: "Relu" }', "")
    with pytest.raises(NetError, match='has no blob "z"'):
        rename_blob(net, "z", "w")
    with pytest.raises(NetError, match='the name "y" is taken'):
        rename_blob(net, "x", "y")
    with pytest.raises(NetError, match="not a NetDef message"):
        rename_blob(b"net", "x", "z")  # type: ignore[arg-type]


def test_a_parameter_is_renamed_in_its_init_net() -> None:
    net = parse_text('op { input: "x" input: "w" output: "y" type: "Mul" }', "")
    init = parse_text('op { output: "w" type: "ConstantFill" }', "")
    made, filled = rename_blob(net, "w", "scale", init)
    assert list(made.op[0].input) == ["x", "scale"]
    assert list(filled.op[0].output) == ["scale"]
    assert list(init.op[0].output) == ["w"]
    assert rename_blob(net, "x", "z")[1] == NetDef()
