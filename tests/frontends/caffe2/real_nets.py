"""Random recurrent nets as the real Caffe2 runs them: writes tests/data/caffe2_nets.npz.

Set up as real_operators.py says; `--count` and `--out` for other files, `--seed` for other nets.

A net is a loop over a step net of random operators. For each: the net, its inputs and parameters,
its outputs, and the net with gradient operators and what that computes from a weight for each
output. Nets that Caffe2 does not build or run are left out, and so are gradients of the sequence:
where a step reads it twice, Caffe2 adds what the memory held.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "data" / "caffe2_nets.npz"
FUNCTIONS = "Sigmoid Tanh Relu Negative Abs Sqr Swish Elu LeakyRelu Softplus Softsign Sin Atan"
PAIRS = "Sum Mul Add Sub Max Min"


class Step:
    """A step net under construction: blobs of shape [1, N, width], by name."""

    def __init__(self, random: Any, model: Any, cell: Any) -> None:
        self.random, self.model, self.net = random, model, cell.net
        self.widths: dict[str, int] = {}
        self.parameters: dict[str, Any] = {}
        self.reads_lengths = False

    def chance(self, probability: float) -> bool:
        return self.random.rand() < probability

    def blob(self) -> str:
        return list(self.widths)[self.random.randint(len(self.widths))]

    def width(self) -> int:
        return int(self.random.randint(1, 5))

    def put(self, blob: Any, width: int) -> str:
        self.widths[str(blob)] = width
        return str(blob)

    def parameter(self, *shape: int) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = (0.6 * self.random.randn(*shape)).astype(np.float32)
        self.net.AddExternalInput(name)
        return name

    def fc(self, blob: str, width: int) -> str:
        own = self.widths[blob]
        names = [blob, self.parameter(width, own), self.parameter(width)]
        return self.put(self.net.FC(names, self.net.NextName(), axis=2), width)

    def fitted(self, blob: str, width: int) -> str:
        return blob if self.widths[blob] == width else self.fc(blob, width)

    def function(self, blob: str) -> str:
        kinds = FUNCTIONS.split()
        kind = kinds[self.random.randint(len(kinds))]
        return self.put(getattr(self.net, kind)([blob], self.net.NextName()), self.widths[blob])

    def pair(self, blob: str) -> str:
        kind = PAIRS.split()[self.random.randint(6)]
        other = self.fitted(self.blob(), self.widths[blob])
        if other == blob:
            kind = "Mul"  # of two equal elements Caffe2 gives both all of an extreme's gradient
        made = getattr(self.net, kind)([blob, other], self.net.NextName())
        return self.put(made, self.widths[blob])

    def concat(self, blob: str) -> str:
        other = self.blob()
        made, _ = self.net.Concat([blob, other], [self.net.NextName() for _ in range(2)], axis=2)
        return self.put(made, self.widths[blob] + self.widths[other])

    def split(self, blob: str) -> str:
        width = self.widths[blob]
        if width < 2:
            return self.function(blob)
        first = int(self.random.randint(1, width))
        names = [self.net.NextName() for _ in range(2)]
        left, right = self.net.Split([blob], names, split=[first, width - first], axis=2)
        # both are read: Caffe2's gradient of a Split whose part nobody reads lacks that part
        names = [self.net.NextName() for _ in range(2)]
        return self.put(self.net.Concat([right, left], names, axis=2)[0], width)

    def row(self, blob: str) -> str:
        if self.chance(0.5):
            made = self.net.Softmax([blob], self.net.NextName(), axis=2)
        else:
            names = [self.net.NextName() for _ in range(3)]
            made = self.net.LayerNorm([blob], names, axis=2, epsilon=0.01)[0]
        return self.put(made, self.widths[blob])

    def by_parameter(self, blob: str) -> str:
        kind = ("Add", "Mul", "Sub")[self.random.randint(3)]
        names = [blob, self.parameter(self.widths[blob])]
        made = getattr(self.net, kind)(names, self.net.NextName(), broadcast=1)
        return self.put(made, self.widths[blob])

    def flat(self, blob: str) -> str:
        width = self.widths[blob]
        names = [self.net.NextName() for _ in range(4)]
        rows, _ = self.net.Reshape([blob], names[:2], shape=[-1, width])
        made = self.net.Tanh([rows], self.net.NextName())
        return self.put(self.net.Reshape([made], names[2:], shape=[1, -1, width])[0], width)

    def unit(self, blob: str) -> str:
        width, lstm = self.width(), self.chance(0.6)
        states = [self.fitted(self.blob(), width) for _ in range(1 + lstm)]
        blobs = [*states, self.fc(blob, (4 if lstm else 3) * width)]
        args: dict[str, Any] = {"drop_states": int(self.chance(0.4))}
        if self.chance(0.5):
            self.reads_lengths = True
            blobs.append("lengths")
        else:
            args["sequence_lengths"] = 0
        blobs.append("timestep")
        if not lstm:
            return self.put(self.net.GRUUnit(blobs, self.net.NextName(), **args), width)
        args["forget_bias"] = float(self.random.randn())
        names = [self.net.NextName() for _ in range(2)]
        hidden, cell = self.net.LSTMUnit(blobs, names, **args)
        # both are read, as Caffe2's gradient of a unit wants
        return self.put(self.net.Sum([hidden, cell], self.net.NextName()), width)

    def grow(self) -> str:
        makers = (self.function, self.function, self.pair, self.pair, self.concat, self.split)
        makers += (self.row, self.by_parameter, self.flat, self.unit)
        return makers[self.random.randint(len(makers))](self.blob())


def made(seed: int) -> tuple[Any, dict[str, Any], dict[str, Any], list[str]]:
    """A model, its inputs and parameters, and its outputs."""
    from caffe2.python import model_helper, recurrent

    random = np.random.RandomState(seed)
    steps, batch = (int(n) for n in random.randint(1, 6, 2))
    model = model_helper.ModelHelper(name=f"net{seed}")
    cell = model_helper.ModelHelper(name=f"step{seed}", param_model=model)
    step = Step(random, model, cell)
    wide = [step.width() for _ in range(1 + random.randint(1, 4))]
    names = ["x", *(f"h{number}" for number in range(1, len(wide)))]
    shapes = [(steps, batch, wide[0]), *((1, batch, width) for width in wide[1:])]
    inputs: dict[str, Any] = {n: random.randn(*s).astype(np.float32) for n, s in zip(names, shapes)}  # noqa: B905
    for name in names:
        model.net.AddExternalInput(name)
        step.put(step.net.AddExternalInput(f"{name}_t"), wide[names.index(name)])
    width = step.width()
    parts = [step.fc(f"{name}_t", width) for name in names]
    last = step.put(step.net.Sum(parts, step.net.NextName()), width)
    for _ in range(random.randint(1, 10)):
        last = step.grow()
    follows = [step.net.Tanh([step.fitted(last, w)], f"next{i}") for i, w in enumerate(wide[1:])]
    step.net.AddExternalOutput(*follows)
    if step.reads_lengths:
        for net in (model.net, step.net):
            if "lengths" not in net.Proto().external_input:
                net.AddExternalInput("lengths")
        inputs["lengths"] = random.randint(0, steps + 1, batch).astype(np.int32)
    kept = [o for op in step.net.Proto().op for o in op.output if o not in map(str, follows)]
    results = recurrent.recurrent_net(
        net=model.net,
        cell_net=step.net,
        inputs=[("x_t", "x")],
        initial_cell_inputs=[(f"{name}_t", name) for name in names[1:]],
        links={f"{name}_t": str(follows[i]) for i, name in enumerate(names[1:])},
        timestep="timestep",
        scope="rnn",
        outputs_with_grads=tuple(range(2 * len(follows))),
        recompute_blobs_on_backward=kept if random.rand() < 0.3 else None,
    )
    outputs = [str(y) for y in (results[0] if isinstance(results[0], list) else results)]
    return model, inputs, step.parameters, outputs[: 2 * len(follows)]


def run(seed: int) -> dict[str, Any]:
    """All arrays of one net, the nets as bytes."""
    from caffe2.python import core, workspace

    model, inputs, parameters, outputs = made(seed)
    workspace.ResetWorkspace()
    for name, array in {**inputs, **parameters}.items():
        workspace.FeedBlob(name, array)
    plain = core.Net(model.net.Proto())
    del plain.Proto().external_output[:]
    plain.Proto().external_output.extend(outputs)
    workspace.RunNetOnce(plain)
    found: dict[str, Any] = {"net": np.frombuffer(plain.Proto().SerializeToString(), np.uint8)}
    found.update({f"in:{name}": array for name, array in inputs.items()})
    found.update({f"param:{name}": array for name, array in parameters.items()})
    found.update({f"out:{name}": workspace.FetchBlob(name) for name in outputs})
    random = np.random.RandomState(seed)
    trained = core.Net(plain.Proto())
    for name in outputs:
        weight = random.randn(*found[f"out:{name}"].shape).astype(np.float32)
        found[f"in:{name}_weight"] = weight
        workspace.FeedBlob(name + "_weight", weight)
        trained.AddExternalInput(name + "_weight")
    gradients = trained.AddGradientOperators({name: name + "_weight" for name in outputs})
    workspace.RunNetOnce(trained)
    names = [str(gradients[name]) for name in (*inputs, *parameters) if name in gradients]
    names = [name for name in names if name != "x_grad"]
    trained.Proto().external_output.extend(names)
    found["train"] = np.frombuffer(trained.Proto().SerializeToString(), np.uint8)
    found.update({f"grad:{name}": workspace.FetchBlob(name) for name in names})
    return found


def write_drawn(file: Path, draw: Callable[[int], tuple[str, dict[str, Any]]], count: int) -> None:
    """Run the command: write so many cases that Caffe2 runs, of one seed after another.

    Args:
        draw: from a seed to what a case's name ends in, and its arrays.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=file)
    options = parser.parse_args()
    arrays: dict[str, Any] = {}
    seed = options.seed
    for number in range(options.count):
        while True:
            seed += 1
            try:
                name, found = draw(seed)
            except Exception as error:  # of Caffe2, about what was drawn
                print(seed, str(error)[:120], file=sys.stderr)
                continue
            break
        arrays.update({f"{number:03}{name}/{member}": array for member, array in found.items()})
    np.savez_compressed(options.out, **arrays)


if __name__ == "__main__":
    write_drawn(FILE, lambda seed: ("", run(seed)), 24)
