"""Random nets of Caffe2's `rnn_cell` as the real Caffe2 runs them: writes
tests/data/caffe2_cells.npz.

Run as real_models.py; `--count` and `--out` for other files, `--seed` for other nets.

A net has one layer or several, of any cells, with states given to it, with or without lengths,
maybe residual connections, an unrolled loop, or attention to another sequence. Its loss is the sum
of the squares of some outputs, of the last layer. Nets that Caffe2 does not build are left out.
Of some with three layers its gradients are not those of the net (4 in 100), which rnncc refuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[2] / "data" / "caffe2_cells.npz"
LSTMS = {"lstm": "LSTMCell", "milstm": "MILSTMCell", "lnlstm": "LayerNormLSTMCell"}
CELLS = {**LSTMS, "lnmilstm": "LayerNormMILSTMCell", "rnn": "BasicRNNCell", "gru": "", "lgru": ""}
ATTENTION = ("Regular", "Recurrent", "Dot", "SoftCoverage")


class Drawn:
    """A net under construction, and what it is given."""

    def __init__(self, seed: int) -> None:
        from caffe2.python import model_helper, workspace

        workspace.ResetWorkspace()
        self.random = np.random.RandomState(seed)
        self.model = model_helper.ModelHelper(name="m")
        self.steps, self.rows = self.random.randint(1, 7), self.random.randint(1, 4)
        self.recomputes, self.drops = self.chance(0.3), self.chance(0.4)
        self.inputs: dict[str, Any] = {}
        self.kinds: list[str] = []

    def chance(self, probability: float) -> bool:
        return self.random.rand() < probability

    def width(self) -> int:
        return self.random.randint(1, 7)

    def pick(self, choices: Any) -> Any:
        return list(choices)[self.random.randint(len(choices))]

    def put(self, name: str, array: Any) -> str:
        self.model.net.AddExternalInput(name)
        self.inputs[name] = array
        return name

    def real(self, name: str, *shape: int) -> str:
        return self.put(name, self.random.randn(*shape).astype(np.float32))

    def lengths(self, name: str, least: int, most: int) -> str:
        return self.put(name, self.random.randint(least, most + 1, self.rows).astype(np.int32))

    def cell(self, width: int, units: int, name: str, kinds: Any = CELLS) -> tuple[Any, list[int]]:
        """One of some kinds, and the widths of its states."""
        from caffe2.python import gru_cell, rnn_cell

        kind = self.pick(kinds)
        self.kinds.append(kind)
        options: dict[str, Any] = {"input_size": width, "hidden_size": units, "name": name}
        options["forget_bias"] = self.pick([0.0, 1.0, -0.5])
        options["memory_optimization"] = self.recomputes
        if kind == "rnn":
            options["activation"] = self.pick(["tanh", "relu"])
            return rnn_cell.BasicRNNCell(**options), [units]
        options["drop_states"] = self.drops
        if kind in ("gru", "lgru"):
            return gru_cell.GRUCell(linear_before_reset=kind == "lgru", **options), [units]
        return getattr(rnn_cell, CELLS[kind])(**options), [units, units]

    def layers(self, width: int) -> tuple[Any, list[int]]:
        """A cell, or several on each other."""
        from caffe2.python import rnn_cell

        units = [self.width() for _ in range(self.pick([1, 1, 2, 3]))]
        units = units[:1] * len(units) if self.chance(0.3) else units
        below = [width, *units]
        drawn = [self.cell(below[i], n, f"c{i}") for i, n in enumerate(units)]
        if len(drawn) == 1:
            return drawn[0]
        equal = [i for i in range(1, len(units)) if units[i] == units[i - 1]]
        residual = [i for i in equal if self.chance(0.6)] or None
        cells = [cell for cell, _ in drawn]
        made = rnn_cell.MultiRNNCell(cells, name="multi", residual_output_layers=residual)
        return made, [state for _, states in drawn for state in states]

    def attention(self, width: int) -> tuple[Any, list[str]]:
        """A cell that attends to another sequence, and its initial states."""
        from caffe2.python import rnn_cell
        from caffe2.python.attention import AttentionType

        length, encoded, units = self.width(), self.width(), self.width()
        kind = self.pick(ATTENTION)
        cell, widths = self.cell(width, units, "decoder", LSTMS)
        self.kinds.append(kind)
        top = rnn_cell.AttentionCell(
            encoder_output_dim=encoded,
            encoder_outputs=self.real("encoded", length, self.rows, encoded),
            encoder_lengths=self.lengths("encoded_lengths", 1, length)
            if self.chance(0.5)
            else None,
            decoder_cell=cell,
            decoder_state_dim=units,
            attention_type=getattr(AttentionType, kind),
            weighted_encoder_outputs=None,
            attention_memory_optimization=self.chance(0.4),
            name="attention",
        )
        states = self.states([*widths, encoded])
        if kind == "SoftCoverage":
            states.append(str(top.build_initial_coverage(self.model)))
        return top, states

    def states(self, widths: list[int]) -> list[str]:
        return [self.real(f"state{i}", 1, self.rows, n) for i, n in enumerate(widths)]

    def net(self) -> tuple[str, dict[str, Any]]:
        """What is drawn as the end of a name, and all arrays."""
        from caffe2.python import rnn_cell, workspace
        from real_models import ran

        width = self.width()
        x = self.real("x", self.steps, self.rows, width)
        least = 0 if self.chance(0.3) else 1
        lengths = self.lengths("lengths", least, self.steps) if self.chance(0.8) else None
        if self.chance(0.3):
            top, states = self.attention(width)
        else:
            top, widths = self.layers(width)
            states = self.states(widths)
        places = {2 * top.get_output_state_index()}
        if len(self.kinds) == 1:
            places.update(i for i in range(2 * len(states)) if self.chance(0.25))
            if self.chance(0.25):
                top = rnn_cell.UnrolledCell(top, self.steps)
                self.kinds.append("unrolled")
        _, every = top.apply_over_sequence(
            model=self.model,
            inputs=x,
            seq_lengths=lengths,
            initial_states=tuple(states),
            outputs_with_grads=tuple(sorted(places)),
        )
        net = self.model.net
        squares = [net.Sqr([every[i]], [f"square{i}"]) for i in sorted(places)]
        sums = [net.SumElements([square], [f"{square}_sum"]) for square in squares]
        loss = net.Sum(sums, ["loss"])
        self.model.AddGradientOperators([loss])
        workspace.RunNetOnce(self.model.param_init_net)
        for name in workspace.Blobs():
            array = workspace.FetchBlob(name)
            if isinstance(array, np.ndarray) and array.dtype == np.float32 and array.size:
                more = 0.3 * self.random.randn(*array.shape)
                workspace.FeedBlob(name, (array + more).astype(np.float32))
        found = ran(net, self.inputs, [str(loss), *map(str, every)], gradients=True)
        return "-".join(["", *self.kinds]), found


if __name__ == "__main__":
    from real_nets import write_drawn

    write_drawn(FILE, lambda seed: Drawn(seed).net(), 20)
