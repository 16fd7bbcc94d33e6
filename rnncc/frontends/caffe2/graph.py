"""From NetDef to operators over SSA blobs: names are resolved, in-place writing disappears."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.control import Control
from rnncc.frontends.caffe2.forward_index import ForwardIndex
from rnncc.frontends.caffe2.operator import Operator
from rnncc.frontends.caffe2.trip_count import Loops
from rnncc.names import did_you_mean
from rnncc.netdef import NetDef, OperatorDef
from rnncc.netdef.checks import operator_text
from rnncc.records import record

MAX_DEPTH = 24
"""How deep nets may stand inside operators of nets."""

Scope = dict[str, Blob]


def _nothing(name: str) -> Blob | None:
    """A name of a net of its own holds nothing before that runs."""
    return None


@record
class Resolver:
    """Makes operators from nets, and from the nets inside operators.

    Attributes:
        operators: operator type -> class.
        refused: operator type -> why it is not supported.
        loops: what is asked of While.
        absent: a name that nothing has written yet -> what it holds before the whole net runs;
            None where it cannot hold anything.
        gradients: operator type -> the class of such an operator that is marked as a gradient.
        protected: names that operators of this net must not write.
        word: how an operator is called in messages.
        forward: in a backward step net, the operators of the step net.
        around: of a net inside, what names stand for in the net around where it runs.
    """

    operators: Mapping[str, type[Operator]]
    refused: Mapping[str, str]
    location: Location
    loops: Loops = field(default_factory=Loops)
    absent: Callable[[str], Blob | None] = _nothing
    gradients: Mapping[str, type[Operator]] = field(default_factory=dict[str, type[Operator]])
    depth: int = 0
    protected: frozenset[str] = frozenset()
    word: str = "op"
    forward: tuple[Operator, ...] = ()
    around: Mapping[str, Blob] = field(default_factory=dict[str, Blob])

    def inside(
        self,
        location: Location,
        protected: frozenset[str],
        word: str = "step op",
        forward: Sequence[Operator] = (),
        absent: Callable[[str], Blob | None] = _nothing,
    ) -> Resolver:
        """The maker of a net inside an operator; `protected` blobs must not be written there."""
        if self.depth >= MAX_DEPTH:
            raise CompileError(location, f"nets are nested more than {MAX_DEPTH} deep")
        return replace(
            self,
            location=location,
            depth=self.depth + 1,
            protected=protected,
            word=word,
            forward=tuple(forward),
            absent=absent,
        )

    def operators_of(
        self, net: NetDef, scope: Scope, unused: Collection[int] = ()
    ) -> list[Operator]:
        """Resolve each operator's blobs in `scope`, which ends with every blob's last version.

        The operators in `unused` are left out, and their outputs hold nothing.

        Those that stand in no net are marked as implied; an operator of a backward step net that
        only repeats one of the step net is that one.
        """
        operators = list[Operator]()
        earlier = ForwardIndex(self.forward)
        maker = replace(self, around=scope)
        for index, op in enumerate(net.op):
            location = self._locate(index, op)
            if index in unused:
                scope.update({name: Blob(name, opaque=True) for name in op.output})
                continue
            operator_type = self._type(op, location)
            inputs = [
                self._read(net, index, name, scope, location, operator_type) for name in op.input
            ]
            again = self._again(op, inputs, earlier)
            if again is not None:
                operators.append(again)
                scope.update(zip(op.output, again.ys, strict=True))
                continue
            self._check_outputs(op, scope, location)
            outputs = [Blob(name) for name in op.output]
            copies = dict[int, Operator]()
            if not operator_type.is_gradient and not issubclass(operator_type, Control):
                copies = self._copies(inputs, location)
            xs = [copies[i].ys[0] if i in copies else x for i, x in enumerate(inputs)]
            operator = operator_type(op, xs, outputs, location, maker)
            operator.reads = inputs
            operator.find_forward(earlier)
            operators += [*copies.values(), operator]
            if isinstance(operator, Control):
                operator.resolve(maker, scope)
            else:
                scope.update(zip(op.output, self._outputs(operator, outputs), strict=True))
                scope.update(operator.beside)
            earlier.add(operator)
        return operators

    def _again(self, op: OperatorDef, inputs: list[Blob], earlier: ForwardIndex) -> Operator | None:
        """In a backward step net, the step net's operator that this one merely repeats."""
        for old in earlier.of(op.type, inputs[0]) if inputs and self.forward else ():
            same = old.reads == inputs and old.op.output == op.output
            if same and list(old.op.arg) == list(op.arg):
                return old
        return None

    def _outputs(self, operator: Operator, outputs: list[Blob]) -> list[Blob]:
        """The blobs that an operator's outputs stand for, with what is known of them."""
        if operator.shares_memory:
            for blob in (*operator.xs, *operator.ys):
                blob.shared = True
        if len(operator.ys) == 1 and not operator.ys[0].opaque:
            operator.ys[0].known = operator.evaluate([x.known for x in operator.xs])
        return operator.ys if len(operator.ys) == len(outputs) else outputs

    def _copies(self, inputs: Sequence[Blob], location: Location) -> dict[int, Operator]:
        """A copy for each time that a blob is read again: each has a gradient of its own."""
        seen, copies = set[Blob](), dict[int, Operator]()
        for position, blob in enumerate(inputs):
            if blob in seen:
                copy = Blob(blob.name, uses=1)
                op = OperatorDef(type="Copy")
                copies[position] = self.operators["Copy"](op, [blob], [copy], location, self)
                copies[position].implied = True
            seen.add(blob)
        return copies

    def _locate(self, index: int, op: OperatorDef) -> Location:
        text = operator_text(op, f"{self.word} {index}")
        node = self.location.node
        return Location(self.location.file, f"{node}: {text}" if node else text)

    def _type(self, op: OperatorDef, location: Location) -> type[Operator]:
        if op.is_gradient_op and op.type in self.gradients:
            return self.gradients[op.type]
        if op.type in self.operators:
            return self.operators[op.type]
        if op.type in self.refused:
            raise CompileError(location, "is not supported", self.refused[op.type])
        hint = did_you_mean(op.type, self.operators, "`rnncc ops` lists those that are known")
        raise CompileError(location, f"operator type {op.type[:80]!r} is not known", hint)

    def _read(
        self,
        net: NetDef,
        index: int,
        name: str,
        scope: Scope,
        location: Location,
        reader: type[Operator],
    ) -> Blob:
        if name not in scope:
            later = next((i for i in range(index, len(net.op)) if name in net.op[i].output), None)
            what = f'reads "{name[:200]}"'
            if later is None:
                raise CompileError(location, f"{what}, which is no input and no operator writes")
            when = "it writes it itself" if later == index else f"operator {later} writes it"
            raise CompileError(location, f"{what} before {when}")
        blob = scope[name]
        if blob.opaque and not reader.is_gradient and not reader.takes_opaque:
            raise CompileError(location, f'reads "{name}", which {blob.lacks}')
        blob.uses += not issubclass(reader, Control)  # their nets count what they read
        return blob

    def _check_outputs(self, op: OperatorDef, scope: Scope, location: Location) -> None:
        if len(set(op.output)) != len(op.output):
            twice = next(name for name in op.output if list(op.output).count(name) > 1)
            raise CompileError(location, f'lists the output "{twice}" twice')
        if "" in op.output:
            raise CompileError(location, "has an output without a name")
        for name in op.output:
            if name in self.protected:
                what = f'writes "{name}", which belongs to the net around it'
                raise CompileError(location, what)
            if name in scope and scope[name].shared:
                what = f'writes "{name}", which shares its memory through Alias'
                raise CompileError(location, what)
