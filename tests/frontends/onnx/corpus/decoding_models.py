"""Decoders, and what data ends or chooses, by both exporters of PyTorch: `decoding_models.py DIR`.

Loops until a token or a gate ends them, searches over beams, alignments by monotonic times, frames
that a mask or a threshold chooses, paths that are traced back, pieces of a sequence.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Gated(nn.Module):
    """A gated cell of two products."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size + hidden, hidden)
        self.new = nn.Linear(size + hidden, hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        both = torch.cat([x, h], 1)
        z = torch.sigmoid(self.gate(both))
        return z * h + (1 - z) * torch.tanh(2 * self.new(both))


class Decoder(nn.Module):
    """What the decoders have."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(6, 8, batch_first=True)
        self.embedding = nn.Embedding(11, 5)
        self.cell = Gated(5, 8)
        self.scores = nn.Linear(8, 11)


class UntilAllHaveEnded(Decoder):
    """Tokens of a batch until each has ended, 20 at most."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.encoder(x)[1][0][0]
        token = torch.zeros_like(h[:, 0]).to(torch.int64)
        found: list[Tensor] = []
        ended = token > 0
        n = 0
        while n < 20 and int(ended.to(torch.int64).sum()) < x.size(0):
            h = self.cell(self.embedding(token), h)
            token = self.scores(h).argmax(1)
            ended = ended | (token >= 7)
            found.append(token)
            n += 1
        return torch.stack(found, 1)


class UntilEnd(Decoder):
    """Tokens behind the first one, with their scores, for twice as long as the input at most."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encoder(x)[1][0][0]
        token = torch.zeros_like(h[:, 0]).to(torch.int64)
        found: list[Tensor] = [token]
        scores: list[Tensor] = []
        n = 0
        more = True
        while more and n < 2 * x.size(1):
            h = self.cell(self.embedding(token), h)
            score, token = torch.log_softmax(self.scores(h), 1).max(1)
            found.append(token)
            scores.append(score)
            n += 1
            more = int(token[0]) < 7
        return torch.stack(found, 1), torch.stack(scores, 1), h


class Frames(Decoder):
    """Frames until a gate closes, put together along time."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.encoder(x)[1][0][0]
        frame = self.scores(h)[:, :5]
        frames: list[Tensor] = []
        n = 0
        stop = False
        while not stop:
            h = self.cell(frame, h)
            frame = torch.tanh(self.scores(h)[:, :5])
            frames.append(frame.unsqueeze(1))
            n += 1
            stop = bool((h[:, 0].abs() < 0.2).any()) or n >= 12
        y = torch.cat(frames, 1)
        return y.transpose(1, 2), torch.sigmoid(y * 2)


class Beams(Decoder):
    """The three best of six steps, whose states are reordered by where they come from."""

    def forward(self, h0: Tensor) -> tuple[Tensor, Tensor]:
        count, kept = h0.size(0), 3
        h = h0[:, None].expand(count, kept, 8).reshape(count * kept, 8)
        token = torch.zeros([count * kept], dtype=torch.int64)
        total = torch.full([count, kept], -1e9)
        total[:, 0] = 0.0
        found = torch.zeros([count, kept, 6], dtype=torch.int64)
        for step in range(6):
            h = self.cell(self.embedding(token), h)
            scores = torch.log_softmax(self.scores(h), 1).view(count, kept, 11)
            total, places = (scores + total[:, :, None]).view(count, kept * 11).topk(kept, 1)
            beam = torch.div(places, 11, rounding_mode="floor")[:, :, None]
            token = (places % 11).view(-1)
            found = found.gather(1, beam.expand(count, kept, 6))
            found[:, :, step] = token.view(count, kept)
            h = h.view(count, kept, 8).gather(1, beam.expand(count, kept, 8)).reshape(-1, 8)
        return found, total


class Transduced(Decoder):
    """One token or none for each frame: only a token moves the prediction on."""

    def forward(self, x: Tensor) -> Tensor:
        frames = self.encoder(x)[0]
        h = torch.zeros([1, 8])
        token = torch.zeros([1], dtype=torch.int64)
        found = torch.zeros([x.size(1)], dtype=torch.int64)
        for t in range(x.size(1)):
            following = self.cell(self.embedding(token), h)
            best = self.scores(torch.tanh(frames[:, t] + following)).argmax(1)
            is_token = best > 3
            h = torch.where(is_token[:, None], following, h)
            token = torch.where(is_token, best, token)
            found[t] = best[0]
        return found


class Greedy(Decoder):
    """A transducer: of each frame tokens until a blank, two at most, in a list."""

    def forward(self, x: Tensor) -> Tensor:
        frames = self.encoder(x)[0]
        h = torch.zeros([1, 8])
        token = torch.zeros([1], dtype=torch.int64)
        found: list[Tensor] = []
        for t in range(x.size(1)):
            n = 0
            more = True
            while more and n < 2:
                following = self.cell(self.embedding(token), h)
                best = self.scores(torch.tanh(3 * (frames[:, t] + following))).argmax(1)
                if bool(best[0] < 3):
                    more = False
                else:
                    found.append(best)
                    token = best
                    h = following
                n += 1
        return torch.cat(found)


class Regulated(nn.Module):
    """Phonemes stretched to frames by their durations, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.length = nn.Embedding(12, 6), nn.Linear(4, 1)
        self.durations = nn.GRU(6, 4, batch_first=True)
        self.frames = nn.GRU(6, 5, batch_first=True)

    def forward(self, phonemes: Tensor, like: Tensor) -> Tensor:
        x = self.embedding(phonemes)
        ends = torch.cumsum(1 + functional.softplus(self.length(self.durations(x)[0]))[..., 0], 1)
        at = torch.arange(like.shape[1]).to(ends.dtype)[None, :, None]
        place = (at >= ends[:, None]).sum(2).clamp(max=phonemes.shape[1] - 1)
        return self.frames(torch.gather(x, 1, place[..., None].expand(-1, -1, 6)))[0]


class Voiced(nn.Module):
    """Frames above a threshold, and classes of these alone."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.voice = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 1)
        self.kinds, self.rows = nn.Linear(6, 3), nn.Embedding(3, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.rnn(x)[0]
        voiced = torch.sigmoid(self.voice(y))[..., 0] > 0.5
        scores = self.kinds(y[voiced])
        return torch.nonzero(voiced), torch.softmax(scores, -1), self.rows(scores.argmax(-1))


class Onsets(nn.Module):
    """Times at which a probability crosses a threshold, and how often it does."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.sigmoid(self.out(self.rnn(x)[0]))[0, :, 0]
        found = torch.nonzero((p[1:] > 0.5) & (p[:-1] <= 0.5))[:, 0]
        count = found.shape[0] + torch.zeros(1, dtype=torch.int64)
        return (found + 1).to(torch.float32) * 0.01, count


class Masked(nn.Module):
    """Scores of the frames that a mask chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 5)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return functional.log_softmax(self.out(self.rnn(x)[0])[mask], -1)


class TracedBack(nn.Module):
    """The best path through a chain of tags, traced back from its end and put together in front."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.GRU(6, 8, batch_first=True, bidirectional=True), nn.Linear(16, 5)
        self.moves = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.out(self.rnn(x)[0])
        best = scores[:, 0]
        before: list[Tensor] = []
        for t in range(1, scores.size(1)):
            reached, tag = (best.unsqueeze(2) + self.moves).max(1)
            best = reached + scores[:, t]
            before.append(tag)
        score, tag = best.max(1)
        path: list[Tensor] = []
        for t in range(scores.size(1) - 1):
            path.insert(0, tag)
            tag = before[len(before) - 1 - t].gather(1, tag.unsqueeze(1)).squeeze(1)
        path.insert(0, tag)
        return score, torch.stack(path, 1)


class InPieces(nn.Module):
    """Pieces of four steps one behind another, each through the encoder with the state before."""

    def __init__(self) -> None:
        super().__init__()
        self.join, self.rnn = nn.Linear(12, 8), nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(1, x.size(0), 8)
        pieces: list[Tensor] = []
        for t in range(x.size(1) // 4):
            piece = x[:, 4 * t : 4 * t + 4].reshape(x.size(0), -1, 12)
            y, h = self.rnn(torch.relu(self.join(piece)), h)
            pieces.append(y[:, 0] + y[:, 1])
        return torch.stack(pieces, 1)


class Concatenated(nn.Module):
    """Tokens until all sentences have ended, one behind the other in a tensor that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(9, 6), nn.LSTMCell(6, 8), nn.Linear(8, 9)

    def forward(self, h0: Tensor) -> Tensor:
        h, c = h0, torch.zeros_like(h0)
        tokens = torch.ones(h0.size(0), 1, dtype=torch.long)
        ended = torch.zeros(h0.size(0), dtype=torch.bool)
        for _ in range(100):
            h, c = self.cell(self.embed(tokens[:, -1]), (h, c))
            token = self.out(h).argmax(1)
            tokens = torch.cat([tokens, token.unsqueeze(1)], 1)
            ended = torch.logical_or(ended, token == 0)
            if bool(ended.all()):
                break
        return tokens


class OwnStates(nn.Module):
    """Attention of a cell over all of its earlier states."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(6 + 8, 8)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(x.size(0), 8), torch.zeros(x.size(0), 8)
        states = torch.zeros(x.size(0), 1, 8)
        for t in range(x.size(1)):
            scores = torch.softmax(torch.bmm(states, h.unsqueeze(2)), 1)
            seen = (scores * states).sum(1)
            h, c = self.cell(torch.cat([x[:, t], seen], 1), (h, c))
            states = torch.cat([states, h.unsqueeze(1)], 1)
        return states


def _x(*shape: int) -> dict[str, Tensor]:
    return {"x": torch.randn(*shape)}


PHONEMES = {"phonemes": torch.randint(1, 11, (2, 5)), "like": torch.randn(2, 12)}
MODELS: dict[str, Exported] = {
    "until_all_have_ended": Exported(UntilAllHaveEnded, _x(2, 5, 6), {"x": TN}, script=True),
    "until_end": Exported(UntilEnd, _x(1, 5, 6), {"x": {1: "T"}}, outputs=3, script=True),
    "frames": Exported(Frames, _x(2, 5, 6), {"x": TN}, outputs=2, script=True),
    "beams": Exported(Beams, {"h0": torch.randn(2, 8)}, {"h0": {0: "N"}}, outputs=2, script=True),
    "concatenated": Exported(
        Concatenated, {"h0": torch.randn(2, 8)}, {"h0": {0: "N"}}, script=True
    ),
    "own_states": Exported(OwnStates, _x(2, 5, 6), {"x": TN}, script=True),
    "transduced": Exported(Transduced, _x(1, 7, 6), {"x": {1: "T"}}, script=True),
    "greedy": Exported(Greedy, _x(1, 7, 6), {"x": {1: "T"}}, script=True),
    "regulated": Exported(
        Regulated, PHONEMES, {"phonemes": TN, "like": {0: "N", 1: "U"}}, {"phonemes": (0, 11)}
    ),
    "voiced": Exported(Voiced, _x(2, 9, 4), {"x": TN}, outputs=3),
    "onsets": Exported(Onsets, _x(1, 9, 4), {"x": {1: "T"}}, outputs=2),
    "traced_back": Exported(TracedBack, _x(2, 6, 6), {"x": TN}, outputs=2, script=True),
    "in_pieces": Exported(InPieces, _x(2, 9, 6), {"x": TN}, script=True),
    "masked": Exported(
        Masked, {**_x(2, 9, 4), "mask": torch.randn(2, 9) > 0}, {"x": TN, "mask": TN}
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
