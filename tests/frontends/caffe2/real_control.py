# pyright: basic, reportMissingImports=false
"""Random nets of If and While in each other as the real Caffe2 runs them: writes
tests/data/caffe2_control.npz.

Run as real_operators.py; `--count` and `--out` for other files, `--seed` for other nets.

Branches and loops write blobs of the net around in place, on conditions that are known at import
or follow from what the net computes. Nets whose results are not small numbers are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "data" / "caffe2_control.npz"
LARGEST = 1e4
INTEGERS = (2, 10)
"""int32 and int64."""


class Drawn:
    """A net under construction, and the names that hold something."""

    def __init__(self, seed: int) -> None:
        from caffe2.python import core

        self.random = np.random.RandomState(seed)
        shape = self.below(3) + 1, self.below(3) + 1
        names = [f"v{i}" for i in range(2 + self.below(4))]
        self.inputs = {n: self.random.randn(*shape).astype(np.float32) for n in names[:2]}
        self.free, self.count = names, 0
        self.net = core.Net(f"control{seed}")
        self.names = list(self.inputs)
        self.body(self.net, self.names, 0, 2 + self.below(7))

    def below(self, bound: int) -> int:
        return int(self.random.randint(bound))

    def pick(self, choices: Any) -> Any:
        return choices[self.below(len(choices))]

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def add(self, net: Any, kind: str, inputs: list[str], outputs: list[str], **args: Any) -> None:
        from caffe2.python import core

        net.Proto().op.extend([core.CreateOperator(kind, inputs, outputs, **args)])

    def body(self, net: Any, names: list[str], depth: int, count: int) -> None:
        """Append statements; at depth 0 they may write names that hold nothing yet."""
        for _ in range(count):
            a, b = self.pick(names), self.pick(names)
            y = self.pick(names if depth else self.free)
            kind = self.below(9)
            if kind < 2 and depth < 3:
                self.branch(net, names, depth, a)
                continue
            if kind < 4 and depth < 2:
                self.loop(net, names, depth, a)
                continue
            if kind < 6:
                self.add(net, self.pick(["Tanh", "Sigmoid", "Negative"]), [a], [y])
            elif kind < 8:
                self.add(net, self.pick(["Add", "Mul", "Sub"]), [a, b], [y])
            else:
                self.add(net, "Scale", [a], [y], scale=float(self.random.randn()))
            if y not in names:
                names.append(y)

    def compared(self, net: Any, blob: str, kind: str) -> str:
        """Whether the sum of a blob's squares is less or more than a number."""
        total, number, result = (self.fresh() for _ in range(3))
        self.add(net, "SumSqrElements", [blob], [total])
        self.add(net, "Reshape", [total], [f"{total}_one", f"{total}_shape"], shape=[1])
        value = abs(float(self.random.randn()))
        self.add(net, "ConstantFill", [], [number], shape=[1], value=value)
        self.add(net, kind, [f"{total}_one", number], [result])
        return result

    def branch(self, net: Any, names: list[str], depth: int, blob: str) -> None:
        from caffe2.python import core

        if self.below(3):
            condition = self.compared(net, blob, self.pick(["LT", "GT"]))
        else:
            condition, holds = self.fresh(), bool(self.below(2))
            self.add(net, "GivenTensorBoolFill", [], [condition], shape=[1], values=[holds])
        inside = core.Net(self.fresh()), core.Net(self.fresh())
        self.body(inside[0], list(names), depth + 1, 1 + self.below(3))
        if self.below(3):
            self.body(inside[1], list(names), depth + 1, self.below(4))
        used = {"then_net": inside[0], "else_net": inside[1]}
        nets = {key: part.Proto() for key, part in used.items() if part.Proto().op}
        self.add(net, "If", [condition, *names], written(nets.values(), names), **nets)

    def loop(self, net: Any, names: list[str], depth: int, blob: str) -> None:
        from caffe2.python import core

        condition, counter, most, one = (self.fresh() for _ in range(4))
        kind = self.pick(INTEGERS)
        for name, value in ((counter, 0), (one, 1), (most, self.below(5))):
            self.add(net, "ConstantFill", [], [name], shape=[1], value=value, dtype=kind)
        self.add(net, "GivenTensorBoolFill", [], [condition], shape=[1], values=[False])
        again, inside = core.Net(self.fresh()), core.Net(self.fresh())
        if self.below(3):
            self.add(again, "LT", [counter, most], [condition])
        else:
            large = self.compared(again, blob, "GT")
            self.add(again, "LT", [counter, most], [f"{large}_early"])
            self.add(again, "And", [large, f"{large}_early"], [condition])
        self.body(inside, list(names), depth + 1, 1 + self.below(3))
        self.add(inside, "Add", [counter, one], [counter])
        nets = {"loop_net": inside.Proto(), "cond_net": again.Proto()}
        self.add(net, "While", [condition, *names], written(nets.values(), names), **nets)


def written(nets: Any, names: list[str]) -> list[str]:
    """Which of some names nets write."""
    outputs = {y for net in nets for op in net.op for y in op.output}
    return [name for name in names if name in outputs]


def run(seed: int) -> tuple[str, dict[str, Any]]:
    """All arrays of one net, the net as bytes."""
    from caffe2.python import workspace
    from real_models import ran

    workspace.ResetWorkspace()
    drawn = Drawn(seed)
    drawn.net.Proto().external_input.extend(drawn.inputs)
    found = ran(drawn.net, drawn.inputs, drawn.names, gradients=False)
    if not all(np.abs(a).max() < LARGEST for key, a in found.items() if key[:4] == "out:"):
        raise ValueError("large numbers")
    return "", found


if __name__ == "__main__":
    from real_nets import write_drawn

    write_drawn(FILE, run, 24)
