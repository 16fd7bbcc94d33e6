"""What a library keeps of a sequence between two calls: the layout of the state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rnncc.ir.dims import Dim, product
from rnncc.ir.size_proofs import at_most
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.largest import Largest
from rnncc.kern.program import KernelProgram, Port
from rnncc.platforms import LINE
from rnncc.records import record


@record
class StateSlot:
    """One value of the state.

    Attributes:
        port: an output of the program `init`, an input of the program `step`.
        offset: in bytes, from the start of the state.
        bytes: what it takes, in whole lines.
        next: the output of `step` that replaces it; None for what stays the same.
        initial_input: the input of the model that it starts as, element for element, if it is one.
        in_place: whether `step` writes `next` over it, not into the workspace first.
    """

    port: Port
    offset: Dim
    bytes: Dim
    next: str | None = None
    initial_input: str | None = None
    in_place: bool = False


@record
class Streaming:
    """How the programs `init` and `step` work together.

    Attributes:
        inputs, outputs: of the model; those of a step have an axis of time, the other inputs
            belong to `init`.
        slots: the state; what steps replace comes first, and of that what is not in place.
        defaults: inputs of `init` -> what stands for one that a user leaves out, or None.
        line: state, workspace and each value of the state start at a multiple of so many bytes.
    """

    inputs: list[Port]
    outputs: list[Port]
    slots: list[StateSlot]
    defaults: dict[str, int | None]
    line: int = LINE

    @staticmethod
    def of(
        init: KernelProgram,
        step: KernelProgram,
        state: Sequence[tuple[str, str | None, str | None]],
        defaults: dict[str, int | None],
        order: Sequence[str],
        in_place: Collection[str],
        line: int = LINE,
    ) -> Streaming:
        """Lay the state out.

        Args:
            state: name, next and initial input of each value.
            order: the names of the model's inputs; unknown parameters follow.
            in_place: names of values that steps replace where they lie.
            line: of the target.
        """
        ports = {port.name: port for port in (*step.inputs, *init.inputs)}
        slots, end = list[StateSlot](), Dim.of(0)
        # What goes by way of the workspace lies first, side by side as it does there: one copy
        # moves it all.
        for name, following, initial in sorted(
            state, key=lambda s: (s[1] is None, s[0] in in_place)
        ):
            port = ports.pop(name)
            size = _lines(port, line)
            slots.append(StateSlot(port, end, size, following, initial, name in in_place))
            end = end + slots[-1].bytes
        inputs = [ports.pop(name) for name in order] + list(ports.values())
        nexts = {slot.next for slot in slots}
        outputs = [port for port in step.outputs if port.name not in nexts]
        return Streaming(inputs, outputs, slots, defaults, line)

    @property
    def bytes(self) -> Dim:
        """What the state takes; at least a line where there is one."""
        return self._total(self.slots)

    @property
    def copied(self) -> list[StateSlot]:
        """What steps replace by way of the workspace."""
        return [slot for slot in self.slots if slot.next is not None and not slot.in_place]

    @property
    def allocated(self) -> list[StateSlot]:
        """What `run` needs memory for: the values that are not inputs as they are."""
        return [slot for slot in self.slots if slot.initial_input is None]

    @property
    def run_area(self) -> Dim:
        """Bytes at the start of the workspace of `run`: the values that it has memory for."""
        return self._total(self.allocated)

    @property
    def step_area(self) -> Dim:
        """Bytes at the start of the workspace of `step`: the next state, if it is not in place."""
        return self._total(self.copied)

    def workspace(self, init: KernelProgram, step: KernelProgram) -> Largest:
        """Bytes that any of the functions needs."""
        rooms = [self.run_area + size for size in (*init.workspace.formulas, Dim.of(0))]
        for size in (*step.workspace.formulas, Dim.of(0)):
            rooms += [self.run_area + size, self.step_area + size]
        return Largest(_not_below(rooms))

    def stream_workspace(self, init: KernelProgram, step: KernelProgram) -> Largest:
        """Bytes that a stream needs, which calls `state_init` and `step` alone."""
        rooms = [*init.workspace.formulas, self.step_area]
        rooms += [self.step_area + size for size in step.workspace.formulas]
        return Largest(_not_below(rooms))

    def _total(self, slots: Sequence[StateSlot]) -> Dim:
        total = sum((slot.bytes for slot in slots), Dim.of(0))
        # Of a batch of 0 it would take no bytes: memory for these may be NULL, which calls refuse.
        return total + self.line if slots and total.coefficient() == 0 else total


def _lines(port: Port, line: int) -> Dim:
    # Each term by itself, so that the sum is whole lines at all sizes.
    size = product(port.dims) * ITEM_BYTES[port.dtype]
    return Dim((monomial, -(-factor // line) * line) for monomial, factor in size.terms)


def _not_below(sizes: Iterable[Dim]) -> list[Dim]:
    """The formulas that another one is not known to reach."""
    kept: list[Dim] = []
    for size in dict.fromkeys(sizes):
        if not any(at_most(size, other) for other in kept):
            kept = [other for other in kept if not at_most(other, size)] + [size]
    return kept
