# pyright: basic, reportMissingImports=false
"""Random RecurrentNetworks of what Caffe2's Python does not build, as the real Caffe2 runs them:
writes tests/data/caffe2_links.npz.

Run as real_operators.py; `--count` and `--out` for other files, `--seed` for other nets.

States start with several rows, links read windows of them and of sequences, some longer than the
loop, aliases begin anywhere; steps read the net around, the timestep, branch on it, attend to a
sequence and hold loops of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "data" / "caffe2_links.npz"
FLOAT = 1
INT32 = 2


class Drawn:
    """A loop under construction: links, states and blobs of its step with their rows."""

    def __init__(self, seed: int) -> None:
        from caffe2.python import core

        self.random = np.random.RandomState(seed)
        self.steps, self.rows, self.width = (self.below(n) + 1 for n in (5, 3, 3))
        self.inputs, self.parameters = dict[str, Any](), dict[str, Any]()
        self.step = core.Net(f"step{seed}")
        self.links, self.states = list[tuple[str, str, int, int]](), list[tuple[str, int]]()
        self.heights, self.read = dict[str, int](), list[str]()

    def below(self, bound: int) -> int:
        return int(self.random.randint(bound))

    def pick(self, choices: list[str]) -> str:
        return choices[self.below(len(choices))]

    def input(self, name: str, *shape: int) -> str:
        self.inputs.setdefault(name, self.random.randn(*shape).astype(np.float32))
        return name

    def around(self, name: str) -> str:
        """A blob of the net around, among the loop's inputs."""
        if name not in self.read:
            self.read.append(name)
            self.step.Proto().external_input.append(name)
        return name

    def parameter(self, *shape: int) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = (0.6 * self.random.randn(*shape)).astype(np.float32)
        return self.around(name)

    def link(self, inner: str, outer: str, offset: int, window: int) -> None:
        self.links.append((inner, outer, offset, window))
        self.heights[inner] = window
        self.step.Proto().external_input.append(inner)

    def sequences(self) -> list[str]:
        names = [f"x{i}" for i in range(1 + self.below(2))]
        for number, name in enumerate(names):
            longer = self.below(3) if number else 0
            self.input(name, self.steps + longer, self.rows, self.width)
            for reader in range(1 + self.below(2)):
                offset = self.below(longer + 1)
                window = 1 + self.below(longer - offset + 1)
                self.link(f"{name}_{reader}", name, offset, window)
        return names

    def begin(self) -> None:
        """The states, and what reads them."""
        for number in range(1 + self.below(3)):
            rows = 1 + self.below(3)
            self.states.append((self.input(f"h{number}", rows, self.rows, self.width), rows))
            for reader in range(1 + self.below(2)):
                offset = self.below(rows)
                window = 1 + self.below(rows - offset)
                self.link(f"h{number}_{reader}", f"s{number}", offset, window)

    def row(self, blob: str) -> str:
        """One row of a window."""
        if self.heights[blob] == 1:
            return blob
        name, kind = str(self.step.NextName()), self.below(3)
        if kind == 0:
            self.step.ReduceSum([blob], name, axes=[0], keepdims=1)
        elif kind == 1:
            first = self.below(self.heights[blob])
            self.step.Slice([blob], name, starts=[first, 0, 0], ends=[first + 1, -1, -1])
        else:
            parts = [f"{name}_{i}" for i in range(self.heights[blob])]
            self.step.Split([blob], parts, axis=0)
            self.step.Sum(parts, name)
        return name

    def fc(self, blob: str) -> str:
        name = str(self.step.NextName())
        weights = self.parameter(self.width, self.width), self.parameter(self.width)
        self.step.FC([blob, *weights], name, axis=2)
        return name

    def plain(self, a: str, b: str, name: str) -> None:
        kind = self.below(4)
        if kind == 0:
            self.step.Tanh([a], name)
        elif kind == 1:
            self.step.Copy([a], name)
            self.step.Sigmoid([name], name)
        else:
            getattr(self.step, "Mul" if kind == 2 else "Sum")([a, b], name)

    def timed(self, a: str, b: str, name: str) -> None:
        """A product with a tenth of the timestep."""
        self.step.Cast(["timestep"], f"{name}_float", to=FLOAT)
        self.step.Scale([f"{name}_float"], f"{name}_small", scale=0.1)
        self.step.Mul([a, f"{name}_small"], name, broadcast=1)

    def attended(self, a: str, b: str, name: str) -> None:
        rows = self.around(self.input("encoded", self.rows, 3, self.width))
        query, scores, weights, mean = (f"{name}_{word}" for word in "qswm")
        self.step.Transpose([a], query, axes=(1, 2, 0))
        self.step.BatchMatMul([rows, query], scores)
        self.step.Softmax([scores], weights, axis=1)
        self.step.BatchMatMul([rows, weights], mean, trans_a=1)
        self.step.Transpose([mean], name, axes=(2, 0, 1))

    def branched(self, a: str, b: str, name: str) -> None:
        from caffe2.python import core

        self.step.ConstantFill([], f"{name}_two", shape=[1], value=2, dtype=INT32)
        self.step.LT(["timestep", f"{name}_two"], f"{name}_early")
        early, late = core.Net(f"{name}_then"), core.Net(f"{name}_else")
        early.Tanh([a], name)
        late.Negative([b], name)
        nets = {"then_net": early.Proto(), "else_net": late.Proto()}
        self.add("If", [f"{name}_early", a, b], [name], **nets)

    def nested(self, a: str, b: str, name: str) -> None:
        """The last state of a loop over another sequence that begins with a blob."""
        from caffe2.python import core

        over = self.around(self.input("over", 1 + self.below(3), self.rows, self.width))
        weights = self.parameter(self.width, self.width), self.parameter(self.width)
        before, x, after = (f"{name}_{word}" for word in ("before", "x", "after"))
        inner = core.Net(f"{name}_step")
        inner.FC([before, *weights], f"{name}_fc", axis=2)
        inner.Sum([f"{name}_fc", x], f"{name}_sum")
        inner.Tanh([f"{name}_sum"], after)
        inner.Proto().external_input.extend({before, x, *weights} - {*inner.Proto().external_input})
        inner.Proto().external_output.append(after)
        states = f"{name}_states"
        links = [(before, states, 0, 1), (after, states, 1, 1), (x, over, 0, 1)]
        aliases = [(states, f"{name}_all", 1), (states, name, -1)]
        inputs = [over, a, *weights]
        op = self.loop(inputs, inner, links, aliases, [states], [a], f"{name}_t")
        self.step.Proto().op.extend([op])

    def add(self, kind: str, inputs: list[str], outputs: list[str], **args: Any) -> None:
        from caffe2.python import core

        self.step.Proto().op.extend([core.CreateOperator(kind, inputs, outputs, **args)])

    def loop(
        self,
        inputs: list[str],
        step: Any,
        links: list[tuple[str, str, int, int]],
        aliases: list[tuple[str, str, int]],
        states: list[str],
        starts: list[str],
        timestep: str,
    ) -> Any:
        from caffe2.python import core

        columns = zip(("internal", "external", "offset", "window"), zip(*links))  # noqa: B905
        args: dict[str, Any] = {f"link_{word}": list(column) for word, column in columns}
        columns = zip(("src", "dst", "offset"), zip(*aliases))  # noqa: B905
        args.update({f"alias_{word}": list(column) for word, column in columns})
        return core.CreateOperator(
            "RecurrentNetwork",
            inputs,
            [*(target for _, target, _ in aliases), f"{timestep}_workspaces"],
            recurrent_states=states,
            initial_recurrent_state_ids=[inputs.index(start) for start in starts],
            step_net=step.Proto(),
            timestep=timestep,
            outputs_with_grads=[0],
            **args,
        )

    def net(self) -> tuple[Any, list[str]]:
        """The net, and what it computes."""
        from caffe2.python import core

        sequences = self.sequences()
        self.begin()
        if self.below(2):
            self.heights[self.around(self.input("outer", 1, self.rows, self.width))] = 1
        blobs = [self.row(blob) for blob in self.heights]
        makers = [self.plain, self.plain, self.timed, self.attended, self.branched, self.nested]
        for _ in range(1 + self.below(6)):
            name = str(self.step.NextName())
            makers[self.below(len(makers))](self.pick(blobs), self.pick(blobs), name)
            blobs.append(name)
        aliases = list[tuple[str, str, int]]()
        for number, (_, rows) in enumerate(self.states):
            self.step.Tanh([self.fc(blobs[-1 - number % 2])], f"next{number}")
            self.step.Proto().external_output.append(f"next{number}")
            self.links.append((f"next{number}", f"s{number}", rows, 1))
            offsets = {rows, -1, self.below(2 * rows + 1) - rows}
            names = ((f"s{number}", f"y{number}_{i}", o) for i, o in enumerate(sorted(offsets)))
            aliases.extend(names)
        starts = [name for name, _ in self.states]
        states = [f"s{number}" for number in range(len(starts))]
        inputs = [*sequences, *starts, *self.read]
        net = core.Net("loop")
        op = self.loop(inputs, self.step, self.links, aliases, states, starts, "timestep")
        net.Proto().op.extend([op])
        net.Proto().external_input.extend(inputs)
        return net, [target for _, target, _ in aliases]


def run(seed: int) -> tuple[str, dict[str, Any]]:
    """All arrays of one net, the net as bytes."""
    from caffe2.python import workspace
    from real_models import ran

    workspace.ResetWorkspace()
    drawn = Drawn(seed)
    net, outputs = drawn.net()
    for name, array in drawn.parameters.items():
        workspace.FeedBlob(name, array)
    return "", ran(net, drawn.inputs, outputs, gradients=False)


if __name__ == "__main__":
    from real_nets import write_drawn

    write_drawn(FILE, run, 24)
