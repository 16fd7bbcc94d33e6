// The core of an audio plug-in: one channel through a net, in blocks of any size.
#ifndef AMP_HPP
#define AMP_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "amp.h"
#include "rnncc.hpp"

RNNCC_NET(amp);

class Amp {
  public:
    static constexpr std::size_t block = 256;

    // Takes all memory. Not in the audio thread.
    rnncc::status open() noexcept { return net_.open(block); }

    // Silence, and a net that has heard nothing. In any thread, but not during process().
    void reset() noexcept { net_.reset(); }

    // Computes any number of samples; `in` and `out` may be the same. It neither allocates nor waits.
    // What is no number comes in as silence; where the net gives something that is none, which only
    // damage to its state explains, it begins anew.
    void process(const float *in, float *out, std::size_t samples) noexcept {
        for (std::size_t at = 0; at < samples; at += block) {
            const std::size_t count = std::min(block, samples - at);
            std::transform(in + at, in + at + count, x_, [](float x) { return finite(x) ? x : 0.0f; });
            if (!pass(count)) {
                net_.reset();
                std::fill_n(y_, count, 0.0f);
            }
            std::copy_n(y_, count, out + at);
        }
    }

  private:
    bool pass(std::size_t count) noexcept {
        const auto steps = static_cast<std::int64_t>(count);
        const rnncc::status done =
            net_.process(steps, rnncc::bind(&amp_inputs::x, {x_, count}),
                         rnncc::bind(&amp_outputs::y, {y_, count}));
        return done && std::all_of(y_, y_ + count, finite);
    }

    // As plug-ins are compiled with -ffast-math, which takes std::isfinite for true.
    static bool finite(float x) noexcept {
        std::uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        return (bits & 0x7f800000u) != 0x7f800000u;
    }

    rnncc::stream<amp_net> net_;
    float x_[block], y_[block];
};

#endif
