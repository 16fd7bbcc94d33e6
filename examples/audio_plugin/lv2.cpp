// The amplifier as an LV2 plug-in: the ports are those of amp.ttl.
#include <lv2/core/lv2.h>

#include <new>

#include "amp.hpp"

namespace {

struct Plugin {
    Amp amp;
    const float *in = nullptr;
    float *out = nullptr;
};

LV2_Handle instantiate(const LV2_Descriptor *, double, const char *, const LV2_Feature *const *) {
    auto *plugin = new (std::nothrow) Plugin;
    if (plugin && plugin->amp.open()) return plugin;
    delete plugin;
    return nullptr;
}

void connect_port(LV2_Handle handle, uint32_t port, void *data) {
    auto *plugin = static_cast<Plugin *>(handle);
    if (port == 0) plugin->in = static_cast<const float *>(data);
    if (port == 1) plugin->out = static_cast<float *>(data);
}

void activate(LV2_Handle handle) { static_cast<Plugin *>(handle)->amp.reset(); }

void run(LV2_Handle handle, uint32_t samples) {
    auto *plugin = static_cast<Plugin *>(handle);
    plugin->amp.process(plugin->in, plugin->out, samples);
}

void cleanup(LV2_Handle handle) { delete static_cast<Plugin *>(handle); }

const LV2_Descriptor descriptor = {
    "urn:rnncc:amp", instantiate, connect_port, activate, run, nullptr, cleanup, nullptr,
};

} // namespace

LV2_SYMBOL_EXPORT const LV2_Descriptor *lv2_descriptor(uint32_t index) {
    return index == 0 ? &descriptor : nullptr;
}
