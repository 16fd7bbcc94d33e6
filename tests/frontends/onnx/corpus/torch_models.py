"""Recurrent models of PyTorch, by both exporters: `python torch_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.frontends.onnx.corpus.exporting import TN, Axes, Exported, export_all


class Tagger(nn.Module):
    """Embedding, two bidirectional LSTMs, emissions of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 7)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.lstm(self.embed(tokens))[0])


class LastValid(nn.Module):
    """A classifier by the last valid step of each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 16, batch_first=True)
        self.out = nn.Linear(16, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.gru(x)
        rows = torch.arange(x.shape[0])
        return self.out(y[rows, lengths - 1]).softmax(-1)


class LastByGather(nn.Module):
    """The same by `gather`."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.lstm(x)
        index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, y.shape[2])
        return y.gather(1, index).squeeze(1)


class Packed(nn.Module):
    """Packed sequences, sorted or not."""

    def __init__(self, enforce_sorted: bool) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 12, batch_first=True, bidirectional=True)
        self.enforce_sorted = enforce_sorted

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=self.enforce_sorted
        )
        y, (h, _) = self.rnn(packed)
        padded, _ = pad_packed_sequence(y, batch_first=True)
        return padded, h


class Crnn(nn.Module):
    """Text recognition: convolutions and pools over an image, a bidirectional LSTM along x."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d((4, 1))),
        )
        self.lstm = nn.LSTM(24, 20, bidirectional=True)
        self.out = nn.Linear(40, 11)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x).squeeze(2).permute(2, 0, 1)
        return self.out(self.lstm(y)[0]).log_softmax(-1)


class DeepSpeech(nn.Module):
    """Spectra through strided 2-D convolutions, bidirectional GRUs summed, batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            *(nn.Conv2d(1, 8, (11, 5), (2, 2), (5, 2)), nn.BatchNorm2d(8), nn.Hardtanh(0, 20)),
            *(nn.Conv2d(8, 8, (11, 5), (1, 2), (5, 2)), nn.BatchNorm2d(8), nn.Hardtanh(0, 20)),
        )
        self.first = nn.GRU(8 * 10, 16, bidirectional=True)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.GRU(16, 16, bidirectional=True)
        self.out = nn.Linear(16, 9)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y = y.view(y.shape[0], y.shape[1] * y.shape[2], y.shape[3]).permute(2, 0, 1)
        y = self.first(y)[0]
        y = y.view(y.shape[0], y.shape[1], 2, -1).sum(2)
        t, n = y.shape[0], y.shape[1]
        y = self.norm(y.reshape(t * n, -1)).view(t, n, -1)
        y = self.second(y)[0]
        y = y.view(t, n, 2, -1).sum(2)
        return self.out(y).transpose(0, 1).softmax(-1)


