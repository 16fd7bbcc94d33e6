"""Loops that compute with their steps' numbers, end early, or go over other things."""

# pyright: basic
from __future__ import annotations

import math

import torch

from tests.torch.loop_net import UNITS, T, copies, zeros


@copies(7)
def counted(net, x):
    h, i = zeros(), 0
    for t in range(T):
        h = net.cell(x[:, i], h) * (t + 1)
        i += 1
        net.count += 2
    return h, i


@copies(varies=True)
def counted_in_turn(net, x):
    h, i = zeros(), 0
    for _ in range(T):
        h = net.cell(x[:, i], h)
        i = (i + 1) % 6
    return h, i


@copies(1, 1, 1)
def counted_unevenly(net, x):
    h, i = zeros(), 1
    for t in range(T):
        h = net.cell(x[:, t], h) + (1 if i > 20 else 0)
        i = i * 2
    return h, i


@copies(7)
def step_before(net, x):
    h, before = zeros(), 0
    for t in range(T):
        h = net.cell(x[:, t] + x[:, before], h)
        before = t
    return h, before


@copies()
def decaying(net, x):
    h, w = zeros(), 1.0
    for t in range(T):
        h = net.cell(x[:, t], h) * w
        w *= 0.9
    return h, w


@copies()
def moved(net, x):
    h, w, before = zeros(), 0.5, 0.0
    for t in range(T):
        h = net.cell(x[:, t], h)
        before = w
        w = t * 0.1
    return h, w, before


@copies()
def alternating(net, x):
    h, flip = zeros(), False
    for t in range(T):
        h = net.cell(x[:, t], h) * (2 if flip else 1)
        flip = not flip
    return h


@copies(varies=True)
def some_steps(net, x):
    h = zeros()
    for t in range(T):
        if t == 5:
            continue
        h = net.cell(x[:, t], h)
        if t % 4 == 1:
            h = h * 2
    return h


@copies(4)
def left_early(net, x):
    h = zeros()
    for t in range(T):
        if t == 6:
            break
        h = net.cell(x[:, t], h)
    return h, t


@copies()
def left_at_once(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h)
        if t == 2:
            break
    return h * t


@copies(4)
def returned(net, x):
    h = zeros()
    for t in range(T):
        if t == 6:
            return h, t
        h = net.cell(x[:, t], h)
    return h * 2


@copies(varies=True)
def by_fraction(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h) * (2 if t * 0.1 > 0.5 else 1) * (t / T) + 0.9**t
    return h


@copies(7)
def numbers_in_tensors(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h) * math.sin(t) + torch.full((UNITS,), float(t))
        h = torch.where((t < torch.tensor([3, 6]))[:, None], h, torch.tensor([t]) - h)
    return h


@copies(7)
def other_rows(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, -1 - t] + x[1, t % 3], h) + x[:, (t * 5 + 2) % T, :2].sum()
        h = h + x[:, min(t, 5)] + x[:, abs(t - 4)] + x[:, t // 2] + x[..., t, :]
    return h


@copies(varies=True)
def clipped(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t : t + 3].mean(1) + x[:, max(0, t - 2) : t + 1].mean(1), h)
    return h


@copies(7)
def grows_with_steps(net, x):
    h = zeros()
    for t in range(1, T + 1):
        h = net.cell(x[:, :t].mean(1), h) + torch.arange(t).sum()
    return h


@copies(7)
def over_rows(net, x):
    h, ys = zeros(), []
    for t, (a, b) in enumerate(zip(x.unbind(1), x.flip(1).unbind(1), strict=True)):
        h = net.cell(a + b, h) + t
        ys.append(h)
    return ys


@copies()
def over_list(net, x):
    h = zeros()
    for row in net.given:
        h = net.cell(row, h)
    return h


@copies()
def over_branches(net, x):
    h = zeros()
    for t in range(T):
        h = torch.cond(h.sum() > t, lambda a, t=t: a + t, lambda a: a * 2, (h,)) + x[:, t]
    return h


@copies(7)
def over_tensor(net, x):
    h = zeros()
    for row in x.transpose(0, 1):
        h = net.cell(row, h)
    return h


@copies()
def over_layers(net, x):
    h = zeros()
    for row, layer in zip(x.unbind(1), net.layers, strict=True):
        h = torch.tanh(layer(row) + h)
    return h


@copies()
def over_generator(net, x):
    def rows():
        for t in range(T):
            yield x[:, t]

    source, h = rows(), zeros()
    for _ in range(T):
        h = net.cell(next(source), h)
    return h


@copies()
def shared_iterator(net, x):
    source, h = iter(range(T)), zeros()
    for t in source:
        h = net.cell(x[:, t], h)
        if t == 5:
            break
    return h, list(source)


@copies(7)
def listed(net, x):
    return [torch.tanh(x[:, t]) * t for t in range(T)]


@copies()
def by_names(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h) * len(locals())
    return h


@copies(varies=True)
def nested(net, x):
    h = zeros()
    for i in range(T):
        for j in range(T):
            h = torch.tanh(h * i + x[:, j])
    return h


@copies(7, 7)
def one_after_another(net, x):
    h, ys, zs = zeros(), [], []
    for t in range(T):
        h = net.cell(x[:, t], h)
        ys.append(h)
    for y in ys:
        h = net.layers[0](y) + h
        zs.append(h)
    return torch.stack(zs)


@copies(7)
def in_autocast(net, x):
    h = zeros()
    for t in range(T):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = net.layers[0](x[:, t]).flatten().view(2, 4)
            with torch.autocast("cpu", enabled=False):
                z = net.layers[1](h)
        h = torch.tanh(y.float() + z)
    return h


@copies()
def shapes_changed_in_place(net, x):
    h, ys = zeros(), []
    for t in range(T):
        y = net.cell(x[:, t], h).unsqueeze_(0)
        h = torch.tanh(y[0])
        ys.append(y)
    return torch.cat(ys)
