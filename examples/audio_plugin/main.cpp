// Plays a tone that decays through two amplifiers, as a host would, and says what came out.
#include <cmath>
#include <cstdio>
#include <vector>

#include "amp.hpp"

static std::vector<float> tone(std::size_t samples, double frequency) {
    std::vector<float> made(samples);
    for (std::size_t t = 0; t < samples; t++)
        made[t] = static_cast<float>(0.8 * std::exp(-1e-4 * double(t)) * std::sin(frequency * double(t)));
    return made;
}

static double loudness(const std::vector<float> &sound) {
    double sum = 0;
    for (float x : sound) sum += double(x) * x;
    return std::sqrt(sum / double(sound.size()));
}

int main() {
    constexpr std::size_t samples = 48000;
    Amp left, right;
    for (Amp *amp : {&left, &right})
        if (const rnncc::status opened = amp->open(); !opened) {
            std::fprintf(stderr, "%s\n", opened.message());
            return 1;
        }

    const std::vector<float> low = tone(samples, 0.05), high = tone(samples, 0.2);
    std::vector<float> one(samples), other(samples);
    const std::size_t sizes[] = {1, 64, 441, 512, 33}; // as hosts have them
    for (std::size_t at = 0, i = 0; at < samples; i++) {
        const std::size_t count = std::min(sizes[i % 5], samples - at);
        left.process(&low[at], &one[at], count);
        right.process(&high[at], &other[at], count);
        at += count;
    }
    std::printf("left   %.3f -> %.3f\n", loudness(low), loudness(one));
    std::printf("right  %.3f -> %.3f\n", loudness(high), loudness(other));

    std::vector<float> again = low;
    left.reset();
    left.process(again.data(), again.data(), samples); // in place, in one go
    std::printf("again  %s\n", again == one ? "the same bits" : "other bits");
}
