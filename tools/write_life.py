"""Writes docs/life-of-an-lstm.md, one net at every stage: python -m tools.write_life"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rnncc.driver import compiling
from rnncc.netdef import NetDef, load
from rnncc.options import Options

ROOT = Path(__file__).parents[1]
PATH = ROOT / "docs" / "life-of-an-lstm.md"
NET, INIT = ROOT / "examples" / "lstm.pbtxt", ROOT / "examples" / "lstm_init.pbtxt"
TRIPLE, CPU = "x86_64-linux-gnu", "x86-64-v3"
PAGE = """# The life of an LSTM

Written by `tools/write_life.py`; do not edit.

What becomes of `examples/lstm.pbtxt`, a character model with one LSTM of 128 units, from the file
to the instructions. Every excerpt is what the command above it prints, but for what only parsers
need: types of operands, segment sizes and the like. Sizes are formulas over T (steps) and N
(sequences). [pipeline.md](pipeline.md) lists all steps between these; [ir.md](ir.md) defines ops.

## The file
`rnncc netdef show examples/lstm.pbtxt`: operators on named blobs. The loop is an operator,
`RecurrentNetwork`, whose argument is the net of one step; names bind both.

```
{netdef}
```

## `rnn`, as read
`rnncc compile NET --init INIT --emit rnn --stop-after read`: the same on typed values, each
assigned once. The loop is a region over its live-ins; `LSTMUnit` has become what it computes, and
nothing below knows that this was an LSTM.

```mlir
{read}
```

## `rnn`, as compiled
`--emit rnn`: the net is cut into what a sequence begins with and what every few steps do (`init`,
`step`; here the loop of `step`). Both products with matrices stand apart: that with x_t has left
the loop, where it is one product for all steps; its bias and that of the gates have been added to
one another. The mask `t < lengths` is a sequence of its own, so that finished rows can be left out.

```mlir
{compiled}
```

## `kern`
`--emit kern`: a few kernels over buffers, each with a role, a size and a place in memory. The
recurrent product has the gates as its epilogue: they are computed while its sums are in registers
(`slots = 4`: of one unit all four gates at once), and only h and c are written.

```mlir
{kern}
```

## LLVM
`--emit llvm --cpu x86-64-v3`: the innermost loop of that product, for six sequences at once: twelve
sums, two of the four gates for eight units each, stay in registers, and a weight is read once for
six rows; the other two gates follow. The sum over k runs in one order whatever the batch and the
tile, so that a row's bits do not depend on the rows around it.

```llvm
{llvm}
```

## Instructions
`--emit asm --cpu x86-64-v3`: the same loop.

```asm
{asm}
```

Next: [pipeline.md](pipeline.md), all steps; [passes.md](passes.md), what happens between the forms.
"""


def page() -> str:
    """The whole page."""
    return PAGE.format(
        netdef="\n".join(_operators(load(NET))),
        read=_scan(_emit("rnn", stop_after="read")),
        compiled=_scan(_emit("rnn").split('sym_name = "step"')[1]),
        kern=_gates(_emit("kern")),
        llvm=_fullest(_emit("llvm"), r"^\d+:|^[\w.]+:", "llvm.fma", ", 128"),
        asm=_fullest(_emit("asm"), r"^\.L\w+:", "vfmadd", "$128,"),
    )


def _emit(kind: str, stop_after: str | None = None) -> str:
    options = Options(name="lstm", target=TRIPLE, cpu=CPU, stop_after=stop_after)
    content = compiling.emit(NET, INIT, options, kind).content
    assert isinstance(content, str)
    return content


def _operators(net: NetDef, indent: str = "") -> Iterator[str]:
    """A line an operator, nets inside below their own."""
    for op in net.op:
        yield f"{indent}{op.type}({', '.join(op.input)}) -> {', '.join(op.output)}"
        for argument in op.arg:
            if argument.name == "step_net":
                yield from _operators(argument.n, indent + "    ")


def _scan(text: str) -> str:
    """The first loop, without types."""
    begin = text.index("rnn.scan")
    begin = text.rindex("\n", 0, begin) + 1
    end = text.index("rnn.yield", begin)
    return _short(text[begin : text.index("\n", end)])


def _gates(text: str) -> str:
    """The product whose epilogue is the gates, without types."""
    begin = text.rindex("\n", 0, text.index("slots = #builtin.int<4>")) + 1
    return _short(text[begin : text.index("\n", text.index("rnn.yield", begin))])


def _short(text: str) -> str:
    """MLIR without what only parsers need."""
    text = re.sub(r" : \([^\n]*\) -> [^\n]*", "", text)
    text = re.sub(r": tensor<[^\[>]*(?:\[[^\]]*\])?>", "", text)
    text = re.sub(r": !kern\.buffer<[^>]*>", "", text)
    text = re.sub(r"#builtin\.int<(\d+)>", r"\1", text)
    text = re.sub(r",? ?(?:operand|result)SegmentSizes = array<[^>]*>", "", text)
    text = text.replace("<{", "{").replace("}>", "}").replace(" {}", "").replace('"()', '"')
    lines = [re.sub(r'"((?:rnn|kern)\.\w+)"', r"\1", line) for line in text.splitlines()]
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[margin:] for line in lines)


def _fullest(text: str, label: str, word: str, depth: str) -> str:
    """Of the blocks that jump to themselves and name a depth, the last with most of a word: that of
    most rows."""
    best, most = "", 0
    starts = [(match.start(), match[0]) for match in re.finditer(rf"(?m){label}", text)]
    for (start, name), (end, _) in zip(starts, [*starts[1:], (len(text), "")], strict=True):
        block = text[start:end]
        own = re.escape(name.strip(".:"))
        jump = re.search(rf"(?m)^\s+(?:br|j\w+)\s[^\n]*\b{own}\b", block)
        if jump is not None:
            block = block[: (block + "\n").index("\n", jump.end())]
            if block.count(word) >= max(most, 1) and depth in block:
                best, most = block, block.count(word)
    lines = [line.split("\t#")[0].split(" ; preds")[0].rstrip() for line in best.splitlines()]
    return "\n".join(line.expandtabs(8) for line in lines if line.strip())


if __name__ == "__main__":
    PATH.write_text(page())
