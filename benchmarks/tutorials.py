"""Nets of packages' tutorials, trained: `taskset -c 1 python -m benchmarks.tutorials [NAME...]`

Each net has the layers and the loop that a tutorial or an example of its package writes, on random
data of the same shapes; `torch.compile(..., backend="rnncc")` is the one line that is added. It
prints the table of docs/published.md, of those packages that are installed: snntorch,
spikingjelly, norse and ncps. The first compiled call is timed too.

A step is forward, loss, backward and optimiser. Both sides take 20 steps in turn, on one thread;
times are medians of processor time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from time import process_time
from typing import Any

import torch
from torch import nn

N, CLASSES = 16, 10
ROUNDS, STEPS = 9, 20


ADAM = partial(torch.optim.Adam, lr=5e-4)


@dataclass
class Example:
    """A net that is trained.

    Attributes:
        net: what has the parameters.
        loss: of what is called, a batch of data and its targets.
        call: what computes a batch; the net itself unless the tutorial has a function for it.
        data, targets: a batch.
        reset: what the tutorial does between batches.
        learning: the optimiser.
    """

    net: nn.Module
    loss: Callable[[Any, Any], Any]
    data: torch.Tensor
    targets: torch.Tensor
    call: Callable[[nn.Module, torch.Tensor], Any] | None = None
    reset: Callable[[nn.Module], Any] = lambda net: None
    learning: Callable[..., torch.optim.Optimizer] = ADAM


def _images(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(N, *shape), torch.randint(CLASSES, (N,))


def snntorch_fully_connected() -> Example:
    """Tutorial 5: membranes that the loop hands on, a loss at each step."""
    snn: Any = import_module("snntorch")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.lif1 = nn.Linear(28 * 28, 1000), snn.Leaky(beta=0.95)
            self.fc2, self.lif2 = nn.Linear(1000, CLASSES), snn.Leaky(beta=0.95)

        def forward(self, x: Any) -> Any:
            mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
            spk2_rec, mem2_rec = [], []
            for _ in range(25):
                spk1, mem1 = self.lif1(self.fc1(x), mem1)
                spk2, mem2 = self.lif2(self.fc2(spk1), mem2)
                spk2_rec.append(spk2)
                mem2_rec.append(mem2)
            return torch.stack(spk2_rec, dim=0), torch.stack(mem2_rec, dim=0)

    def loss(result: Any, targets: Any) -> Any:
        criterion, total = nn.CrossEntropyLoss(), torch.zeros(1)
        for membrane in result[1]:
            total += criterion(membrane, targets)
        return total

    return Example(Net(), loss, *_images(28 * 28))


def snntorch_hidden(net: nn.Module, steps: int, loss: str, x: torch.Tensor) -> Example:
    """Tutorial 6: a Sequential whose neurons keep their state, and a function with the loop."""
    utils: Any = import_module("snntorch.utils")
    losses: Any = import_module("snntorch.functional")

    def forward_pass(net: Any, data: Any) -> Any:
        spk_rec = []
        utils.reset(net)
        for _ in range(steps):
            spk_out, _ = net(data)
            spk_rec.append(spk_out)
        return torch.stack(spk_rec)

    criterion = getattr(losses, loss)()
    return Example(net, criterion, x, torch.randint(CLASSES, (N,)), forward_pass)


def snntorch_sequential() -> Example:
    """Linear layers."""
    snn: Any = import_module("snntorch")
    leaky = partial(snn.Leaky, beta=0.9, init_hidden=True, spike_grad=_fast_sigmoid())
    layers = nn.Flatten(), nn.Linear(784, 128), leaky(), nn.Linear(128, CLASSES), leaky(output=True)
    return snntorch_hidden(nn.Sequential(*layers), 100, "mse_count_loss", torch.rand(N, 1, 28, 28))


def snntorch_convolutional() -> Example:
    """Convolutions."""
    snn: Any = import_module("snntorch")
    leaky = partial(snn.Leaky, beta=0.5, init_hidden=True, spike_grad=_fast_sigmoid())
    net = nn.Sequential(
        *(nn.Conv2d(1, 12, 5), nn.MaxPool2d(2), leaky()),
        *(nn.Conv2d(12, 64, 5), nn.MaxPool2d(2), leaky()),
        *(nn.Flatten(), nn.Linear(64 * 4 * 4, CLASSES), leaky(output=True)),
    )
    return snntorch_hidden(net, 50, "ce_rate_loss", 4 * torch.rand(N, 1, 28, 28))


def _fast_sigmoid() -> Any:
    return import_module("snntorch.surrogate").fast_sigmoid(slope=25)


def snntorch_regression() -> Example:
    """The second tutorial on regression: recurrent neurons of one layer, membranes as results."""
    snn: Any = import_module("snntorch")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            surrogate = import_module("snntorch.surrogate").atan()
            beta = torch.rand(100)
            self.fc1 = nn.Linear(1, 100)
            self.rlif1 = snn.RLeaky(
                beta=beta, linear_features=100, spike_grad=surrogate, learn_beta=True
            )
            self.fc2 = nn.Linear(100, 1)
            self.lif2 = snn.Leaky(beta=0.5, reset_mechanism="none", spike_grad=surrogate)

        def forward(self, x: Any) -> Any:
            spk1, mem1 = self.rlif1.init_rleaky()
            mem2, mem2_rec = self.lif2.init_leaky(), []
            for step in range(x.size(0)):
                spk1, mem1 = self.rlif1(self.fc1(x[step]), spk1, mem1)
                _, mem2 = self.lif2(self.fc2(spk1), mem2)
                mem2_rec.append(mem2)
            return torch.stack(mem2_rec)

    x = torch.rand(100, N, 1)
    return Example(Net(), nn.MSELoss(), x, x.cumsum(0) / 10)


def spikingjelly_sequential(kind: str) -> Example:
    """The example of sequential images, whose nets take all steps at once."""
    neuron, layer, functional, surrogate = _spikingjelly()

    def spiking() -> Any:
        return neuron.IFNode(surrogate_function=surrogate.ATan(), detach_reset=kind == "feedback")

    hidden = {
        "plain": lambda: (spiking(),),
        "synapse": lambda: (spiking(), layer.SynapseFilter(tau=2.0, learnable=True)),
        "feedback": lambda: (layer.LinearRecurrentContainer(spiking(), 32, 32, bias=True),),
    }

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            last = layer.Linear(32, CLASSES), spiking()
            self.fc = nn.Sequential(layer.Linear(28, 32), *hidden[kind](), *last)

        def forward(self, x: Any) -> Any:
            return self.fc(x).mean(0)

    net = Net()
    functional.set_step_mode(net, step_mode="m")
    x, labels = torch.rand(28, N, 28), torch.randint(CLASSES, (N,))
    learning = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    loss = nn.functional.cross_entropy
    return Example(net, loss, x, labels, reset=functional.reset_net, learning=learning)


def spikingjelly_single() -> Example:
    """The first example: a layer that keeps its state, in a loop of the training code."""
    neuron, layer, functional, surrogate = _spikingjelly()
    net = nn.Sequential(
        layer.Flatten(),
        layer.Linear(28 * 28, CLASSES, bias=False),
        neuron.LIFNode(tau=2.0, surrogate_function=surrogate.ATan()),
    )

    def firing_rate(net: Any, images: Any) -> Any:
        out_fr = 0.0
        for t in range(len(images)):
            out_fr += net(images[t])
        return out_fr / len(images)

    x, labels = (torch.rand(100, N, 1, 28, 28) < 0.3).float(), torch.randint(CLASSES, (N,))
    targets = nn.functional.one_hot(labels, CLASSES).float()
    return Example(net, nn.MSELoss(), x, targets, firing_rate, functional.reset_net)


def _spikingjelly() -> tuple[Any, Any, Any, Any]:
    package = "spikingjelly.activation_based"
    import_module(package)
    neuron, layer, functional, surrogate = (
        import_module(f"{package}.{name}")
        for name in ("neuron", "layer", "functional", "surrogate")
    )
    return neuron, layer, functional, surrogate


def norse_classifier() -> Example:
    """The tutorial on images: recurrent neurons, a leaky readout, the largest of its voltages."""
    norse: Any = import_module("norse.torch")
    encoders: Any = import_module("norse.torch.module.encode")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parameters = norse.LIFParameters(alpha=100, v_th=torch.tensor(0.5))
            self.encoder = encoders.ConstantCurrentLIFEncoder(seq_length=32)
            self.l1 = norse.LIFRecurrentCell(28 * 28, 100, p=parameters, dt=0.001)
            self.fc_out = nn.Linear(100, CLASSES, bias=False)
            self.out = norse.LICell(dt=0.001)

        def forward(self, x: Any) -> Any:
            x = self.encoder(x)
            seq_length, batch_size = x.shape[:2]
            s1 = so = None
            voltages = []
            for ts in range(seq_length):
                z = x[ts].view(batch_size, 28 * 28)
                z, s1 = self.l1(z, s1)
                vo, so = self.out(self.fc_out(z), so)
                voltages += [vo]
            m, _ = torch.max(torch.stack(voltages), 0)
            return nn.functional.log_softmax(m, dim=1)

    x, labels = _images(28 * 28)
    return Example(Net(), nn.functional.nll_loss, 2.8 * x, labels)


def norse_memory() -> Example:
    """The task of storing and recalling: adaptive neurons and a readout."""
    norse: Any = import_module("norse.torch")

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parameters = norse.LSNNParameters(v_th=torch.as_tensor(0.5), beta=torch.as_tensor(1.8))
            self.layer = norse.LSNNRecurrentCell(40, 40, p=parameters)
            self.readout = norse.LILinearCell(40, 1)

        def forward(self, x: Any) -> Any:
            sl = sr = None
            readouts = []
            for x_step in x.unbind(1):
                spikes, sl = self.layer(x_step, sl)
                v, sr = self.readout(spikes, sr)
                readouts.append(v)
            return torch.sigmoid(torch.stack(readouts, 1))

    x = (torch.rand(N, 100, 40) < 0.1).float()
    return Example(Net(), nn.functional.binary_cross_entropy, x, torch.rand(N, 100, 1).round())


def ncps_sequence(name: str) -> Example:
    """The tutorial's sine waves, of a batch of 16: a wired cell, all steps in the module's loop."""
    cells: Any = import_module("ncps.torch")
    wirings: Any = import_module("ncps.wirings")
    rnn = getattr(cells, name)(2, wirings.AutoNCP(16, 1), batch_first=True)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = rnn

        def forward(self, x: Any) -> Any:
            return self.rnn(x)[0]

    phases = torch.linspace(0, 3 * torch.pi, 48) + torch.rand(N, 1)
    x, y = torch.stack([phases.sin(), phases.cos()], -1), (2 * phases).sin()[..., None]
    return Example(Net(), nn.MSELoss(), x, y, learning=partial(torch.optim.Adam, lr=0.01))


EXAMPLES: dict[str, Callable[[], Example]] = {
    "snntorch, fully connected": snntorch_fully_connected,
    "snntorch, Sequential": snntorch_sequential,
    "snntorch, convolutional": snntorch_convolutional,
    "snntorch, regression": snntorch_regression,
    "spikingjelly, one layer": spikingjelly_single,
    "spikingjelly, plain": partial(spikingjelly_sequential, "plain"),
    "spikingjelly, with synapses": partial(spikingjelly_sequential, "synapse"),
    "spikingjelly, with feedback": partial(spikingjelly_sequential, "feedback"),
    "norse, classifier": norse_classifier,
    "norse, memory": norse_memory,
    "ncps, LTC": partial(ncps_sequence, "LTC"),
    "ncps, CfC": partial(ncps_sequence, "CfC"),
}


class Trained:
    """An example with an optimiser, as it is or with the line that is added."""

    def __init__(self, make: Callable[[], Example], compiled: bool) -> None:
        torch.manual_seed(0)
        self._example = example = make()
        self.net = example.net
        self.optimiser = example.learning(self.net.parameters())
        call: Any = example.call or self.net
        if compiled:
            call = torch.compile(call, backend="rnncc")
        self._call = partial(call, self.net) if example.call else call

    def loss(self) -> Any:
        """Forward and backward."""
        self.optimiser.zero_grad()
        loss = self._example.loss(self._call(self._example.data), self._example.targets)
        loss.backward()
        self._example.reset(self.net)
        return loss.detach()

    def results(self) -> list[torch.Tensor]:
        """The loss, and all gradients."""
        loss = self.loss()
        return [loss, *(x.grad.clone() for x in self.net.parameters() if x.grad is not None)]

    def train(self) -> float:
        """The processor time of a training step, of several in a row."""
        start = process_time()
        for _ in range(STEPS):
            self.loss()
            self.optimiser.step()
        return (process_time() - start) / STEPS


def difference(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    """The largest, in parts of each tensor's largest number."""
    pairs = zip(ours, theirs, strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) for a, b in pairs)


def row(name: str) -> str:
    """A line of the table."""
    eager, ours = (Trained(EXAMPLES[name], compiled) for compiled in (False, True))
    theirs, start = eager.results(), process_time()
    differs = difference(ours.results(), theirs)
    first = process_time() - start
    for side in (ours, eager):  # PyTorch's allocator and the caches warm up
        side.train()
    times = [(eager.train(), ours.train()) for _ in range(ROUNDS)]
    slow, fast = (1e3 * median(side) for side in zip(*times, strict=True))
    figures = f"{slow:.1f} | {fast:.2f} | {slow / fast:.1f} | {first:.1f}"
    return f"| {name} | {differs:.0e} | {figures} |"


def main() -> None:
    """Measure the one that is named; several, or all, each in a process of its own."""
    torch.set_num_threads(1)
    names = sys.argv[1:]
    if len(names) == 1:
        print(row(names[0]), flush=True)
        return
    print("| example | differs | eager, ms | rnncc, ms | times | first, s |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in names or EXAMPLES:
        if find_spec(name.partition(",")[0]) is not None:
            subprocess.run([sys.executable, "-m", "benchmarks.tutorials", name], check=True)


if __name__ == "__main__":
    main()