class WaveFront(nn.Module):
    """Strided convolutions over samples, then a GRU: a front end of audio."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            *(nn.Conv1d(1, 8, 10, 5), nn.GELU(), nn.Conv1d(8, 16, 4, 2, padding=1), nn.GELU()),
            *(nn.MaxPool1d(3, 2), nn.Conv1d(16, 16, 3, padding=1, groups=16), nn.ReLU()),
        )
        self.gru = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.front(x[:, None]).transpose(1, 2)
        return self.out(self.gru(y)[0]).mean(1)


class SelfAttentive(nn.Module):
    """Attention with a mask over a bidirectional LSTM's outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 12, batch_first=True, bidirectional=True)
        self.score = nn.Linear(24, 1)
        self.out = nn.Linear(24, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        y, _ = self.lstm(x)
        valid = torch.arange(x.shape[1])[None] < lengths[:, None]
        score = self.score(torch.tanh(y)).squeeze(-1).masked_fill(~valid, -1e9)
        weight = score.softmax(-1)
        return self.out((weight[..., None] * y).sum(1)), weight


class Seq2Seq(nn.Module):
    """An encoder, and a decoder with attention that is fed its targets."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(30, 12), nn.Embedding(30, 12)
        self.encoder = nn.GRU(12, 16, batch_first=True)
        self.decoder = nn.GRU(12, 16, batch_first=True)
        self.out = nn.Linear(32, 30)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        keys, state = self.encoder(self.source(source))
        y, _ = self.decoder(self.target(target), state)
        weight = (y @ keys.transpose(1, 2) / 4.0).softmax(-1)
        return self.out(torch.cat([y, weight @ keys], -1))


class LanguageModel(nn.Module):
    """Tied embeddings, two LSTMs, states in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.lstm = nn.LSTM(16, 16, 2)

    def forward(self, tokens: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(self.embed(tokens), (h, c))
        return y @ self.embed.weight.t(), h, c


class Projected(nn.Module):
    """An LSTM with a projection, and a speaker's embedding of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(20, 24, 3, batch_first=True)
        self.linear = nn.Linear(24, 16)

    def forward(self, x: Tensor) -> Tensor:
        _, (h, _) = self.lstm(x)
        y = torch.relu(self.linear(h[-1]))
        return y / torch.norm(y, dim=1, keepdim=True)


class Denoiser(nn.Module):
    """Masks of spectra by a GRU between dense layers, as noise suppressors have."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(65, 32)
        self.gru = nn.GRU(32, 32, 2, batch_first=True)
        self.last = nn.Linear(32, 65)

    def forward(self, spectrum: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.log10(spectrum.abs() + 1e-6)
        y = (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1e-5)
        y, h = self.gru(torch.relu(self.first(y)), h)
        return spectrum * torch.sigmoid(self.last(y)), h


class TransformerGru(nn.Module):
    """Self-attention in front of a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.gru = nn.GRU(16, 16, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(self.attention(x))[0]


class Temporal(nn.Module):
    """Dilated causal convolutions, then an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(8, 8, 3, dilation=2**i) for i in range(3))
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(1, 2)
        for i, conv in enumerate(self.convs):
            y = y + torch.relu(conv(nn.functional.pad(y, (2 * 2**i, 0))))
        return self.lstm(y.transpose(1, 2))[0]


class CharWord(nn.Module):
    """Characters pooled to words by convolution, words through an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 8)
        self.conv = nn.Conv1d(8, 12, 3, padding=1)
        self.lstm = nn.LSTM(12, 10, batch_first=True, bidirectional=True)

    def forward(self, chars: Tensor) -> Tensor:
        n, t, c = chars.shape
        y = self.embed(chars.reshape(n * t, c)).transpose(1, 2)
        y = torch.relu(self.conv(y)).amax(-1)
        return self.lstm(y.view(n, t, -1))[0]


class Upsampler(nn.Module):
    """An LSTM over frames, and transposed convolutions back to samples."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv1d(1, 8, 8, 4, padding=2)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.up = nn.ConvTranspose1d(8, 1, 8, 4, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.down(x[:, None]))
        y = self.lstm(y.transpose(1, 2))[0].transpose(1, 2)
        return torch.tanh(self.up(y)).squeeze(1)


class TopSteps(nn.Module):
    """The three steps of the highest score, and the class of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 12, batch_first=True)
        self.score = nn.Linear(12, 1)
        self.out = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, _ = self.gru(x)
        _, index = self.score(y).squeeze(-1).topk(3, dim=1)
        rows = y.gather(1, index[..., None].expand(-1, -1, y.shape[2]))
        return self.out(rows), self.out(y).argmax(-1)


class Doubles(nn.Module):
    """A GRU in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


def _tokens(*shape: int) -> Tensor:
    return torch.randint(1, 20, shape)


_LENGTHS = torch.tensor([5, 3])
_BY_LENGTH: dict[str, Tensor] = {"x": torch.randn(2, 5, 8), "lengths": _LENGTHS}
_BATCH_AND_TIME: Axes = {"x": TN, "lengths": {0: "N"}}
_UP_TO_T: dict[str, tuple[int, int | str]] = {"lengths": (1, "T")}

MODELS: dict[str, Exported] = {
    "tagger": Exported(Tagger, {"x": _tokens(2, 5)}, {"x": TN}, {"x": (0, 49)}),
    "last_valid": Exported(LastValid, _BY_LENGTH, _BATCH_AND_TIME, _UP_TO_T),
    "last_by_gather": Exported(LastByGather, _BY_LENGTH, _BATCH_AND_TIME, _UP_TO_T),
    "packed": Exported(
        lambda: Packed(enforce_sorted=False), _BY_LENGTH, _BATCH_AND_TIME, _UP_TO_T, outputs=2
    ),
    "crnn": Exported(Crnn, {"x": torch.randn(2, 1, 16, 40)}, {"x": {0: "N", 3: "W"}}),
    "deepspeech": Exported(DeepSpeech, {"x": torch.randn(2, 1, 20, 40)}, {"x": {0: "N", 3: "W"}}),
    "wave_front": Exported(WaveFront, {"x": torch.randn(2, 400)}, {"x": {0: "N", 1: "S"}}),
    "self_attentive": Exported(SelfAttentive, _BY_LENGTH, _BATCH_AND_TIME, _UP_TO_T, outputs=2),
    "seq2seq": Exported(
        Seq2Seq,
        {"source": _tokens(2, 5), "target": _tokens(2, 4)},
        {"source": {0: "N", 1: "S"}, "target": {0: "N", 1: "T"}},
        {"source": (0, 29), "target": (0, 29)},
    ),
    "language_model": Exported(
        LanguageModel,
        {"tokens": _tokens(5, 2), "h": torch.randn(2, 2, 16), "c": torch.randn(2, 2, 16)},
        {"tokens": {0: "T", 1: "N"}, "h": {1: "N"}, "c": {1: "N"}},
        {"tokens": (0, 39)},
        outputs=3,
    ),
    "projected": Exported(Projected, {"x": torch.randn(2, 9, 20)}, {"x": TN}),
    "denoiser": Exported(
        Denoiser,
        {"spectrum": torch.randn(2, 5, 65), "h": torch.randn(2, 2, 32)},
        {"spectrum": TN, "h": {1: "N"}},
        outputs=2,
    ),
    "transformer_gru": Exported(TransformerGru, {"x": torch.randn(2, 5, 16)}, {"x": TN}),
    "temporal": Exported(Temporal, {"x": torch.randn(2, 20, 8)}, {"x": TN}),
    "char_word": Exported(
        CharWord, {"chars": _tokens(2, 5, 6)}, {"chars": {**TN, 2: "C"}}, {"chars": (0, 39)}
    ),
    "upsampler": Exported(Upsampler, {"x": torch.randn(2, 64)}, {"x": {0: "N", 1: "S"}}),
    "top_steps": Exported(TopSteps, {"x": torch.randn(2, 6, 8)}, {"x": TN}, outputs=2),
    "doubles": Exported(Doubles, {"x": torch.randn(2, 5, 4).double()}, {"x": TN}),
    **{
        f"plain_{kind.__name__.lower()}{'_both' * both}": Exported(
            lambda kind=kind, both=both: kind(6, 10, 2, bidirectional=both),
            {"x": torch.randn(5, 2, 6)},
            {"x": {0: "T", 1: "N"}},
            outputs=2 + (kind is nn.LSTM),
        )
        for kind in (nn.LSTM, nn.GRU, nn.RNN)
        for both in (False, True)
    },
}


if __name__ == "__main__":
    export_all(MODELS)
