"""The exported functions of a library as data (docs/abi.md), which targets' writers interpret.

In: a library. Out: for each function its parameters, what it checks, the programs that it calls,
and where each pointer that it hands on comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rnncc_runtime.signatures import PACKED, symbols_of

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.kern.entry_steps import (
    Call,
    CheckSizes,
    Copy,
    Default,
    EntryPoint,
    Field,
    Keep,
    Locate,
    NotNull,
    Place,
    Seal,
    Source,
    Step,
    Stored,
)
from rnncc.kern.exports import exported
from rnncc.kern.library import Library
from rnncc.kern.program import Port
from rnncc.kern.signatures import PART, PART_SUFFIX
from rnncc.kern.streaming import StateSlot
from rnncc.kern.training import Training


def entry_points(library: Library) -> list[EntryPoint]:
    """The functions that compute, as `exported` tells."""
    if library.training is not None:
        write: dict[str, Callable[[Library], list[Step]]] = {
            "forward": _forward,
            "backward": _backward,
            "init_parameters": _init_parameters,
            "pack_parameters": _pack_parameters,
        }
    elif library.streaming is not None:
        write = {"run": _run_stream, "step": _step, "state_init": _state_init}
    else:
        write = {"run": _run}
    return [
        EntryPoint(name, parameters, symbols, tuple(_with_part(steps, parameters)))
        for name, parameters in exported(library).items()
        for symbols in [tuple(symbols_of(library.symbols, name))]
        for steps in [write[name.removesuffix(PART_SUFFIX)](library)]
    ]


def _with_part(steps: Sequence[Step], parameters: Sequence[str]) -> list[Step]:
    """`part` must be there where a function takes it: the check stands where others do."""
    if PART not in parameters:
        return list(steps)
    at = next(i for i, step in enumerate(steps) if isinstance(step, NotNull))
    return [*steps[:at], NotNull(PART), *steps[at:]]


def _not_null(*blocks: str) -> list[Step]:
    return [NotNull(block) for block in blocks]


# A net of one program


def _run(library: Library) -> list[Step]:
    program = library.programs["run"]
    inputs = tuple(Field("inputs", i) for i in range(len(program.inputs)))
    outputs = tuple(Field("outputs", i) for i in range(len(program.outputs)))
    call = Call("run", inputs, outputs, Place("workspace"))
    return [CheckSizes(library.whole_bounds), *_not_null("inputs", "outputs"), call]


# Streams


class _Stream:
    """What the three functions of a stream have in common."""

    def __init__(self, library: Library) -> None:
        assert library.streaming is not None
        self.library, self.streaming = library, library.streaming
        self.init, self.often = library.programs["init"], library.programs["step"]
        self._inputs = {port.name: i for i, port in enumerate(self.streaming.inputs)}
        self._outputs = {port.name: i for i, port in enumerate(self.streaming.outputs)}

    def input(self, name: str) -> Field:
        """An input of the model."""
        return Field("inputs", self._inputs[name])

    def begin(self, firsts: dict[str, Place], workspace: Place) -> Call:
        """The state before the first step, its values at some places."""
        inputs = tuple(self.input(port.name) for port in self.init.inputs)
        outputs = tuple(firsts.get(port.name) for port in self.init.outputs)
        return Call("init", inputs, outputs, workspace)

    def steps(
        self, sources: dict[str, Source], nexts: dict[str | None, Place], workspace: Place
    ) -> Call:
        """Steps that read the state at some places and leave the next one at others, or nowhere."""
        inputs = tuple(
            sources[port.name] if port.name in sources else self.input(port.name)
            for port in self.often.inputs
        )
        outputs = tuple(
            Field("outputs", self._outputs[port.name])
            if port.name in self._outputs
            else nexts.get(port.name)
            for port in self.often.outputs
        )
        return Call("step", inputs, outputs, workspace)

    def initial_source(self, slot: StateSlot) -> Source:
        """A state that starts as an input: where the caller has it, else the library's default."""
        assert slot.initial_input is not None
        field = self.input(slot.initial_input)
        inputs = [buffer for buffer in self.init.buffers if buffer.role.data == "input"]
        default = next(b.default for b in inputs if b.label.data == slot.initial_input)
        if default is None:
            return field
        param = next(buffer for buffer in self.init.buffers if buffer.label == default)
        assert param.offset is not None
        return Default(field, Place("weights", get_dim(param.offset)))


def _places(slots: Sequence[StateSlot], block: str) -> dict[str, Place]:
    """Where values lie in a block that holds these slots alone, one after another."""
    end, places = Dim.of(0), dict[str, Place]()
    for slot in slots:
        places[slot.port.name] = Place(block, end)
        end = end + slot.bytes
    return places


