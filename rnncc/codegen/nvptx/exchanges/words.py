"""Words of device memory that carry their own arrival mark: no other wait orders them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from llvmlite import ir

from rnncc.codegen.llvm.text_builder import vector_of
from rnncc.codegen.llvm.values import FLOAT, I32, I64, Value, declared
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.primitives import UNWRITTEN

HasCome = Callable[[Sequence[Value]], Value]
"""Whether all of some words have come."""


class Words:
    """Waiting for them, at multiples of 16 bytes."""

    def __init__(self, emit: GpuEmit) -> None:
        self.emit, self.b = emit, emit.b

    def marked(self, places: Sequence[Value], mark: Value) -> list[Value]:
        """The lower halves of pairs of words, once the upper ones of all are the mark."""
        b = self.b

        def has_come(words: Sequence[Value]) -> Value:
            marks = (b.trunc(b.lshr(word, I64(32)), I32) for word in words)
            return reduce(b.and_, (b.icmp_unsigned("==", m, mark) for m in marks))

        return [b.trunc(word, I32) for word in self._pairs(places, has_come)]

    def written(self, places: Sequence[Value], first: int) -> list[Value]:
        """Pairs of words, once none of them is `UNWRITTEN`.

        Args:
            first: so many pairs are waited for before the others are looked at, which have come by
                then, mostly.
        """
        b = self.b

        def has_come(words: Sequence[Value]) -> Value:
            return reduce(b.and_, (b.icmp_unsigned("!=", word, UNWRITTEN) for word in words))

        return self._pairs(places[:first], has_come) + self._pairs(places[first:], has_come)

    def floats(self, place: Value) -> Value:
        """Four of them as they are now, perhaps not written yet."""
        return self._joined(self.emit.gpu.four_words(place))

    def written_floats(
        self, known: Sequence[Value], look: Callable[[], Sequence[Value]], awaits: Value
    ) -> list[Value]:
        """Fours of floats, once all of them have been written.

        Args:
            known, look: what `floats` gave of each place, and what it gives now; anything else,
                such as zeros, where a place is of no interest.
            awaits: whether to wait.
        """
        b = self.b
        most = declared(self.emit.module, "llvm.umax.i32", I32, [I32, I32])

        def has_come(words: Sequence[Value]) -> Value:
            # An instruction a word; flags would take some more.
            largest = reduce(lambda x, y: b.call(most, [x, y]), words)
            return b.or_(b.not_(awaits), b.icmp_unsigned("!=", largest, I32(-1)))

        def parted(fours: Sequence[Value]) -> list[Value]:
            words = [b.bitcast(four, ir.VectorType(I32, 4)) for four in fours]
            return [b.extract_element(four, I64(i)) for four in words for i in range(4)]

        words = self._awaited(parted(known), has_come, lambda _: parted(look()))
        return [self._joined(words[i : i + 4]) for i in range(0, len(words), 4)]

    def _joined(self, words: Sequence[Value]) -> Value:
        return self.b.bitcast(vector_of(self.b, words), ir.VectorType(FLOAT, 4))

    def _pairs(self, places: Sequence[Value], has_come: HasCome) -> list[Value]:
        """Those that have not come are looked at again together, so that their reads overlap."""
        if not places:
            return []
        gpu = self.emit.gpu

        def looked_again(place: Value, pair: Sequence[Value]) -> list[Value]:
            late = self.b.not_(has_come(pair))
            return self.emit.either(late, lambda: gpu.two_words(place), list(pair))

        def again(words: Sequence[Value]) -> list[Value]:
            pairs = [words[i : i + 2] for i in range(0, len(words), 2)]
            looked = [looked_again(place, pair) for place, pair in zip(places, pairs, strict=True)]
            return [word for pair in looked for word in pair]

        words = [word for place in places for word in gpu.two_words(place)]
        return self._awaited(words, has_come, again)

    def _awaited(
        self,
        words: Sequence[Value],
        has_come: HasCome,
        again: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Words as they are once all have come; `again` looks at them."""
        b, before = self.b, self.b.block
        look, late, done = (b.append_basic_block(n) for n in ("look", "late", "done"))
        b.branch(look)
        b.position_at_end(look)
        count, phis = b.phi(I32), [b.phi(word.type) for word in words]
        count.add_incoming(I32(1), before)
        for phi, word in zip(phis, words, strict=True):
            phi.add_incoming(word, before)
        b.cbranch(has_come(phis), done, late)
        b.position_at_end(late)
        self.emit.gpu.pause(count, self.emit.give_up)
        now = again(phis)
        count.add_incoming(b.add(count, I32(1)), b.block)
        for phi, word in zip(phis, now, strict=True):
            phi.add_incoming(word, b.block)
        b.branch(look)
        b.position_at_end(done)
        return list[Value](phis)
