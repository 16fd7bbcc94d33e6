"""Loops of which TorchDynamo reads a few steps: the graphs are those of reading all."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
backend: Any = pytest.importorskip("rnncc.torch.backend")
loops: Any = pytest.importorskip("rnncc.frontends.torch.repeating.loops")
loop_net: Any = pytest.importorskip("tests.torch.loop_net")
pytest.importorskip("tests.torch.loops_of_lists")
pytest.importorskip("tests.torch.loops_of_numbers")


RELEASE = tuple(int(part) for part in torch.__version__.split(".")[:2])


class Read:
    """A program, read and run by PyTorch itself.

    Attributes:
        graphs: as texts.
        copied: how many steps each step that was read for others stands for.
        results: what the program gives, and what its module holds then.
    """

    def __init__(self, program: Any, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.graphs, self.copied = list[str](), list[int]()
        own = loops._Step._copy

        def copy(step: Any, nodes: Any, after: Any, change: Any, length: int) -> None:
            own(step, nodes, after, change, length)
            self.copied.append(length)

        def keep(module: Any) -> Any:
            self.graphs.append(text_of(module))
            return module.forward

        with monkeypatch.context() as patch:
            patch.setattr(loops, "LEAST", least)
            patch.setattr(loops._Step, "_copy", copy)
            patch.setattr(backend, "_compiled", keep)
            net = loop_net.Net(program)
            self.results = run(net, torch.compile(net, backend="rnncc"))


def run(net: Any, call: Any) -> Any:
    """A program's results, and what its module keeps."""
    torch.manual_seed(1)
    x = torch.randn(loop_net.N, loop_net.T, loop_net.UNITS, requires_grad=True)
    return call(x), net.kept, net.rows, net.table, net.count, net.scale, net.mean


def text_of(module: Any) -> str:
    """A graph, with its nodes by their numbers."""
    numbers = {node: f"%{number}" for number, node in enumerate(module.graph.nodes)}
    lines = list[str]()
    for node in numbers:
        arguments = torch.fx.map_arg((node.args, node.kwargs), lambda x: numbers[x])
        target = "" if node.op == "placeholder" else node.target
        lines.append(f"{node.op} {target} {arguments} {type_of(node.meta.get('example_value'))}")
    return "\n".join(lines)


def type_of(fake: Any) -> str:
    if isinstance(fake, torch.Tensor):
        return f"{fake.dtype}{list(fake.shape)}{fake.stride()} {fake.requires_grad}"
    return str(list(map(type_of, fake))) if isinstance(fake, tuple | list) else type(fake).__name__


def check_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            check_same(ours[key], theirs[key])
    elif isinstance(theirs, list | tuple):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            check_same(mine, other)
    else:
        assert ours == theirs


def check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, copied = loop_net.PROGRAMS[name]
    few = Read(program, 4, monkeypatch)
    torch._dynamo.reset()
    whole = Read(program, 1000, monkeypatch)
    net = loop_net.Net(program)
    assert whole.copied == []
    if RELEASE >= (2, 13):  # before, comparisons are written otherwise, and fewer values are known
        assert few.graphs == whole.graphs and len(few.graphs) == 1
        assert max(few.copied) > 1 if copied is None else few.copied == copied
    check_same(few.results, run(net, net))


def names_of(module: str) -> list[str]:
    programs = loop_net.PROGRAMS.items()
    return [name for name, (program, _) in programs if program.__module__.endswith(module)]


@pytest.mark.parametrize("name", names_of("lists"))
def test_lists_and_states(name: str, read_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, monkeypatch)


@pytest.mark.parametrize("name", names_of("numbers"))
def test_numbers_and_ways(name: str, read_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    check(name, monkeypatch)
