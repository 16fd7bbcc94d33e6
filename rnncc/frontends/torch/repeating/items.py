# pyright: basic, reportMissingImports=false
"""What a loop goes over, and the symbols that stand for the numbers in it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import sympy
from torch._dynamo.exc import (
    ObservedIndexError,
    ObservedUserStopIteration,
    handle_observed_exception,
)
from torch._dynamo.polyfills import builtins as polyfills
from torch._dynamo.source import ConstantSource
from torch._dynamo.variables.base import ValueMutationNew
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.functions import LocalGeneratorObjectVariable
from torch._dynamo.variables.iter import ZipVariable
from torch._dynamo.variables.lists import ListIteratorVariable, RangeIteratorVariable, TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import DimDynamic
from torch.utils._sympy.value_ranges import ValueRanges

from rnncc.frontends.torch.repeating.pictures import Differs, plain

_numbers = count()
_ENUMERATE = inspect.unwrap(polyfills.enumerate).__code__


def number_of(step: int) -> int:
    """A step's number, in a graph where it stands for others."""
    return step


def parts(iterator: Any) -> Iterator[Any]:
    """An iterator, and those that it takes its entries from.

    Raises:
        Differs: its entries cannot be taken before code asks for them.
    """
    yield iterator
    kind = type(iterator)
    if kind is ZipVariable:
        for part in _zipped(iterator):
            yield from parts(part.unwrap())
    elif kind is LocalGeneratorObjectVariable and _is_begun(iterator):
        yield from parts(iterator.inline_tracer.stack[-1].unwrap())
    elif kind is not RangeIteratorVariable and not issubclass(kind, ListIteratorVariable):
        raise Differs


def _zipped(iterator: Any) -> list[Any]:
    """What `zip` goes over; PyTorch 2.11 has a list."""
    return iterator.iterables if hasattr(iterator, "iterables") else iterator.iterable.items


def _is_begun(generator: Any) -> bool:
    """Whether a generator is `enumerate`, behind its first entry: there is what it goes over."""
    return generator.code is _ENUMERATE and bool(generator.inline_tracer.stack)


def has_left(iterator: Any, steps: int) -> bool:
    """Whether so many entries are left in an iterator, to be taken before code asks for them."""
    try:
        return all(_left(part) >= steps for part in parts(iterator))
    except Differs:
        return False


def _left(part: Any) -> float:
    """How many entries a part of an iterator has; no bound of those that go over others."""
    kind = type(part)
    if kind is RangeIteratorVariable:
        return part.len
    return len(part.items) - part.index if issubclass(kind, ListIteratorVariable) else math.inf


def taken(tx: Any, iterator: Any) -> list[Any]:
    """All entries that are left in an iterator, which has none after that."""
    entries = list[Any]()
    while True:
        try:
            entries.append(iterator.next_variable(tx))
        except StopIteration:
            return entries
        except (ObservedUserStopIteration, ObservedIndexError):
            handle_observed_exception(tx)
            return entries


def iterator_over(entries: Sequence[Any]) -> Any:
    """An iterator, TorchDynamo's."""
    return ListIteratorVariable(list(entries), mutation_type=ValueMutationNew())


