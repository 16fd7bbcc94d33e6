"""Writes the example net beside this file: the net, its init net, and inputs for one word."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rnncc.commands.charnet import char_lstm
from rnncc.netdef import save

ALPHABET = "".join(map(chr, range(32, 96)))
UNITS = 128


def one_hot(text: str) -> np.ndarray:
    """float32 [T, 1, 64]: one row a character."""
    x = np.zeros((len(text), 1, len(ALPHABET)), np.float32)
    x[range(len(text)), 0, [ALPHABET.index(character) for character in text.upper()]] = 1
    return x


def main(folder: Path) -> None:
    """Write lstm.pbtxt, lstm_init.pbtxt and lstm.npz."""
    net, init = char_lstm(len(ALPHABET), UNITS)
    save(net, folder / "lstm.pbtxt", text=True)
    save(init, folder / "lstm_init.pbtxt", text=True)
    word = "HELLO, WORLD"
    zeros = np.zeros((1, 1, UNITS), np.float32)
    lengths = np.array([len(word)], np.int32)
    inputs = {"x": one_hot(word), "seq_lengths": lengths, "h0": zeros, "c0": zeros}
    np.savez(folder / "lstm.npz", **inputs)


if __name__ == "__main__":
    main(Path(__file__).parent)
