"""What the ports that passes add to a net are for: a kind, and what of the net each is of.

A net's own inputs and outputs have no role. The names of added ports are labels, which only have
to differ from others: a net's own blob may be called as one of them would be.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import count
from typing import Literal, NamedTuple, get_args

from xdsl.utils.exceptions import VerifyException

Kind = Literal["grad", "saved", "kept", "packed", "state", "next"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Role(NamedTuple):
    """What an added port is for.

    Attributes:
        kind: `grad`, a gradient; `saved`, a slot of the tape; `kept`, an output that backward
            reads where the caller has it; `packed`, what was computed of parameters alone before
            the call; `state` and `next`, what a step of a stream reads of the state and leaves
            there, which may be one place in memory.
        of: the input, output or parameter that a gradient or kept output is of; of what is saved,
            packed or of the state, the name for people.
    """

    kind: Kind
    of: str


def role_of(kind: str, of: str) -> Role:
    """A role by the name of its kind.

    Raises:
        VerifyException: there is no such kind.
    """
    for member in KINDS:
        if member == kind:
            return Role(member, of)
    raise VerifyException(f"no kind of ports: {kind!r}")


def labelled(roles: Iterable[Role], reserved: Iterable[str]) -> dict[str, Role]:
    """Ports by names that nothing else has: KIND:OF, with a number where that is taken."""
    names, roles_by_name = set(reserved), dict[str, Role]()
    for role in roles:
        name = fresh(f"{role.kind}:{role.of}", names)
        names.add(name)
        roles_by_name[name] = role
    return roles_by_name


def fresh(stem: str, reserved: Container[str]) -> str:
    """A name that is not taken: the stem itself, or it and a number."""
    numbered = (f"{stem}.{number}" for number in count(2))
    return stem if stem not in reserved else next(name for name in numbered if name not in reserved)
