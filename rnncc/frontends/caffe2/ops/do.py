"""Do: a net over blobs under other names, and the scopes that hold what it writes beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rnncc.frontends.caffe2.bindings import read_bindings
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.constants import Known
from rnncc.frontends.caffe2.control import Control, ScopeBlob
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.recurrent import needed_net
from rnncc.frontends.caffe2.shapes import Shapes

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.graph import Resolver, Scope


class CreateScope(Operator):
    """Y = a scope without workspaces, for Do operators.

    Refused: reading Y as a tensor.
    """

    inputs = (0, 0)

    def setup(self, maker: Resolver) -> None:
        self.ys[0] = ScopeBlob(self.ys[0].name, opaque=True, lacks="is a scope, not a tensor")

    def infer(self, s: Shapes) -> None:
        pass

    def build(self, e: Emitter) -> None:
        pass


class HasScope(Operator):
    """Y = whether the scope X holds a workspace, [1]; where that depends on the run, only the
    gradient of a While may read Y.

    Refused: X that no CreateScope has written.
    """

    takes_opaque = True

    def setup(self, maker: Resolver) -> None:
        (space,) = self.xs
        if not isinstance(space, ScopeBlob):
            raise self.error(f'reads "{space.name}", which is no scope')
        self.space, self.depth = space, space.depth
        if self.depth is None:
            self.ys[0].opaque = True
            self.ys[0].lacks = "depends on how many workspaces a loop has made"

    def evaluate(self, values: Sequence[Known | None]) -> Known | None:
        return None if self.depth is None else ("i1", int(self.depth > 0))

    def infer(self, s: Shapes) -> None:
        s.expect(self.ys[0], (1,), "i1")

    def build(self, e: Emitter) -> None:
        if self.depth is not None:
            e[self.ys[0]] = e.b.fill(self.depth > 0, (1,), "i1")


class Do(Control):
    """Run `net`, in which `inner_blobs` stand for inputs and outputs; nothing else around it can
    be seen. The last input and the last output are one scope; with `reuse_workspace` the net also
    sees what the last Do on that scope has written.

    Refused: a scope that no CreateScope has written; names that `inner_blobs` binds otherwise than
    the workspace that is used again.

    Attributes:
        bound: inner name -> name outside.
        entries, exits: the blobs that bound names stand for before and after.
        scope: each name inside, with the last version of its blob.
    """

    inputs = (1, ANY)
    outputs = (1, ANY)

    def setup(self, maker: Resolver) -> None:
        space = self.xs[-1]
        if self.op.input[-1] != self.op.output[-1]:
            what = f'ends its inputs with "{self.op.input[-1]}", its outputs with '
            raise self.error(f'{what}"{self.op.output[-1]}": both must be one scope')
        if not isinstance(space, ScopeBlob):
            raise self.error(f'ends its inputs with "{space.name}", which is no scope')
        self.space = space
        self.bound = read_bindings(self.op, self.location)

    def resolve(self, maker: Resolver, scope: Scope) -> None:
        space, bound = self.space, self.bound
        inner: Scope = {}
        if self.args.flag("reuse_workspace") and space.bound is not None:
            bound = self._joined(space, space.bound)
            inner.update(space.local)
        else:
            space.depth = None if space.depth is None else space.depth + 1
        inner.update({name: scope[outer] for name, outer in bound.items() if outer in scope})
        self.entries = {name: inner[name] for name in bound if name in inner}
        protected = frozenset(name for name, outer in bound.items() if outer in maker.protected)

        def absent(name: str) -> Blob | None:
            return maker.absent(bound[name]) if name in bound else None

        within = replace(maker, protected=protected, absent=absent)
        self.inside = self.operators_inside(within, needed_net(self, "net"), inner, "inner op")
        self.weigh(self.inside)
        scope.update({outer: inner[name] for name, outer in bound.items() if name in inner})
        names = [name for name in bound if name in inner]
        self.scope = inner
        self.exits = {name: inner[name] for name in names}
        space.bound = bound
        space.local = {name: blob for name, blob in inner.items() if name not in bound}
        self.ys = self.declared(maker, scope, "is written by no operator of its Do")

    def _joined(self, space: ScopeBlob, old: dict[str, str]) -> dict[str, str]:
        """The names bound in a workspace that is used again."""
        for name, outer in self.bound.items():
            other = next((n for n, o in old.items() if o == outer and n != name), None)
            what = f'binds "{name}" to "{outer}", but its workspace has'
            if other is not None:
                raise self.error(f'{what} it as "{other}"')
            if old.get(name, outer) != outer or name in space.local:
                raise self.error(f'{what} another "{name}"')
        return {**old, **self.bound}

    def produced(self) -> Sequence[Blob]:
        return [y for op in self.inside for y in op.produced()]

    def infer(self, s: Shapes) -> None:
        pass

    def build(self, e: Emitter) -> None:
        for op in self.inside:
            e.build(op)


OPERATORS: dict[str, type[Operator]] = {
    "CreateScope": CreateScope,
    "HasScope": HasScope,
    "Do": Do,
}
