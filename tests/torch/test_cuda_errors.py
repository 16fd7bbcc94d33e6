"""What a GPU finds wrong while it computes, on an emulated one: told at the next call."""

from __future__ import annotations

from typing import Any

import pytest
from rnncc_runtime import RunError

from tests.torch.cells import (
    CLOSE,
    MinimalGated,
    make_cell,
    nn,
    sequence,
    torch,
)
from tests.torch.emulated_gpu import EmulatedGpu, faults, gpu
from tests.torch.words_net import Words

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
__all__ = ["gpu"]


def test_an_index_outside_of_its_table(gpu: EmulatedGpu) -> None:
    net, words = Words(), torch.randint(0, 10, (6, 2))
    compiled = rt.compile(net, (words,))
    torch.testing.assert_close(compiled(words), net(words), **CLOSE)
    compiled(words).sum().backward()
    assert (gpu.calls, gpu.waits) == (3, 2)  # backward is not waited for
    words[3, 1] = 10
    for _ in range(2):
        with pytest.raises(RunError, match=r"^net: an index is outside of its table$"):
            compiled(words)
    with torch.no_grad(), pytest.raises(RunError, match="index"):
        compiled(words)
    words[3, 1] = 9
    torch.testing.assert_close(compiled(words), net(words), **CLOSE)


FAILING = {
    "an embedding": (Words(), (torch.zeros(6, 2, dtype=torch.int64),), True),
    "a layer": (nn.LSTM(3, 4, bidirectional=True), (torch.zeros(5, 2, 3),), False),
}


@pytest.mark.parametrize("kind", FAILING)
def test_what_can_fail(kind: str) -> None:
    module, example, fails = FAILING[kind]
    assert _can_fail(module, *example) == fails


@pytest.mark.parametrize(
    ("function", "fails"),
    [
        (lambda x: x.flip(0), False),
        (lambda x: x.roll(1, 0), False),
        (lambda x: x.cumsum(0).softmax(1), False),
        (lambda x: x[x.argmax(0)], True),
    ],
)
def test_which_indices_can_be_wrong(function: Any, fails: bool) -> None:
    class Module(nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    assert _can_fail(Module(), torch.randn(3, 4)) == fails


def _can_fail(module: Any, *example: Any) -> bool:
    program = rt.compile(module, example).form().net.program
    return faults.can_fail(program)


@pytest.mark.usefixtures("read_anew")
def test_an_error_of_an_earlier_call(gpu: EmulatedGpu) -> None:
    """Of nets that are not waited for: blocks that waited in vain for each other."""
    cell = make_cell(MinimalGated)
    rt.scan(cell, sequence(2), cell.start)
    faults.errors_of(gpu, False)._words[0] = 9
    with pytest.raises(RunError, match=r"scan: an earlier call on the GPU: blocks .* have waited"):
        rt.scan(cell, sequence(2), cell.start)
    rt.scan(cell, sequence(2), cell.start)[0].sum().backward()


def test_words_are_used_again(gpu: EmulatedGpu) -> None:
    errors = faults.Errors(gpu)
    words = [errors.take(f"net{number}") for number in range(faults.WORDS + 1)]
    assert words[-1] == words[0]
    errors._words[5] = 3
    with pytest.raises(RunError, match="net5: a sequence length is beyond T"):
        errors.raise_found(5)
    errors.raise_found(5)
    errors.raise_any()
