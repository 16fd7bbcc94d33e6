"""What operators share whose nets see the names around them: Do, If, While and their scopes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.dims import Dim
from rnncc.netdef import NetDef

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.graph import Resolver, Scope

MAX_TWICE = 5_000
"""How many operators may be built again: While builds its condition net twice, and what stands in
there four times, and so on. A loop counts as ten."""


@dataclass(eq=False)
class ScopeBlob(Blob):
    """A scope: what a Do operator writes beside its outputs goes into a workspace on it.

    Attributes:
        depth: how many workspaces there are; None where that depends on the run.
        bound: of the last workspace, inner name -> name outside; None where there is no last one.
        local: what else the last workspace holds.
    """

    depth: int | None = 0
    bound: dict[str, str] | None = None
    local: dict[str, Blob] = field(default_factory=dict[str, Blob])

    @property
    def state(self) -> tuple[int | None, dict[str, str] | None, dict[str, Blob]]:
        """What operators on the scope change."""
        return self.depth, self.bound, self.local

    def restore(self, state: tuple[int | None, dict[str, str] | None, dict[str, Blob]]) -> None:
        """Set the state."""
        self.depth, self.bound, self.local = state


class Control(Operator, ABC):
    """An operator with nets inside that read and write blobs of the net around it by name.

    Attributes:
        inside: the operators of its nets, in the order in which they run first.
        weight: how many operators are built for it.
        twice: how many of these are built again.
    """

    inside: Sequence[Operator] = ()
    weight: int = 10
    twice: int = 0
    takes_opaque = True

    @abstractmethod
    def resolve(self, maker: Resolver, scope: Scope) -> None:
        """Resolve the nets inside, and put what all of it writes into `scope`."""

    def mark(self) -> bool:
        """Count uses of the versions of blobs that its own results stand for, where those are
        used; whether any was new."""
        return False

    def nested(self) -> Sequence[Operator]:
        return self.inside

    def captured(self) -> Sequence[Blob]:
        return read_outside(self.inside)

    def operators_inside(
        self, maker: Resolver, net: NetDef, scope: Scope, word: str
    ) -> list[Operator]:
        """A net's operators; `word` says in messages what they are."""
        location = Location(self.location.file, self.location.node)
        inside = maker.inside(location, maker.protected, word, absent=maker.absent)
        return inside.operators_of(net, scope)

    def weigh(self, once: Sequence[Operator], twice: Sequence[Operator] = ()) -> None:
        """Count what is built; raises `CompileError` where that is too much."""
        for op in (*once, *twice):
            self.weight += op.weight if isinstance(op, Control) else 1
            self.twice += op.twice if isinstance(op, Control) else 0
        for op in twice:
            self.weight += op.weight if isinstance(op, Control) else 1
            self.twice += op.weight if isinstance(op, Control) else 1
        if self.twice > MAX_TWICE:
            what = f"has condition nets in condition nets: more than {MAX_TWICE} operators"
            raise self.error(f"{what} would be built again")

    def declared(self, maker: Resolver, scope: Scope, why: str) -> list[Blob]:
        """The blobs of its outputs; those that nothing wrote stay what they were, if anything."""
        for name in (name for name in self.op.output if name not in scope):
            scope[name] = maker.absent(name) or Blob(name, opaque=True, lacks=why)
        return [scope[name] for name in self.op.output]

    def check_condition(self, blob: Blob) -> None:
        """Refuse a condition that is no tensor."""
        if blob.opaque:
            raise self.error(f'has the condition "{blob.name}", which {blob.lacks}')

    def expect_condition(self, s: Shapes, blob: Blob) -> None:
        """State that a blob is one bool, of any rank."""
        if blob.dtype not in (None, "i1"):
            raise self.error(f'has the condition "{blob.name}" of type {blob.dtype}, not bool')
        s.expect_dtype(blob, "i1")
        for dim in s.dims(blob) or ():
            if not s.equal(dim, Dim.of(1)):
                shown = s.text(s.known(blob))
                raise self.error(f'has the condition "{blob.name}" of shape {shown}, not one bool')

    def assume_condition(self, s: Shapes, blob: Blob) -> None:
        """A condition of unknown rank has one axis."""
        if s.dims(blob) is None:
            s.expect(blob, (1,))

    def agree(self, s: Shapes, how: str, blobs: Sequence[Blob]) -> None:
        """State that versions of one blob have one shape and type."""
        try:
            s.same_shape(*blobs)
            s.same_dtype(*blobs)
        except CompileError as error:
            raise self.error(f"{how}: {error.what}") from error


def read_outside(ops: Iterable[Operator]) -> list[Blob]:
    """The blobs that operators read and none of them writes."""
    written, outside = set[Blob](), dict[Blob, None]()
    for op in ops:
        outside.update(dict.fromkeys(x for x in op.captured() if x not in written))
        written.update(op.produced())
    return list(outside)


def mark_versions(operators: Iterable[Operator]) -> None:
    """Count the uses that lead from what control operators write to what their nets write."""
    ops = [op for op in operators if isinstance(op, Control)]
    again = True
    while again:
        again = sum(op.mark() for op in reversed(ops)) > 0


def scopes_of(scope: Scope) -> list[ScopeBlob]:
    """The scopes among the blobs that stand in names."""
    return list(dict.fromkeys(blob for blob in scope.values() if isinstance(blob, ScopeBlob)))


def forget(spaces: Iterable[ScopeBlob]) -> None:
    """What the workspaces hold depends on the run now."""
    for space in spaces:
        space.restore((None, None, {}))
