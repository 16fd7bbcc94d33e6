"""One step of an LSTM and of a GRU: what is behind the products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder

Function = Callable[[Builder, SSAValue], SSAValue]
Named = Mapping[str, SSAValue]
NONE: Named = MappingProxyType({})


def named(value: SSAValue, hint: str) -> SSAValue:
    """A value with a name for drawings and plans, unless it has one."""
    value.name_hint = value.name_hint or hint
    return value


def lstm_step(
    b: Builder,
    z: Named,
    c: SSAValue,
    gate: Function = Builder.sigmoid,
    act: Function = Builder.tanh,
    out: Function | None = None,
    peepholes: Named = NONE,
    coupled: bool = False,
) -> list[SSAValue]:
    """h and c after a step of an LSTM (Hochreiter and Schmidhuber, 1997).

        i = gate(z_i + p_i · c')
        f = gate(z_f + p_f · c'), or 1 - i
        c = f · c' + i · act(z_g)
        o = gate(z_o + p_o · c)
        h = o · out(c)

    Args:
        z: the sums of the gates i, f, o and of the candidate g, [..., H] each.
        c: the cell's state c' before the step.
        out: `act` where it is None.
        peepholes: p [H] of the gates that have one (Gers and Schmidhuber, 2000).
        coupled: whether what is forgotten is what enters: f = 1 - i.
    """

    def opened(letter: str, state: SSAValue) -> SSAValue:
        total = z[letter]
        if letter in peepholes:
            total = b.add(total, b.mul(peepholes[letter], state))
        return named(gate(b, total), letter)

    if coupled:
        enter = opened("i", c)
        kept = b.mul(named(b.sub(b.full_like(enter, 1.0), enter), "f"), c)
    else:
        kept = b.mul(opened("f", c), c)
        enter = opened("i", c)
    c = b.add(kept, b.mul(enter, named(act(b, z["g"]), "g")))
    return [b.mul(opened("o", c), (out or act)(b, c)), c]


def gru_state(b: Builder, h: SSAValue, update: SSAValue, candidate: SSAValue) -> SSAValue:
    """The state after a step of a GRU: z · h' + (1 - z) · n (Cho et al., 2014)."""
    rest = b.sub(b.full_like(update, 1.0), update)
    return b.add(b.mul(h, update), b.mul(candidate, rest))
