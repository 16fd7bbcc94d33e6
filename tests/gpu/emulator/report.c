/* What was found, as text for the tests. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "emulator.h"

static char text[1 << 16];
static size_t used;
static int64_t races, reports;

void report(const char *format, ...) {
    reports++;
    if (used + 1024 > sizeof text) return;
    va_list args;
    va_start(args, format);
    int written = vsnprintf(text + used, 1000, format, args);
    va_end(args);
    used += written < 1000 ? written : 999;
    text[used++] = '\n';
    text[used] = 0;
}

const char *site_text(const Module *module, int32_t site) {
    return module && site >= 0 && site < module->site_count ? module->sites[site] : "an unnumbered place";
}

void count_race(void) { races++; }
int64_t races_counted(void) { return races; }

/* For the tests. */
API const char *emu_report(void) { return text; }
API int64_t emu_reports(void) { return reports; }
API int64_t emu_races(void) { return races; }
API void emu_forget(void) {
    used = 0;
    text[0] = 0;
    races = reports = 0;
}
