# pyright: basic, reportMissingImports=false
"""Packed sequences while a module is exported: padded ones, with the lengths beside them.

What PyTorch packs has a size that depends on the lengths. Here `data` stays as it is, time first,
and `Lengths` stands where the sizes of the batches would be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from rnncc.errors import CompileError


class Lengths:
    """Sequences of several lengths, [steps, batch, ...]; what is beyond a length is padding.

    Attributes:
        of: the lengths, int64 [batch].
        steps, batch: of the padded sequences.
    """

    device = torch.device("cpu")

    def __init__(self, of: torch.Tensor, steps: Any, batch: Any) -> None:
        self.of, self.steps, self.batch = of, steps, batch

    def __getitem__(self, step: int) -> Any:
        """How many sequences the first step has: all."""
        if step != 0:
            raise CompileError("", "the batch sizes of packed sequences are not known")
        return self.batch

    def size(self, axis: int) -> Any:
        """The longest length there can be."""
        return self.steps

    def valid(self) -> torch.Tensor:
        """Which rows are no padding, [steps, batch]."""
        return torch.arange(self.steps, device=self.of.device)[:, None] < self.of


class PackedSequenceParts(NamedTuple):
    """What _VF._pack_padded_sequence gives."""

    data: torch.Tensor
    batch_sizes: Lengths


def pack(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> PackedSequenceParts:
    """Padded sequences [T, N, ...], or [N, T, ...]."""
    rows = x.transpose(0, 1) if batch_first else x
    return PackedSequenceParts(rows, Lengths(lengths, rows.shape[0], rows.shape[1]))


def unpack(
    data: torch.Tensor, lengths: Lengths, batch_first: bool, padding: float, total: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The opposite of `pack`; the padding is a number then.

    Raises:
        CompileError: the total length is another than before.
    """
    if total is not lengths.steps and total != lengths.steps:
        what = f"total_length {total} of sequences that were packed with {lengths.steps} steps"
        raise CompileError("pad_packed_sequence", what)
    valid = lengths.valid().to(data.device)[(..., *[None] * (data.dim() - 2))]
    rows = torch.where(valid, data, padding)
    return rows.transpose(0, 1) if batch_first else rows, lengths.of