def _run_stream(library: Library) -> list[Step]:
    """The whole sequence: a state that lives in the workspace, then all steps."""
    stream = _Stream(library)
    streaming = stream.streaming
    state, rest = _places(streaming.allocated, "workspace"), Place("workspace", streaming.run_area)
    initial = {
        s.port.name: stream.initial_source(s)
        for s in streaming.slots
        if s.initial_input is not None
    }
    needed = ["inputs", "outputs", *(["workspace"] if state else [])]
    return [
        CheckSizes(library.whole_bounds),
        *_not_null(*needed),
        Locate((*state.values(), rest)),
        *([stream.begin(state, rest)] if state else []),
        # Nobody goes on from here: the next states are absent outputs.
        stream.steps({**state, **initial}, {}, rest),
    ]


def _step(library: Library) -> list[Step]:
    """A few steps: the next state takes the old one's place, by way of the workspace or not."""
    stream = _Stream(library)
    streaming = stream.streaming
    needed = [*(["state"] if streaming.slots else []), *(["workspace"] if streaming.copied else [])]
    state = _places(streaming.slots, "state")
    copies = _places(streaming.copied, "workspace")
    rest = Place("workspace", streaming.step_area)
    nexts = {s.next: state[s.port.name] for s in streaming.slots if s.in_place}
    nexts |= {s.next: copies[s.port.name] for s in streaming.copied}
    size = sum((slot.bytes for slot in streaming.copied), Dim.of(0))
    # Last of all, so that a call which fails leaves the state as it was.
    copy = Copy(Place("workspace"), Place("state"), size, lines=True)
    return [
        CheckSizes(library.piece_bounds),
        *_not_null("inputs", "outputs", *needed),
        Locate((*state.values(), *copies.values(), rest)),
        stream.steps({**state}, nexts, rest),
        *([copy] if streaming.copied else []),
    ]


def _state_init(library: Library) -> list[Step]:
    """The state before the first step."""
    stream = _Stream(library)
    state = _places(stream.streaming.slots, "state")
    return [
        CheckSizes(library.untimed_bounds),
        *_not_null("inputs", *(["state"] if state else [])),
        Locate(tuple(state.values())),
        stream.begin(state, Place("workspace")),
    ]


# Training


def _forward(library: Library) -> list[Step]:
    """Leaves the places of the outputs that backward reads on the tape."""
    training = _training(library)
    numbers = {port.name: i for i, port in enumerate(training.outputs)}
    keep = [
        Keep(Field("outputs", numbers[name]), Place("tape", training.pointer_to(name)))
        for name in training.kept
    ]
    return [
        CheckSizes(library.whole_bounds),
        *_not_null("inputs", *_parameters(library), "outputs", "tape"),
        Seal("open"),
        *keep,
        _training_call(library, "forward"),
        Seal("close"),
    ]


def _backward(library: Library) -> list[Step]:
    return [
        CheckSizes(library.whole_bounds),
        *_not_null("inputs", *_parameters(library), "output_grads", "grads", "tape"),
        Seal("check"),
        _training_call(library, "backward"),
        Seal("use_up"),
    ]


def _init_parameters(library: Library) -> list[Step]:
    """Copies what the parameters start with; none may be NULL."""
    steps = _not_null("parameters")
    for number, parameter in enumerate(library.initial):
        field, weight = Field("parameters", number), Place("weights", Dim.of(parameter.offset))
        steps.append(Copy(weight, field, Dim.of(parameter.array.nbytes)))
    return steps


def _pack_parameters(library: Library) -> list[Step]:
    """Computes what the passes read of the parameters alone."""
    return [*_not_null(*_parameters(library)), _training_call(library, "pack")]


def _parameters(library: Library) -> list[str]:
    """The blocks that parameters are read from."""
    return ["parameters", *([PACKED] if library.prepacks else [])]


def _training_call(library: Library, name: str) -> Call:
    training, program = _training(library), library.programs[name]
    slots = {slot.port.name: Place("tape", slot.offset) for slot in training.slots}
    slots |= {slot.port.name: Place(PACKED, slot.offset) for slot in training.packed or ()}
    read = _fields("inputs", training.inputs) | _fields("parameters", training.parameters)
    output_grads = _fields("output_grads", training.output_grads)
    outputs, grads = _fields("outputs", training.outputs), _fields("grads", training.grads)

    def source(port: Port, own: Mapping[str, Field], of_gradients: Mapping[str, Field]) -> Source:
        match port.kind:
            case "saved" | "packed":
                return slots[port.name]
            case "kept":
                return Stored(Place("tape", training.pointer_to(port.of)))
            case "grad":
                return of_gradients[port.of]
            case _:
                return own[port.name]

    return Call(
        name,
        tuple(source(port, read, output_grads) for port in program.inputs),
        tuple(source(port, outputs, grads) for port in program.outputs),
        Place("workspace"),
        stops=False,
    )


def _fields(struct: str, ports: Sequence[Port]) -> dict[str, Field]:
    """The fields of a struct by their names."""
    return {port.name: Field(struct, i) for i, port in enumerate(ports)}


def _training(library: Library) -> Training:
    assert library.training is not None
    return library.training
