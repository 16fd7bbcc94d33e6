"""Trains an LSTM to predict a text's next character, then lets it write.

python examples/train_char_rnn.py TEXT --updates 2000 --checkpoint char.npz --curve loss.svg

The LSTM's forward and backward passes are compiled by rnncc; the rest is NumPy: the layer behind
it, the loss, Adam. A run that was stopped goes on from its checkpoint, to the same bits. It needs
rnncc: pip install rnncc.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

import rnncc

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
TEXT = Path(__file__).parents[1] / "LICENSE"


class Net:
    """LSTM, a layer behind it, and softmax; `parameters` are all that is trained."""

    def __init__(self, characters: int, units: int, seed: int) -> None:
        layer = rnncc.cells.lstm(characters, units, initial_state=True, seed=seed)
        self.lstm = rnncc.compile(layer, train=True)
        self.units, self.characters = units, characters
        rng = np.random.default_rng(seed)
        out = rng.uniform(-1, 1, (units, characters)).astype(np.float32) / units**0.5
        added = {"out/W": out, "out/b": np.zeros(characters, np.float32)}
        self.parameters: Arrays = {**self.lstm.parameters, **added}

    def learn(self, x: Array, target: Array, state: Arrays) -> tuple[float, Arrays, Arrays]:
        """The loss of some steps, its gradients, and the state after the steps.

        Args:
            x, target: numbers of characters, int [T, N].
            state: h0 and c0, float32 [N, units].
        """
        outputs, tape = self.lstm.forward({"x": self.one_hot(x), **state})
        h = outputs["y"]
        logits = h @ self.parameters["out/W"] + self.parameters["out/b"]
        logits -= logits.max(-1, keepdims=True)
        probabilities = np.exp(logits)
        probabilities /= probabilities.sum(-1, keepdims=True)
        entries = (*np.indices(target.shape), target)
        loss = float(-np.log(probabilities[entries] + 1e-30).mean())
        probabilities[entries] -= 1
        dlogits = probabilities / np.float32(target.size)
        dh = dlogits @ self.parameters["out/W"].T
        grads = self.lstm.backward(tape, {"y": dh}, wanted=self.lstm.parameters)
        rows = dlogits.reshape(-1, self.characters)
        grads["out/W"] = h.reshape(-1, self.units).T @ rows
        grads["out/b"] = rows.sum(0)
        return loss, grads, {"h0": outputs["h_last"], "c0": outputs["c_last"]}

    def one_hot(self, numbers: Array) -> Array:
        """float32 [..., characters]"""
        return np.eye(self.characters, dtype=np.float32)[numbers]

    def zeros(self, batch: int) -> Arrays:
        """The state before a text."""
        return {name: np.zeros((batch, self.units), np.float32) for name in ("h0", "c0")}

    def write(self, start: Array, length: int, temperature: float, seed: int) -> list[int]:
        """Draw characters one at a time, after those of `start`."""
        trained = {name: self.parameters[name] for name in self.lstm.parameters}
        layer = rnncc.cells.lstm(parameters=trained, initial_state=True)
        stream = rnncc.compile(layer).stream(batch=1, inputs=self.zeros(1))
        rng, written = np.random.default_rng(seed), list[int]()
        h = stream.step({"x": self.one_hot(start[:, None])})["y"][-1]
        for _ in range(length):
            logits = h[0] @ self.parameters["out/W"] + self.parameters["out/b"]
            weights = np.exp((logits - logits.max()).astype(float) / temperature)
            written.append(int(rng.choice(self.characters, p=weights / weights.sum())))
            h = stream.step({"x": self.one_hot(np.array([[written[-1]]]))})["y"][-1]
        return written


@dataclass
class Adam:
    """Kingma and Ba, 2015; gradients longer than `longest` are shortened first."""

    rate: float
    longest: float = 5.0
    means: Arrays = field(default_factory=dict[str, Array])
    squares: Arrays = field(default_factory=dict[str, Array])

    def update(self, parameters: Arrays, grads: Arrays, step: int) -> None:
        """Change parameters in place; steps count from 1."""
        norm = sum(float((grad**2).sum()) for grad in grads.values()) ** 0.5
        scale = np.float32(min(1.0, self.longest / max(norm, 1e-9)))
        rate = np.float32(self.rate * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step))
        for name, array in parameters.items():
            grad = grads[name] * scale
            mean = self.means.setdefault(name, np.zeros_like(array))
            square = self.squares.setdefault(name, np.zeros_like(array))
            mean += np.float32(0.1) * (grad - mean)
            square += np.float32(0.001) * (grad * grad - square)
            array -= rate * mean / (np.sqrt(square) + np.float32(1e-8))


@dataclass
class Run:
    """What a training run is made of, and where it stands."""

    net: Net
    adam: Adam
    columns: Array
    length: int
    state: Arrays
    losses: list[float] = field(default_factory=list[float])

    def step(self) -> None:
        """One update; the next steps begin in the state that these end in."""
        per_pass = (len(self.columns) - 1) // self.length
        start = len(self.losses) % per_pass * self.length
        if start == 0:
            self.state = self.net.zeros(self.columns.shape[1])
        x, target = (self.columns[start + shift :][: self.length] for shift in (0, 1))
        loss, grads, self.state = self.net.learn(x, target, self.state)
        self.losses.append(loss)
        self.adam.update(self.net.parameters, grads, len(self.losses))

    def save(self, path: Path) -> None:
        """Write all that the run needs to go on, in one step."""
        arrays: dict[str, Any] = {"losses": np.array(self.losses), "columns": self.columns}
        for group, held in self._groups().items():
            arrays |= {f"{group}:{name}": array for name, array in held.items()}
        partial = path.with_name(f"{path.name}.partial.npz")
        np.savez(partial, **arrays)
        partial.replace(path)

    def resume(self, path: Path) -> None:
        """Go on from where a run of the same text and sizes was saved."""
        with np.load(path) as saved:
            arrays: Arrays = dict(saved)
        if not np.array_equal(arrays.pop("columns"), self.columns):
            sys.exit(f"{path}: is of another text or --batch")
        self.losses = arrays.pop("losses").tolist()
        groups = self._groups()
        for key, array in arrays.items():
            group, _, name = key.partition(":")
            if group != "parameters":
                groups[group][name] = array
            elif self.net.parameters[name].shape == array.shape:
                self.net.parameters[name][...] = array
            else:
                sys.exit(f"{path}: is of another --units")

    def _groups(self) -> dict[str, Arrays]:
        moments = {"means": self.adam.means, "squares": self.adam.squares}
        return {"parameters": self.net.parameters, "state": self.state, **moments}


def curve(losses: Sequence[float]) -> str:
    """The losses, and their moving average, as an SVG picture."""
    width, height, left, top = 640, 360, 50, 20
    most = max(losses, default=1.0) or 1.0
    across = max(len(losses) - 1, 1)
    window = max(len(losses) // 50, 1)
    smooth = [float(np.mean(losses[max(i - window + 1, 0) : i + 1])) for i in range(len(losses))]

    def line(values: Sequence[float], style: str) -> str:
        points = (
            f"{left + i / across * width:.1f},{top + (1 - value / most) * height:.1f}"
            for i, value in enumerate(values)
        )
        return f'<polyline fill="none" {style} points="{" ".join(points)}"/>'

    marks = [
        f'<text x="{left - 6}" y="{top + (1 - part / 4) * height + 4:.0f}" text-anchor="end">'
        f"{most * part / 4:.2f}</text>"
        for part in range(5)
    ]
    marks += [
        f'<text x="{left + part / 4 * width:.0f}" y="{top + height + 18}" text-anchor="middle">'
        f"{round(across * part / 4) + 1}</text>"
        for part in range(5)
    ]
    frame = f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 80}" height="{height + 60}"'
            ' font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'{frame} stroke="#999"/>',
            *marks,
            f'<text x="{left + width / 2}" y="{top + height + 34}">update</text>',
            f'<text x="{left + 8}" y="{top + 16}">loss, nats a character</text>',
            line(losses, 'stroke="#9bc" stroke-width="1"'),
            line(smooth, 'stroke="#036" stroke-width="2"'),
            "</svg>\n",
        ]
    )


def columns_of(text: str, alphabet: Mapping[str, int], batch: int, length: int) -> Array:
    """Numbers of characters [steps, batch]: column n is the n-th part of the text."""
    steps = len(text) // batch
    if steps <= length:
        sys.exit(f"the text has {len(text)} characters: too few for --batch times --length")
    numbers = np.array([alphabet[character] for character in text[: steps * batch]])
    return numbers.reshape(batch, steps).T.copy()


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a character model, then let it write.")
    parser.add_argument("text", nargs="?", type=Path, default=TEXT, help="a file in UTF-8")
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16, help="parts of the text read at once")
    parser.add_argument("--length", type=int, default=32, help="steps of an update")
    parser.add_argument("--updates", type=int, default=600, help="in all, resumed ones included")
    parser.add_argument("--rate", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="an .npz file to write, and to go on from")
    parser.add_argument("--every", type=int, default=200, help="updates between checkpoints")
    parser.add_argument("--curve", type=Path, help="an .svg file for the loss curve")
    parser.add_argument("--write", type=int, default=200, help="characters to write in the end")
    parser.add_argument("--temperature", type=float, default=0.7)
    return parser


def main(arguments: Sequence[str] | None = None) -> list[float]:
    """Train, save, write; the loss of each update."""
    chosen = options().parse_args(arguments)
    try:
        text = chosen.text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"{chosen.text}: {error}")
    characters = sorted(set(text))
    alphabet = {character: number for number, character in enumerate(characters)}
    columns = columns_of(text, alphabet, chosen.batch, chosen.length)
    net = Net(len(characters), chosen.units, chosen.seed)
    run = Run(net, Adam(chosen.rate), columns, chosen.length, net.zeros(chosen.batch))
    if chosen.checkpoint is not None and chosen.checkpoint.exists():
        run.resume(chosen.checkpoint)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("loss", total=chosen.updates, completed=len(run.losses))
        while len(run.losses) < chosen.updates:
            run.step()
            progress.update(bar, advance=1, description=f"loss {run.losses[-1]:.3f}")
            if chosen.checkpoint is not None and len(run.losses) % chosen.every == 0:
                run.save(chosen.checkpoint)
    if chosen.checkpoint is not None:
        run.save(chosen.checkpoint)
    if chosen.curve is not None:
        chosen.curve.write_text(curve(run.losses), encoding="utf-8")
    first, last = (f"{np.mean(part):.3f}" for part in (run.losses[:10], run.losses[-10:]))
    print(f"{len(run.losses)} updates, loss {first} -> {last} nats a character")
    start = columns[: chosen.length, 0]
    written = net.write(start, chosen.write, chosen.temperature, chosen.seed)
    print("".join(characters[number] for number in written))
    return run.losses


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; with --checkpoint, the same command goes on from the last one written")
