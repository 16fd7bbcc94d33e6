"""Sums of products over k, all in registers: some rows times some vectors of packed weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import cast

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.packed_words import Width
from rnncc.codegen.cpu.gemm.runs import SumsRun, narrow_runs
from rnncc.codegen.cpu.gemm.terms import Terms
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.platforms import LINE
from rnncc.records import record

ZERO = I64(0)
LOOPS = 2
"""Over a panel's k that fetch the next one's weights, each half of a word at a time."""
UNROLLED = 4
"""Words of a run that are written one by one."""
Add = Callable[[Sequence[Pointer], Value, Value, list[Value]], list[Value]]
"""Writes what adds a word's terms to sums."""
Fetch = Callable[[Pointer, Value, Pointer, Sequence[Value], int], object]
"""Writes what fetches weights, given a panel, the number of one of its words, where a tile's part
of that begins, the vectors that it reads from there on, and how many rows they multiply."""
Load = Callable[[], list[Value]]
"""Writes what reads a word of a row or of weights."""


@record
class Turn:
    """A loop over a panel's k: its number, and how many those are."""

    number: Value
    count: Value


class Sums:
    """Loops over k.

    Args:
        panel: units of a whole panel.
        farther: whether weights are not near the core.
    """

    def __init__(self, emit: CpuEmit, terms: Terms, panel: int, farther: bool) -> None:
        self.emit, self.terms, self.panel, self.farther = emit, terms, panel, farther
        self.lanes = emit.target.lanes

    @property
    def run(self) -> int:
        """Words that lie side by side, along k's last axis; 0 where they are not known."""
        return self.terms.words // prod(size for size, _ in self.terms.outer)

    @property
    def are_written_out(self) -> bool:
        """Whether runs are so short that there is no loop over their words."""
        return bool(self.terms.outer) and self.run <= UNROLLED

    def unit(self, width: Width, place: int) -> Value:
        """The first unit of a vector, over a panel's slots; place: slot · vectors + vector."""
        b, (slot, vector) = self.emit.b, divmod(place, width.vectors)
        return b.add(b.mul(I64(slot), width.units), I64(vector * self.lanes))

    def units(self, width: Width, slots: int) -> list[Value]:
        """The first units of all vectors of one slot each."""
        return [self.unit(width, place) for place in range(slots * width.vectors)]

    def runs(self, width: Width, slots: int, most: int) -> list[SumsRun]:
        """All sums of a row, by so many vectors at a time at most."""
        if isinstance(width.units, ir.Constant):
            narrow = narrow_runs(slots, cast(int, width.units.constant), self.lanes, most)
            if narrow:
                return narrow
        units = self.units(width, slots)
        return [SumsRun(units[i : i + most]) for i in range(0, len(units), most)]

    def of(
        self,
        rows: Sequence[Pointer],
        panels: Sequence[Value],
        width: Width,
        offsets: Sequence[Value],
        fetch: Fetch | None = None,
        start: Value = ZERO,
    ) -> list[list[list[Value]]]:
        """sums[row][panel][offset] over all k.

        Args:
            panels: their numbers, all of one width.
            offsets: the first units of vectors, over a panel's slots.
            fetch: what is fetched with each word.
            start: a unit from which the offsets count.
        """
        terms = self.terms
        rights = [terms.panel(p, self.panel) for p in panels]
        starts = [terms.column(right, start, width) for right in rights]
        count = len(starts) * len(offsets)

        def add(
            rows: Sequence[Pointer], word: Value, place: Value, carried: list[Value]
        ) -> list[Value]:
            """A word's terms; `place`: of the word in the run of rows."""
            words = [terms.word(start, word, width) for start in starts]
            if fetch is not None:
                fetch(rights[0], word, words[0], offsets, len(rows))

            def weights_of(word: Pointer, offset: Value) -> list[Value]:
                return terms.right(terms.column(word, offset, width))

            wide = [partial(terms.left, row, place) for row in rows]
            weights = [partial(weights_of, *column) for column in product(words, offsets)]
            sums = list(carried)
            for r, c, left, weight in _pairs(wide, weights):
                n = r * count + c
                sums[n] = terms.add(sums[n], left, weight)
            return sums

        none = [none for row in rows for none in [terms.start(row)] * count]
        # LLVM takes all loops for equally long, and would spill sums here to keep what the epilogue
        # needs once a tile; given its length, it does not (GRU H = 64, B = 1: 1.11 times
        # as fast).
        flat, n = self._over_words(rows, add, none), len(offsets)
        by_panel = [flat[i : i + n] for i in range(0, len(flat), n)]
        return [by_panel[i : i + len(rights)] for i in range(0, len(by_panel), len(rights))]

    def _over_words(self, rows: Sequence[Pointer], add: Add, sums: list[Value]) -> list[Value]:
        """All words in order; those of k's last axis lie in runs, from one place for each of the
        other axes' indices on."""
        emit, b, terms = self.emit, self.emit.b, self.terms
        outer, run = list(terms.outer), self.run

        def words(rows: Sequence[Pointer], first: Value, carried: list[Value]) -> list[Value]:
            def iteration(i: Value, carried: list[Value]) -> list[Value]:
                return add(rows, b.add(first, i), i, carried)

            if self.are_written_out:
                for i in range(run):
                    carried = iteration(I64(i), carried)
                return carried
            return emit.loop(I64(run) if outer else terms.count, iteration, carried, often=run)

        def along(
            axis: int, rows: Sequence[Pointer], first: Value, carried: list[Value]
        ) -> list[Value]:
            if axis == len(outer):
                return words(rows, first, carried)
            size, step = outer[axis]
            inside = I64(run * prod(size for size, _ in outer[axis + 1 :]))

            def iteration(i: Value, carried: list[Value]) -> list[Value]:
                here = [emit.at(row, b.mul(i, step)) for row in rows]
                return along(axis + 1, here, b.add(first, b.mul(i, inside)), carried)

            return emit.loop(I64(size), iteration, carried, often=size)

        return along(0, rows, I64(0), sums)

    def fetching(self, turn: Turn, width: Width) -> Fetch:
        """What a loop over k fetches: some of the next panel's weights, or where it pays those of
        its own that are read soon, and of the next panel's those that are not near the core."""
        emit, terms, target = self.emit, self.terms, self.emit.target
        if not target.ahead:
            lines = self._lines_of_next(turn, width)
            return lambda panel, word, part, offsets, rows: [
                emit.fetch(terms.word(panel, word, width), line, 2) for line in lines
            ]
        place = self._share_of_next(turn, width) if self.farther else None
        # Whole words: a loop that takes half of a panel's vectors fetches its own.
        of_word = terms.stripe * terms.group * terms.item
        ahead = max(1, target.ahead // of_word) * of_word

        def fetch(
            panel: Pointer, word: Value, part: Pointer, offsets: Sequence[Value], rows: int
        ) -> None:
            vectors = len(offsets)
            for offset in offsets[:: self._in_line(width)]:
                emit.fetch(terms.column(part, offset, width), I64(ahead), 1)
            # As many loads as multiply-adds, fetches among them, would be what takes the time.
            if place is not None and rows * vectors > rows + 2 * vectors + 1:
                emit.fetch(panel, place(word), 2)

        return fetch

    def _in_line(self, width: Width) -> int:
        """Vectors of a word that a line holds side by side; one at least."""
        terms = self.terms
        fitting = max(1, LINE // (self.lanes * terms.group * terms.item))
        return fitting if terms.stripes(width) == 1 else min(fitting, terms.stripe // self.lanes)

    def _share_of_next(self, turn: Turn, width: Width) -> Callable[[Value], Value]:
        """Of the number of a word, bytes from the panel to a line of the loop's share of the next
        one, in the order of memory: a line of each word, and another one in the next loop, gained
        nothing. In a loop that is alone it is its own first line, which is near."""
        emit, b, terms = self.emit, self.emit.b, self.terms
        size, of_word = terms.size(width.units), b.mul(width.units, I64(terms.bytes))
        share, step = (emit.quotient(number, turn.count) for number in (size, of_word))
        first = b.add(b.mul(emit.step, size), b.mul(turn.number, share))
        alone = self._is_alone(turn)
        first, step = (b.select(alone, I64(0), number) for number in (first, step))
        return lambda word: b.add(first, b.mul(word, step))

    def _lines_of_next(self, turn: Turn, width: Width) -> list[Value]:
        """Bytes from a word of weights to lines of the next panel's word, a share in each of the
        first loops, of whole stripes where there are several; to lines of its own, which are near,
        in those that follow."""
        b, terms = self.emit.b, self.terms
        stripes = terms.stripes(width)
        lines = -(-terms.bytes * self.panel // (stripes * LINE))
        of_stripe = b.mul(terms.count, b.mul(width.stripe, I64(terms.group * terms.item)))
        parts, step, inside = (stripes, of_stripe, lines) if stripes > 1 else (lines, I64(LINE), 1)
        share = -(-parts // LOOPS)
        number = b.select(self._is_alone(turn), I64(LOOPS), turn.number)
        first = b.mul(number, b.mul(I64(share), step))
        next_panel = b.add(first, b.mul(self.emit.step, terms.size(width.units)))
        first = b.select(b.icmp_signed("<", number, I64(LOOPS)), next_panel, I64(0))
        starts = [b.add(first, b.mul(I64(n), step)) for n in range(share)]
        return [b.add(start, I64(n * LINE)) for start in starts for n in range(inside)]

    def _is_alone(self, turn: Turn) -> Value:
        """Whether a panel is read once, in the order of memory: the machine itself fetches that
        (LSTM 512, AVX-512, B = 3: 0.96 of the time that fetching the next one took)."""
        return self.emit.b.icmp_signed("==", turn.count, I64(1))


def _pairs(
    rows: Sequence[Load], columns: Sequence[Load]
) -> Iterator[tuple[int, int, list[Value], list[Value]]]:
    """Each row with each column, loaded once: registers hold those of which there are fewer."""
    # The loop over the fewer is the inner one, on values that stay loaded; the others take one
    # register each in turn.
    if len(rows) > len(columns):
        for c, r, column, row in _pairs(columns, rows):
            yield r, c, row, column
        return
    loaded = [load() for load in rows]
    for c, load in enumerate(columns):
        column = load()
        for r, row in enumerate(loaded):
            yield r, c, row, column
