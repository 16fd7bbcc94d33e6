"""A net that looks words up in a table."""

from __future__ import annotations

from typing import Any

from tests.torch.cells import nn


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell = nn.Embedding(10, 4), nn.GRU(4, 5)

    def forward(self, words: Any) -> Any:
        return self.cell(self.words(words))[0]
