/* rnncc.hpp over a net that has states and lengths: what it computes, refuses and allocates.
 * Prints what is not as it should be. */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "lstm.h"
#include "rnncc.hpp"
#include "sized.h"

RNNCC_NET(lstm);
RNNCC_NET(sized);

static int allocations, faults;
static bool full; // whether memory is used up

extern "C" void *__real_malloc(std::size_t);
extern "C" void *__real_aligned_alloc(std::size_t, std::size_t);
extern "C" void *__wrap_malloc(std::size_t bytes) { return allocations++, __real_malloc(bytes); }
extern "C" void *__wrap_aligned_alloc(std::size_t align, std::size_t bytes) {
    return allocations++, __real_aligned_alloc(align, bytes);
}
void *operator new(std::size_t bytes) { return std::malloc(bytes); }
void *operator new(std::size_t bytes, std::align_val_t align, const std::nothrow_t &) noexcept {
    const auto unit = static_cast<std::size_t>(align);
    return full ? nullptr : std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void operator delete(void *data) noexcept { std::free(data); }
void operator delete(void *data, std::size_t) noexcept { std::free(data); }
void operator delete(void *data, std::align_val_t) noexcept { std::free(data); }

static void expect(bool right, const char *what) {
    if (right) return;
    std::printf("%s\n", what);
    faults++;
}

using Floats = std::vector<float>;
constexpr std::size_t characters = 64, units = 128, length = 7;

static Floats drawn(std::size_t size) {
    Floats made(size);
    for (std::size_t i = 0; i < size; i++) made[i] = std::sin(static_cast<float>(3 * i + 1));
    return made;
}

static Floats whole(const Floats &x, const Floats &h, std::size_t batch) {
    rnncc::model<lstm_net> model;
    const std::vector<std::int32_t> lengths(batch, length);
    const Floats c(batch * units);
    Floats y(x.size());
    const auto n = static_cast<std::int64_t>(batch);
    const rnncc::status done = model.run(
        {length, n}, rnncc::bind(&lstm_inputs::x, x), rnncc::bind(&lstm_inputs::seq_lengths, lengths),
        rnncc::bind(&lstm_inputs::h0, h), rnncc::bind(&lstm_inputs::c0, c),
        rnncc::bind(&lstm_outputs::probabilities, y));
    expect(bool(done), done.message());
    return y;
}

using Voice = rnncc::stream<lstm_net>;

/* In pieces of some steps. */
static Floats pieces(Voice &voice, const Floats &x, std::size_t row) {
    Floats y(x.size());
    std::size_t t = 0;
    for (std::size_t steps : {2, 0, 1, 4}) {
        const rnncc::span<const float> in(x.data() + t * row, steps * row);
        const rnncc::span<float> out(y.data() + t * row, steps * row);
        const auto done = voice.process(static_cast<std::int64_t>(steps), rnncc::bind(&lstm_inputs::x, in),
                                        rnncc::bind(&lstm_outputs::probabilities, out));
        expect(bool(done), done.message());
        t += steps;
    }
    return y;
}

static void same_bits() {
    for (std::size_t batch : {std::size_t(1), std::size_t(3)}) {
        const Floats x = drawn(length * batch * characters), h = drawn(batch * units);
        const Floats zeros(batch * units), want = whole(x, zeros, batch), other = whole(x, h, batch);
        Voice voice, started;
        const Voice::sizes sizes = {static_cast<std::int64_t>(batch)};
        expect(bool(voice.open(4, sizes)), "open");
        expect(bool(started.open(4, sizes, rnncc::bind(&lstm_inputs::h0, h))), "open with a state");
        expect(pieces(voice, x, batch * characters) == want, "pieces");
        expect(pieces(started, x, batch * characters) == other, "pieces behind a state");
        expect(want != other, "states count");
        voice.reset();
        started.reset();
        expect(pieces(voice, x, batch * characters) == want, "after reset");
        expect(pieces(started, x, batch * characters) == other, "after reset to a state");
    }
}

static void no_allocation() {
    const Floats x = drawn(length * characters);
    Floats y(x.size());
    Voice voice;
    expect(bool(voice.open(length)), "open");
    const int before = allocations;
    for (int i = 0; i < 100; i++) {
        const auto done = voice.process(length, rnncc::bind(&lstm_inputs::x, x),
                                        rnncc::bind(&lstm_outputs::probabilities, y));
        expect(bool(done), done.message());
        voice.reset();
    }
    expect(allocations == before, "process and reset allocate");
    expect(before > 0, "nothing is counted");
}

static void refusals() {
    Floats x(characters), h(units), two(2 * characters);
    const auto in = rnncc::bind(&lstm_inputs::x, x);
    Voice voice;
    expect(voice.process(1, in).code() == rnncc::not_open, "not open");
    expect(voice.open(-1).code() == RNNCC_BAD_SIZE, "a negative size");
    expect(!voice.is_open() && voice.process(1, in).code() == rnncc::not_open, "open after a refusal");
    expect(voice.open(2, {1}, rnncc::bind(&lstm_inputs::h0, x)).code() == rnncc::wrong_array, "h0");
    expect(voice.open(2, {1}, in).code() == rnncc::wrong_array, "x begins no sequence");
    expect(bool(voice.open(2)), "open");
    expect(voice.process(3, in).code() == rnncc::too_many_steps, "too many steps");
    expect(voice.process(2, in).code() == rnncc::wrong_array, "half of the steps");
    expect(voice.process(1).code() == RNNCC_NULL_POINTER, "no input");
    expect(voice.process(-1).code() != RNNCC_OK, "negative steps");
    expect(voice.process(1, in, rnncc::bind(&lstm_inputs::h0, h)).code() == rnncc::wrong_array, "h0 is read");
    expect(voice.process(1, in, rnncc::bind(&lstm_outputs::probabilities, h)).code() == rnncc::wrong_array,
           "an output's length");
    full = true;
    Voice none;
    expect(none.open(2).code() == rnncc::no_memory, "no memory");
    full = false;
    rnncc::model<lstm_net> model;
    expect(model.run({-1, 1}).code() == RNNCC_BAD_SIZE, "a size");
    expect(model.run({1, 1}, rnncc::bind(&lstm_inputs::x, two)).code() == rnncc::wrong_array, "an array");
}

static void moves() {
    const Floats x = drawn(length * characters);
    Voice first, second;
    expect(bool(first.open(4)), "open");
    const Floats want = pieces(first, x, characters);
    const std::vector<unsigned char> saved(first.state().begin(), first.state().end());
    const Floats later = pieces(first, x, characters);
    expect(bool(first.restore(saved)), "restore");
    second = std::move(first);
    expect(pieces(second, x, characters) == later, "a moved stream");
    expect(first.process(0).code() == rnncc::not_open, "what is left of a moved stream"); // NOLINT
    expect(first.restore(saved).code() == rnncc::not_open, "restore without memory");
    expect(second.restore({saved.data(), 1}).code() == rnncc::wrong_array, "another state");
    expect(want != later, "a state");
}

/* Outputs whose sizes are the formulas of `sized` in test_wrapper.py. */
static std::size_t over(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
static std::size_t excess(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

static void formulas() {
    rnncc::model<sized_net> model;
    for (std::size_t t = 0; t < 9; t++)
        for (std::size_t n = 0; n < 4; n++) {
            const Floats x(t * n);
            Floats a(over(t, 2)), b(over(t + 1, 2) + 1), c(over(2 * t * excess(t, 5), 3));
            Floats d(n - excess(n, t)), e(over(over(n, 3) + over(t, 2), 4) * n), f(e.size() + 1);
            const rnncc::model<sized_net>::sizes sizes = {static_cast<std::int64_t>(t), static_cast<std::int64_t>(n)};
            const auto in = rnncc::bind(&sized_inputs::x, x);
            const auto done = model.run(
                sizes, in, rnncc::bind(&sized_outputs::a, a), rnncc::bind(&sized_outputs::b, b),
                rnncc::bind(&sized_outputs::c, c), rnncc::bind(&sized_outputs::d, d),
                rnncc::bind(&sized_outputs::e, e));
            expect(bool(done), done.message());
            expect(b[0] == 1, "an output");
            const auto wrong = model.run(sizes, in, rnncc::bind(&sized_outputs::e, f));
            expect(wrong.code() == rnncc::wrong_array, "a formula");
        }
}

#if defined __cpp_exceptions
static void exceptions() {
    try {
        Voice voice(-1);
        expect(false, "no exception");
    } catch (const rnncc::error &error) {
        expect(error.code == RNNCC_BAD_SIZE, error.what());
    }
    Voice voice(1);
    try {
        voice.process(2).or_throw();
        expect(false, "no exception");
    } catch (const rnncc::error &error) {
        expect(error.code == rnncc::too_many_steps, error.what());
    }
}
#else
static void exceptions() {}
#endif

int main() {
    same_bits();
    no_allocation();
    refusals();
    moves();
    formulas();
    exceptions();
    return faults != 0;
}
