# pyright: basic, reportMissingImports=false
"""Has TorchDynamo read a few steps of a loop, and copy what it has read for the others."""

from __future__ import annotations

import dis
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NoReturn

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from rnncc.frontends.torch.repeating.copies import Copier, can_copy, nodes_after
from rnncc.frontends.torch.repeating.indices import take_symbols
from rnncc.frontends.torch.repeating.items import (
    Symbols,
    has_left,
    iterator_over,
    parts,
    taken,
)
from rnncc.frontends.torch.repeating.pictures import (
    Change,
    Differs,
    Picture,
    Sight,
    frames,
    live_names,
)
from rnncc.frontends.torch.repeating.rebuilt import Rebuilder
from rnncc.frontends.torch.repeating.traps import Growing, Sprung, Withheld, extend_growing

_log = logging.getLogger(__name__)

LEAST = 12
"""Steps from which on a loop is not read step by step."""
MOST_TRIES = 3
"""Steps that may stand for no other before a loop is read as it is."""
MOST_LOOKS = 4
"""Steps that may differ from the one before; behind each other, twice as many are not compared."""
_READS_NAMES = frozenset({"locals", "vars", "dir", "eval", "exec"})


def read_few_steps(applies: Callable[[Any], bool]) -> None:
    """Take loops over numbers and tensors by a few of their steps.

    Args:
        applies: whether a translator reads for one of ours.
    """
    translators: Any = InstructionTranslatorBase
    graphs: Any = OutputGraph
    own, compile_subgraph = translators.FOR_ITER, graphs.compile_subgraph

    @wraps(own)
    def for_iter(tx: Any, step: Any) -> None:
        if not applies(tx) or tx.output.current_tracer.parent is not None:
            own(tx, step)
            return
        if not _loops_of(tx.output).arrive(tx, step):
            own(tx, step)

    translators.FOR_ITER = for_iter
    for translator in (translators, *translators.__subclasses__()):
        translator.dispatch_table[dis.opmap["FOR_ITER"]] = for_iter

    extend_growing()
    take_symbols(lambda graph: _loops_of(graph).open is not None)

    @wraps(compile_subgraph)
    def compile_whole(graph: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        loops = _loops_of(graph)
        if loops.open is not None:
            loops.open.spring()  # code has left the loop, or there is to be a break
        loops.forget()
        return compile_subgraph(graph, tx, *args, **kwargs)

    graphs.compile_subgraph = compile_whole


def _loops_of(graph: Any) -> _Loops:
    return vars(graph).setdefault("rnncc_loops", _Loops())


@dataclass
class _Loops:
    """The loops of what TorchDynamo reads as one graph.

    Attributes:
        open: the step that is read for others, if one is.
    """

    open: _Step | None = None
    _last: dict[tuple[int, int], _LoopRead] = field(default_factory=dict)

    def forget(self) -> None:
        """Keep nothing of the loops that were read."""
        self._last.clear()

    def arrive(self, tx: Any, step: Any) -> bool:
        """Do what is to be done at the head of a loop; whether a step is begun that is for others.

        Versions of PyTorch differ in what variables hold: a loop in which something is not as it is
        taken to be is read step by step.
        """
        try:
            return self._arrive(tx, step)
        except Sprung:
            raise
        except Exception:
            _log.debug("a loop is read step by step", exc_info=True)
            if self.open is not None:
                self.open.spring()
            _given_up(tx).add(_key(tx, step))
            return False

    def _arrive(self, tx: Any, step: Any) -> bool:
        if self.open is not None:
            if self.open.tx is not tx or self.open.step is not step:
                return False
            self.open.end()
            self.open = None
        if _key(tx, step) in _given_up(tx):
            return False
        iterator = tx.stack[-1].realize()
        if not has_left(iterator, LEAST):
            return False
        loop = self._last.get((id(tx), id(step)))
        if loop is None:
            loop = self._last[id(tx), id(step)] = _LoopRead(tx, step)
        if not loop.is_worth() or (change := loop.look(iterator)) is None:
            return False
        self.open = _Step(self, loop, change)
        self.open.begin()
        return True


def _given_up(tx: Any) -> set[tuple[Any, int]]:
    """The loops that are read step by step, for all attempts to read a frame."""
    log = tx.speculation_log
    if not hasattr(log, "read_whole"):
        log.read_whole = set()
    return log.read_whole


def _key(tx: Any, step: Any) -> tuple[Any, int]:
    """A loop in code, in whichever frame."""
    return tx.f_code, step.offset


def _tally(tx: Any) -> tuple[Any, ...]:
    """What a step must leave as it was, beside what code can reach."""
    effects = tx.output.side_effects
    held = effects.tensor_hooks, effects.save_for_backward, tx.output.random_calls
    printed = [len(frame.debug_locals) for frame in frames(tx) if hasattr(frame, "debug_locals")]
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled()
    return *map(len, held), *printed, *modes, len(tx.block_stack), len(tx.stack)


class _LoopRead:
    """A loop in a frame, as it has been until now."""

    def __init__(self, tx: Any, step: Any) -> None:
        self.tx, self.step, self.failed = tx, step, 0
        self.live = live_names(tx, step)
        body = tx.instructions[tx.instructions.index(step) + 1]
        self.read = live_names(tx, body)
        self._before: Picture | None = None
        self._differed = self._unseen = 0
        self._last = self.last_before = tx.output.graph._root

    def is_worth(self) -> bool:
        reads = not _READS_NAMES.isdisjoint(self.tx.f_code.co_names)
        return self.failed < MOST_TRIES and not reads

    def look(self, iterator: Any) -> Change | None:
        """What the last step has changed, if the next may stand for others.

        Args:
            iterator: what the loop goes over, which code must not reach otherwise.
        """
        if self._unseen > 0:
            self._unseen, self._before = self._unseen - 1, None
            return None
        for name in set(self.tx.symbolic_locals) - self.live:
            del self.tx.symbolic_locals[name]
        before, self._before = self._before, Picture(self.tx, self.live)
        self.last_before, self._last = self._last, self.tx.output.graph._root.prev
        if before is None:
            return None
        try:
            if any(map(self._before.has, parts(iterator))):
                raise Differs
            return Change.between(before, self._before)
        except Differs:
            self._differed += 1
            if self._differed > MOST_LOOKS:
                self._unseen = 2 ** (self._differed - MOST_LOOKS)
            return None


class _Step:
    """A step of a loop that is read for itself and for those that follow."""

    def __init__(self, loops: _Loops, loop: _LoopRead, change: Change) -> None:
        self.loops, self.loop = loops, loop
        self.tx, self.step = loop.tx, loop.step
        self._change = change
        log = self.tx.speculation_log
        self._failed = [entry._failed for entry in log.entries[: log.index]]

    def spring(self) -> NoReturn:
        """Have the loop read step by step: code has read what differs between steps."""
        self.loops.open = None
        _given_up(self.tx).add(_key(self.tx, self.step))
        log = self.tx.speculation_log
        del log.entries[len(self._failed) :]
        for entry, failed in zip(log.entries, self._failed, strict=True):
            entry._failed = failed
        raise Sprung(restart_reason="a loop is read step by step")

    def begin(self) -> None:
        """Hide what differs from step to step, and give symbols."""
        tx = self.tx
        self.entries = taken(tx, tx.stack[-1].realize())
        tx.stack[-1] = iterator_over(self.entries)
        self._last = tx.output.graph._root.prev
        self._earlier = len(tx.output.shape_env.guards)
        self._tally = _tally(tx)
        self._symbols = Symbols.of(tx, self.entries)
        for number in self._change.numbers:
            self._hide(*number)
        self._lists = self._change.grown
        for variable in self._lists:
            variable.items = Growing(variable.items, self.spring)
        self._before = Picture(tx, self.loop.live)
        tx.stack[-1].index += 1
        tx.push(self._symbols.entry)
        own = type(tx).step

        def watched() -> bool:
            try:
                return own(tx)
            except Sprung:
                raise
            except Exception:
                if self.loops.open is self:
                    self.spring()
                raise

        tx.step = watched

    def _hide(self, holder: Sight | None, at: Any, old: Sight, new: Sight) -> None:
        """Put a symbol, or what must not be read, in the place of a number that changes."""
        tx, loop = self.tx, self.loop
        if holder is None and at[0] == "local":
            where, name, is_read = tx.symbolic_locals, at[1], at[1] in loop.read
        elif holder is not None and at[0] == "attribute":
            effects = tx.output.side_effects.store_attr_mutations
            where, name, is_read = effects[holder.variable], at[1], not loop.failed
        else:
            self.spring()
        numbers = old.variable.value, new.variable.value
        if is_read and all(type(number) is int for number in numbers):
            where[name] = self._symbols.counter(tx, numbers[1], numbers[1] - numbers[0])
        else:
            where[name] = Withheld(where[name].unwrap(), self.spring)

    def end(self) -> None:
        """Put copies of what was read in its place, for all steps that are alike."""
        tx = self.tx
        del tx.step
        after = Picture(tx, self.loop.live)
        nodes = nodes_after(tx.output.graph, self._last)
        appended = [after.of(entry) for held in self._lists for entry in held.items.own()]
        can_make = all(map(self._before.can_make, appended)) and _tally(tx) == self._tally
        own = set(nodes)
        if not can_make or not all(can_copy(node, own) for node in nodes):
            self.spring()
        try:
            change = Change.between(self._before, after, self._symbols.counters)
            for held in self._lists:
                for last in held.items.read:
                    ends = [*held.items.before, *held.items.own()][-last]
                    change.compare_last(self._before.of(held.items.before[-last]), after.of(ends))
            self._check(nodes, change)
            length = len(self._symbols.steps)
        except Differs:
            change, length = Change(), 1
        length = self._symbols.decided(tx, self._earlier, change.counted, length)
        if length == 0:
            self.spring()
        if length == 1:
            self.loop.failed += 1
        try:
            self._copy(nodes, after, change, length)
        except Differs:
            self.spring()
        tx.stack[-1] = iterator_over(self.entries[length:])
        self._forget(nodes)

    def _forget(self, nodes: Sequence[Node]) -> None:
        """Take away what was read, which has been copied for its own step, too."""
        gone, effects = set(nodes), self.tx.output.side_effects
        for key, variable in list(effects.id_to_variable.items()):
            if type(variable) is TensorVariable and variable.proxy.node in gone:
                if variable in effects.store_attr_mutations:
                    self.spring()
                del effects.id_to_variable[key]
        if any(value.node in gone for value in Picture(self.tx, self.loop.live).values()):
            self.spring()
        for node in reversed(nodes):
            self.tx.output.graph.erase_node(node)

    def _copy(self, nodes: Sequence[Node], after: Picture, change: Change, length: int) -> None:
        """Copy what was read so many times; what code can reach then has the last one's values."""
        rebuilder = Rebuilder(self.tx, self._before, after, self._lists)
        copier = Copier(self.tx, nodes)
        grown = {variable: list(variable.items.before) for variable in self._lists}
        carried: dict[Node, Any] = {old: old for old in change.nodes}
        for number, step in enumerate(self._symbols.steps[:length], 1):
            values = copier.copied(carried | step)
            rebuilder.begin(values, number == length)
            for variable, items in grown.items():
                items += [rebuilder.rebuilt(after.of(entry)) for entry in variable.items.own()]
            carried = {old: values.get(new, new) for old, new in change.nodes.items()}
        for variable, items in grown.items():
            variable.items = items
        rebuilder.put()
        for name in set(self.tx.symbolic_locals) - self.loop.live:
            del self.tx.symbolic_locals[name]

    def _check(self, nodes: Sequence[Node], change: Change) -> None:
        """Check that a step takes from the one before only what code can reach."""
        own = set(nodes)
        before = set(nodes_after(self.tx.output.graph, self.loop.last_before)) - own
        for node in nodes:
            for source in node.all_input_nodes:
                if source in before and source not in change.nodes:
                    raise Differs
