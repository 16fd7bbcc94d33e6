"""Loops that fill lists or carry states, each in another way that Python has: `(net, x) -> y`."""

# pyright: basic
from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from tests.torch.loop_net import T, copies, zeros


class Pair(NamedTuple):
    h: Any
    c: Any


@dataclass
class Held:
    h: Any
    c: Any


@copies(7)
def appended(net, x):
    h, ys = zeros(), []
    for t in range(T):
        h = net.cell(x[:, t], h)
        ys.append(h)
    return torch.stack(ys), h


@copies(7)
def tuples_appended(net, x):
    h, c, ys = zeros(), zeros(), []
    for t in range(x.shape[1]):
        h, c = net.lstm(x[:, t], (h, c))
        ys.append((h, c, t))
    return ys


@copies(7)
def read_from_list(net, x):
    ys = [zeros(), zeros() + 1]
    for t in range(T):
        ys.append(net.cell(x[:, t], ys[-1] - ys[-2]))
    return torch.stack(ys)


@copies(7)
def pairs_from_list(net, x):
    ys = [(zeros(), zeros())]
    for t in range(T):
        ys.append(net.lstm(x[:, t], ys[-1]))
        ys += [ys[-1]]
    return ys


@copies()
def by_length(net, x):
    h, ys = zeros(), []
    for t in range(T):
        h = net.cell(x[:, t], h) * (1 if len(ys) < 5 else 2)
        ys.append(h)
    return ys


@copies()
def first_of_list(net, x):
    ys = [zeros()]
    for t in range(T):
        ys.append(net.cell(x[:, t], ys[0]))
    return ys


@copies()
def popped(net, x):
    h, ys = zeros(), []
    for t in range(T):
        h = net.cell(x[:, t], h)
        ys.append(h)
        if len(ys) > 3:
            ys.pop(0)
    return ys


@copies()
def sought(net, x):
    h, seen = zeros(), []
    for t in range(T):
        h = net.cell(x[:, t], h) * (2 if 5 in seen else 1)
        seen.append(t)
    return h


@copies(1, 1)
def two_lists(net, x):
    h, a, b = zeros(), [], []
    for t in range(T):
        h = net.cell(x[:, t], h)
        a.append(h)
        if t % 2:
            b.append(h)
    return a, b


@copies(7)
def one_list_twice(net, x):
    h, a = zeros(), []
    b = a
    for t in range(T):
        h = net.cell(x[:, t], h)
        a.append(h)
        b.append(h * 2)
    return a


@copies(7)
def lists_appended(net, x):
    h, ys = zeros(), []
    for t in range(T):
        h = net.cell(x[:, t], h)
        ys.append([h, h + 1])
    ys[3].append(h)
    return ys


@copies(7)
def state_appended(net, x):
    state, ys = [zeros(), zeros()], []
    for t in range(T):
        state = list(net.lstm(x[:, t], state))
        ys.append(state)
    ys[-1][0] = zeros()
    return ys, state


@copies(7)
def changed_later(net, x):
    h, ys = zeros(), []
    for t in range(T):
        h = net.cell(x[:, t], h)
        ys.append(h * 1)
    ys[3].mul_(2)
    ys[-1].add_(1)
    return ys


@copies(6)
def swapped(net, x):
    a, b = zeros(), zeros() + 1
    for t in range(T):
        a, b = b, torch.tanh(a + x[:, t])
    return a, b


@copies(5)
def shifted(net, x):
    a = b = c = zeros()
    ys = []
    for t in range(T):
        ys.append((a, b))
        a, b, c = net.cell(x[:, t], c), a, b
    return ys, a, b, c


@copies(5)
def window(net, x):
    rows, ys = deque([zeros()] * 3, maxlen=3), []
    for t in range(T):
        rows.append(net.cell(x[:, t], rows[0]))
        ys.append(rows[0] + rows[1])
    return ys, list(rows)


@copies(7)
def several_states(net, x):
    hs = [zeros(), zeros()]
    for t in range(T):
        v = x[:, t]
        for i in range(2):
            hs[i] = v = torch.tanh(net.layers[i](v) + hs[i])
    return hs


@copies(7)
def states_by_name(net, x):
    state = {"h": zeros(), "c": zeros()}
    for t in range(T):
        state["h"], state["c"] = net.lstm(x[:, t], (state["h"], state["c"]))
    return state


@copies(7)
def named_tuples(net, x):
    state = Pair(zeros(), zeros())
    for t in range(T):
        state = Pair(*net.lstm(x[:, t], state))
    return state.h, state.c


@copies(7)
def data_classes(net, x):
    state = Held(zeros(), zeros())
    for t in range(T):
        h, c = net.lstm(x[:, t], (state.h, state.c))
        state = Held(h, c)
    return state.h, state.c


@copies(7)
def kept_in_module(net, x):
    net.kept, ys = zeros(), []
    for t in range(T):
        net.kept = net.cell(x[:, t], net.kept)
        ys.append(net.kept)
    return ys


@copies(7)
def kept_from_none(net, x):
    for t in range(T):
        net.kept = net.cell(x[:, t], zeros() if net.kept is None else net.kept)
    return net.kept


@copies(7)
def buffer(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h)
        net.mean.mul_(0.9).add_(h.detach().mean(0))
    return h


@copies(7)
def rows_in_module(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h)
        net.rows.append(h)
    return h


@copies()
def table_in_module(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h)
        net.table[t] = h
    return h


@copies(7)
def written(net, x):
    out, h = torch.zeros(*x.shape), zeros()
    for t in range(T):
        h = net.cell(x[:, t], h)
        out[:, t] = h
        out[0, t, 1] += 1
    return out


@copies(7)
def summed_in_place(net, x):
    h, total = zeros(), zeros()
    for t in range(T):
        h = net.cell(x[:, t], h)
        total += h.detach()
        total.mul_(0.9)
    return h, total


@copies(7)
def no_gradients(net, x):
    h, ys = zeros(), []
    for t in range(T):
        with torch.no_grad():
            gate = torch.sigmoid(h)
        h = net.cell(x[:, t], h.detach()) * gate
        ys.append(h)
    return ys


@copies()
def hooked(net, x):
    h = zeros()
    for t in range(T):
        h = net.cell(x[:, t], h)
        h.register_hook(lambda gradient: gradient * 0.5)
    return h


@copies(varies=True)
def is_the_same(net, x):
    first = h = zeros()
    for t in range(T):
        h = net.layers[0](x[:, t]) if h is first else net.cell(x[:, t], h)
    return h


@copies(7)
def outer_state(net, x):
    h, n = zeros(), 0

    def step(v):
        nonlocal h, n
        h = net.cell(v, h)
        n += 1

    for t in range(T):
        step(x[:, t])
    return h, n


@copies()
def functions_appended(net, x):
    functions = []
    for t in range(T):
        functions.append(lambda h, t=t: net.cell(x[:, t], h))
    h = zeros()
    for function in functions[:3]:
        h = function(h)
    return h


@copies(1, 1, 1)
def texts(net, x):
    h, names = zeros(), []
    for t in range(T):
        h = net.cell(x[:, t], h)
        names.append(f"step {t}")
    return h, names
