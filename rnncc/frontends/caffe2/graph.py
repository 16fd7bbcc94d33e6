"""From NetDef to operators over SSA blobs: names are resolved, in-place writing disappears."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.operator import Blob, Operator
from rnncc.netdef import NetDef, OperatorDef

MAX_DEPTH = 8
"""How deep nets may stand inside operators of nets."""

Scope = dict[str, Blob]


@dataclass(frozen=True)
class GraphMaker:
    """Makes operators from nets, and from the nets inside operators.

    Attributes:
        operators: operator type -> class.
        refused: operator type -> why it is not supported.
        prefix: how an operator is called in messages, `op` or `step op`.
        written: names that only operators of this net may write.
    """

    operators: Mapping[str, type[Operator]]
    refused: Mapping[str, str]
    location: Location
    depth: int = 0
    protected: frozenset[str] = frozenset()

    def inside(self, location: Location, protected: frozenset[str]) -> GraphMaker:
        """The maker of a net inside an operator; `protected` blobs must not be written there."""
        if self.depth >= MAX_DEPTH:
            raise CompileError(location, f"nets stand more than {MAX_DEPTH} deep in each other")
        return GraphMaker(self.operators, self.refused, location, self.depth + 1, protected)

    def operators_of(self, net: NetDef, scope: Scope) -> list[Operator]:
        """Resolve each operator's blobs in `scope`, which ends with every blob's last version."""
        made = list[Operator]()
        shared: set[str] = set()
        for index, op in enumerate(net.op):
            location = self._locate(index, op)
            operator_type = self._type(op, location)
            inputs = [self._read(net, index, name, scope, location) for name in op.input]
            self._check_outputs(op, shared, location)
            outputs = [Blob(name) for name in op.output]
            made.append(operator_type(op, inputs, outputs, location, self))
            scope.update(zip(op.output, outputs, strict=True))
            if op.type == "Alias":
                shared.update([*op.input, *op.output])
        return made

    def _locate(self, index: int, op: OperatorDef) -> Location:
        word = "step op" if self.depth else "op"
        blob = next(iter([*op.output, *op.input]), "")
        text = f'{word} {index} ({op.type or "no type"} "{blob[:80]}")'
        node = self.location.node
        return Location(self.location.file, f"{node}: {text}" if node else text)

    def _type(self, op: OperatorDef, location: Location) -> type[Operator]:
        if op.type in self.operators:
            return self.operators[op.type]
        if op.type in self.refused:
            raise CompileError(location, "is not supported", self.refused[op.type])
        from difflib import get_close_matches

        close = get_close_matches(op.type[:40], self.operators, 3)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        hint += "known: " + ", ".join(sorted(self.operators))
        raise CompileError(location, f"operator type {op.type[:80]!r} is not known", hint)

    def _read(self, net: NetDef, index: int, name: str, scope: Scope, location: Location) -> Blob:
        if name not in scope:
            later = next((i for i in range(index, len(net.op)) if name in net.op[i].output), None)
            what = f'reads "{name[:200]}"'
            if later is None:
                raise CompileError(location, f"{what}, which is no input and no operator writes")
            when = "it writes it itself" if later == index else f"operator {later} writes it"
            raise CompileError(location, f"{what} before {when}")
        blob = scope[name]
        if blob.opaque:
            raise CompileError(location, f'reads "{name}", which holds nothing at inference')
        blob.uses += 1
        return blob

    def _check_outputs(self, op: OperatorDef, shared: set[str], location: Location) -> None:
        if len(set(op.output)) != len(op.output):
            twice = next(name for name in op.output if list(op.output).count(name) > 1)
            raise CompileError(location, f'lists the output "{twice}" twice')
        if "" in op.output:
            raise CompileError(location, "has an output without a name")
        for name in op.output:
            if name in self.protected:
                what = f'writes "{name}", which belongs to the net around it'
                raise CompileError(location, what)
            if name in shared:
                what = f'writes "{name}", which shares its memory through Alias'
                raise CompileError(location, what)