@dataclass
class Symbols:
    """The symbols of one step, and what the steps from it on have in their places.

    Attributes:
        entry: what the step is given.
        steps: what each step has, the first that of the step itself: numbers and nodes by the
            nodes that stand for them.
        symbols: the nodes of numbers, with their symbols.
        counters: the nodes of numbers that code counts.
    """

    entry: Any
    steps: list[dict[Node, Any]]
    symbols: dict[Node, sympy.Symbol] = field(default_factory=dict)
    counters: set[Node] = field(default_factory=set)

    @staticmethod
    def of(tx: Any, entries: Sequence[Any]) -> Symbols:
        """Those of the first entry; entries of other kinds end the steps that it stands for."""
        leaves = [list(_leaves(entry)) for entry in entries]
        alike = [_kinds(entry) for entry in entries]
        length = next((i for i, kind in enumerate(alike) if kind != alike[0]), len(entries))
        own = Symbols(entries[0], [{} for _ in range(length)])
        stand_ins = list[Any]()
        for place, leaf in enumerate(leaves[0]):
            others = [row[place] for row in leaves[:length]]
            if type(leaf) is TensorVariable:
                for step, other in zip(own.steps, others, strict=True):
                    step[leaf.proxy.node] = other.proxy.node
            elif _is_number(leaf):
                leaf = own.number(tx, [other.value for other in others])
            stand_ins.append(leaf)
        own.entry = _rebuilt(entries[0], iter(stand_ins))
        return own

    def number(self, tx: Any, values: Sequence[int]) -> Any:
        """A variable that stands for a number in each step."""
        env = tx.output.shape_env
        source = ConstantSource(f"rnncc_step_{next(_numbers)}")
        number = env.create_unspecified_symint_and_symbol(values[0], source, DimDynamic.DYNAMIC)
        symbol = number.node.expr
        env.var_to_range[symbol] = ValueRanges(min(values), max(values))
        proxy = tx.output.create_proxy("call_function", number_of, (values[0],), {})
        self.symbols[proxy.node] = symbol
        for step, value in zip(self.steps, values, strict=True):
            step[proxy.node] = value
        return SymNodeVariable.create(tx, proxy, sym_num=number)

    def counter(self, tx: Any, value: int, difference: int) -> Any:
        """A variable that stands for a number to which each step adds as much."""
        values = [value + difference * number for number in range(len(self.steps))]
        variable = self.number(tx, values)
        self.counters.add(variable.proxy.node)
        return variable

    def decided(self, tx: Any, earlier: int, counted: Mapping[Node, sympy.Expr], most: int) -> int:
        """For how many steps decisions on symbols are those of the first, and forget the symbols.

        Args:
            earlier: how many guards there were before it.
            counted: what numbers that code counts are after it.
            most: where to stop.
        """
        env, symbols = tx.output.shape_env, set(self.symbols.values())
        new = env.guards[earlier:]
        env.guards[earlier:] = [guard for guard in new if not symbols & guard.expr.free_symbols]
        guards = [guard.expr for guard in new if symbols & guard.expr.free_symbols]
        for symbol, instead in list(env.replacements.items()):
            if symbol in symbols:
                del env.replacements[symbol]
            elif symbols & instead.free_symbols:
                return 0
        for at, step in enumerate(self.steps[:most]):
            numbers: Any = {
                symbol: sympy.Integer(step[node]) for node, symbol in self.symbols.items()
            }
            for guard in guards:
                if not env.evaluate_expr(guard.subs(numbers)):
                    return at
            for node, expected in counted.items() if at + 1 < most else ():
                if sympy.sympify(expected).subs(numbers) != self.steps[at + 1][node]:
                    return at + 1
        return most


def _is_number(leaf: Any) -> bool:
    return type(leaf) is ConstantVariable and type(leaf.value) is int


def _leaves(entry: Any) -> Iterator[Any]:
    entry = entry.unwrap()
    if type(entry) is TupleVariable:
        for part in entry.items:
            yield from _leaves(part)
    else:
        yield entry


def _kinds(entry: Any) -> Any:
    """What entries must have in common that one symbol stands for."""
    entry = entry.unwrap()
    if type(entry) is TupleVariable:
        return tuple(map(_kinds, entry.items))
    if type(entry) is TensorVariable:
        fake = entry.proxy.node.meta["example_value"]
        sizes = [plain(size) for size in (*fake.shape, *fake.stride())]
        return sizes, fake.dtype, fake.device, entry.requires_grad
    if _is_number(entry):
        return int
    if type(entry) is ConstantVariable:
        return type(entry.value), entry.value
    return id(entry)


def _rebuilt(entry: Any, leaves: Iterator[Any]) -> Any:
    entry = entry.unwrap()
    if type(entry) is TupleVariable:
        return entry.clone(items=[_rebuilt(part, leaves) for part in entry.items])
    return next(leaves)
