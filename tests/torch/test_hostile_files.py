"""Files of torch.export.save that would make PyTorch's reader run code, or hold other weights."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rnncc
from rnncc import CompileError
from rnncc.frontends.torch.programs.archive_checks import faults, is_of_sizes
from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
GRAPH, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
T0 = "Symbol('s0', positive=True, integer=True)"


class Scaled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


@pytest.fixture(scope="module")
def members() -> dict[str, bytes]:
    """Of a file with an open size, without the folder that they are in."""
    exported = rt.export(
        nn.Linear(3, 2), (torch.zeros(5, 3),), dynamic_shapes=({0: torch.export.Dim("T")},)
    )
    held = io.BytesIO()
    torch.export.save(exported, held)
    with zipfile.ZipFile(held) as file:
        return {e.filename.partition("/")[2]: file.read(e) for e in file.infolist()}


def archive(members: dict[str, bytes], **changed: str) -> bytes:
    """`graph` and `weights` take the places of those members; others are added."""
    changed = {{"graph": GRAPH, "weights": WEIGHTS}.get(k, k): v for k, v in changed.items()}
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name, content in {**members, **{k: v.encode() for k, v in changed.items()}}.items():
            file.writestr(f"m/{name}", content)
    return held.getvalue()


@pytest.mark.parametrize(
    "expression",
    [
        T0,
        "s0",
        "2*s0 + 1",
        f"Mul(Integer(2), {T0})",
        f"Pow({T0}, Integer(2))",
        f"FloorDiv(Add({T0}, Integer(-1)), Integer(2))",
        "Mul(Float('1.5', precision=53), ToFloat(s0))",
        "FloatPow(ToFloat(s0), Float('0.5', precision=53))",
        "FloatPow(Float('0.9', precision=53), ToFloat(s0))",
        "Max(1, -s0//2)",
        "Eq(Mod(s0, 2), 0)",
        "True",
    ],
)
def test_expressions_of_sizes(expression: str) -> None:
    assert is_of_sizes(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('touch x') or s0",
        "exec('1')",
        "Max('exec(1)', 2)",
        "Add('exec(1)', 2)",
        "Symbol('s0').__class__",
        "Symbol('exec(1)')",
        "__builtins__",
        "Symbol(exec)(1)",
        "(lambda: 1)()",
        "Add(*[1])",
        "Symbol('a', positive=open)",
        "[s0][0]",
        "9**9**9",
        "2**100000000",
        "LShift(1, 10**9)",
        "FloatPow(9, Add(Mul(0, s0), Integer(1000000000)))",
        "PowByNatural(9, '1e9')",
        "Pow(Pow(Pow(9, 64), 64), 64)",
        "1" * 30,
        "-" * 3000 + "1",
        "(" * 300 + "1",
        "x" * 20_000,
        "",
    ],
)
def test_expressions_of_other_things(expression: str) -> None:
    assert not is_of_sizes(expression)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"expr_str": {}}, "'{}' is no expression of sizes"),
        ({"expr_str": 3}, "'3' is no expression of sizes"),
        ({"a": [{"expr_str": "open('x')"}]}, "is no expression of sizes"),
        ({"as_tensor": {"name": "x=exec('1')"}}, "is no name of a value"),
        ({"as_sym_int": {"as_name": "a b"}}, "'a b' is no name of a value"),
        ({"forward_arg_names": ["x: exec('1')"]}, "is no name of a value"),
        ({"path_name": "opaque_obj_0"}, "'opaque_obj_0' is no tensor"),
        ({"spec": '[1, {"context": "[{\\"\\\\u005f_enum__\\": 1}]"}]'}, "imports enumerations"),
        ({"spec": ' {"default_factory_module": "antigravity"}'}, "it imports 'antigravity'"),
    ],
)
def test_json_that_runs_code(value: Any, told: str) -> None:
    assert any(told in fault for fault in faults(value))
    assert not list(faults({"spec": '[1, {"default_factory_module": "builtins"}]', "a": "{x"}))
    assert not list(faults({"custom": '{"name": "a b"}', "name": None, "as_name": "s_1"}))


def test_an_expression_is_not_evaluated(members: dict[str, bytes], tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    graph = json.loads(members[GRAPH])
    (symbol,) = {text for text in members[GRAPH].decode().split('"') if text.startswith("Symbol")}
    hostile = json.dumps(graph).replace(symbol, f"__import__('os').mkdir('{mark}') or {symbol}")
    assert hostile != json.dumps(graph)
    with pytest.raises(CompileError, match="is no expression of sizes"):
        rnncc.compile(archive(members, graph=hostile))
    assert not mark.exists()


def test_archives(members: dict[str, bytes]) -> None:
    assert rnncc.compile(archive(members)).inputs
    with pytest.raises(CompileError, match="holds compiled libraries, which are not run"):
        rnncc.compile(archive(members, **{"data/aotinductor/model/a.so": "x"}))
    with pytest.raises(CompileError, match="its JSON is nested too deeply"):
        rnncc.compile(archive(members, graph="[" * 100_000))
    with pytest.raises(CompileError, match="the file of 'weight' is empty"):
        rnncc.compile(archive({**members, "data/weights/weight_0": b""}))
    twice = io.BytesIO(archive(members))
    with zipfile.ZipFile(twice, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr(f"m/{GRAPH}", members[GRAPH])
    with pytest.raises(CompileError, match=r"it holds 'm/models/model\.json' twice"):
        rnncc.compile(twice.getvalue())


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('[{"as_int": 2}, {"as_int": 3}]', '[{"as_int": 1}, {"as_int": 3}]', r"float32 \[1, 3\]"),
        ('[{"as_int": 2}, {"as_int": 3}]', '[{"as_int": 2}, {"as_int": 1}]', r"float32 \[2, 1\]"),
        ('"dtype": 7', '"dtype": 6', r"float16 \[2, 3\]"),
    ],
)
def test_other_weights(members: dict[str, bytes], before: str, after: str, told: str) -> None:
    """What lay behind the tensor was read, or numbers of another kind."""
    config = members[WEIGHTS].decode()
    assert before in config
    with pytest.raises(CompileError, match=rf"^net: weight: is {told}, and the graph"):
        rnncc.compile(archive(members, weights=config.replace(before, after, 1)))


def test_a_text_in_place_of_a_number() -> None:
    held = io.BytesIO()
    torch.export.save(torch.export.export(Scaled(), (torch.zeros(2),)), held)
    with zipfile.ZipFile(held) as file:
        entries = {e.filename.partition("/")[2]: file.read(e) for e in file.infolist()}
    graph = json.loads(entries[GRAPH])
    (node,) = graph["graph_module"]["graph"]["nodes"]
    node["inputs"][1]["arg"], node["metadata"]["stack_trace"] = {"as_string": "zz"}, 3
    with pytest.raises(CompileError, match="operand is a text: 'zz'"):
        rnncc.compile(archive(entries, graph=json.dumps(graph)))


def test_a_text_in_place_of_a_list_s_number() -> None:
    class Pooled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.avg_pool1d(x, 2)

    exported = torch.export.export(Pooled(), (torch.zeros(1, 2, 4),))
    (node,) = exported.graph.find_nodes(
        op="call_function", target=torch.ops.aten.avg_pool1d.default
    )
    node.args = (*node.args[:2], ["zz"])
    with pytest.raises(CompileError, match=r"an argument is a list of texts: \['zz'\]"):
        rnncc.compile(exported)


class Chosen(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.select(1, 0)


@pytest.mark.parametrize("axis", [2, -3, 2**31, None])
def test_an_axis_that_is_not_there(axis: int | None) -> None:
    exported = torch.export.export(Chosen(), (torch.zeros(2, 3),))
    (node,) = exported.graph.find_nodes(op="call_function", target=torch.ops.aten.select.int)
    node.args = (node.args[0], axis, *node.args[2:])
    with pytest.raises(CompileError, match=f"there is no axis {axis} of 2"):
        rnncc.compile(exported)


@pytest.mark.parametrize("name", ["self", "translation"])
def test_a_name_of_an_argument_that_is_none(name: str) -> None:
    exported = torch.export.export(Chosen(), (torch.zeros(2, 3),))
    (node,) = exported.graph.find_nodes(op="call_function", target=torch.ops.aten.select.int)
    node.kwargs = {name: node.args[0]}
    with pytest.raises(CompileError, match="arguments are not supported"):
        rnncc.compile(exported)


def test_a_damaged_call(members: dict[str, bytes]) -> None:
    graph = json.loads(members[GRAPH])
    leaf = json.dumps([1, {"type": None, "context": None, "children_spec": []}])
    graph["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = leaf
    with pytest.raises(CompileError, match="what it is called with is damaged"):
        rnncc.compile(archive(members, graph=json.dumps(graph)))


def test_what_cannot_be_run_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """PyTorch logs its own error, with a traceback, before it raises it."""

    class Repeated(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x.repeat(1, 2)
            y += 1
            return y

    held = io.BytesIO()
    torch.export.save(torch.export.export(Repeated(), (torch.zeros(5, 3),)), held)
    with zipfile.ZipFile(held) as file:
        parts = {e.filename.partition("/")[2]: file.read(e) for e in file.infolist()}
    graph = json.loads(parts[GRAPH])
    [node] = (n for n in graph["graph_module"]["graph"]["nodes"] if "repeat" in n["target"])
    node["inputs"][1]["arg"]["as_ints"][1] = -2
    with pytest.raises(CompileError, match="Repeats cannot be negative"):
        rnncc.compile(archive(parts, graph=json.dumps(graph)))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("damage", [{"guards_code": 3}, {"module_call_graph": []}])
def test_what_says_how_a_module_is_called_is_damaged(
    damage: dict[str, Any], members: dict[str, bytes]
) -> None:
    model = json.loads(members[GRAPH])
    for part in (model, model["graph_module"]):
        part.update({key: value for key, value in damage.items() if key in part})
    with pytest.raises(CompileError, match="it does not say how the module is called"):
        rnncc.compile(archive(members, graph=json.dumps(model)))
