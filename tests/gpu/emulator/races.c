/* Two accesses of a word, one of them a write, by threads that no wait orders: a race.
 *
 * Each word of device and shared memory has a shadow: who wrote it last, and who has read it since.
 * Time is the number of waits: a wait of a block gives the block a new time, a wait of several blocks
 * gives them one that is later than any before, and they know of each other up to it, and of others
 * what one of them knew. So an access is ordered before this one if it is of a time that this block
 * knows its block to have left, or of this block and of an earlier time, or of this thread. Of what
 * several threads have read the latest time is kept: blocks that waited together waited for all of
 * it. Words that are accessed in parts have a shadow for each byte. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

enum { READ, WRITE, ATOMIC, ATOMIC_READ };
enum { MANY = 0xFFFF, NOBODY = 0xFFFE };

typedef struct {
    uint64_t blocks; /* a bit for each */
    uint32_t time;
    int32_t site;
    uint16_t thread;
} Seen;
typedef struct {
    Seen writer, reader;
    uint32_t atomic, split; /* the writer's time if it was atomic; the launch that split this word */
} Shadow;

static const char *base;
static size_t size;
static Shadow *words, *bytes_;
static int64_t shared_accesses;
int32_t last_site;

static void *reserve(size_t n) {
    void *range = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? NULL : range;
}

void races_room(const char *from, size_t n) {
    base = from;
    size = n;
    words = reserve(n / 4 * sizeof(Shadow));
    bytes_ = reserve(n * sizeof(Shadow));
    if (!words || !bytes_) abort();
}

static int ordered(const Seen *then, const Here *now) {
    if (then->time < now->before) return 1;
    uint64_t own = (uint64_t)1 << now->block;
    if (then->blocks & own && then->time >= now->time && then->thread != now->thread) return 0;
    for (uint64_t others = then->blocks & ~own; others; others &= others - 1)
        if (then->time >= now->known[__builtin_ctzll(others)]) return 0;
    return 1;
}

/* One more access of a kind that does not race with those that were seen. */
static void merge(Seen *seen, const Here *now, int32_t site) {
    uint64_t own = (uint64_t)1 << now->block;
    if (ordered(seen, now)) { /* whoever is behind this is behind that too */
        *seen = (Seen){own, now->time, site, now->thread};
        return;
    }
    if (seen->blocks != own || seen->thread != now->thread) seen->thread = MANY;
    seen->blocks |= own;
    if (seen->time < now->time) seen->time = now->time;
}

static const char *who(const Seen *seen, char *text) {
    int one = !(seen->blocks & (seen->blocks - 1)), block = __builtin_ctzll(seen->blocks);
    if (!one)
        return "several blocks";
    if (seen->thread == MANY)
        snprintf(text, 64, "several threads of block %d", block);
    else
        snprintf(text, 64, "block %d, thread %d", block, seen->thread);
    return text;
}

static void tell(const char *p, const Seen *then, const char *did, const char *does, int32_t site, const Here *now) {
    static struct { int32_t one, other; } known[256];
    static int count;
    if (!races_counted()) count = 0;
    count_race();
    for (int i = 0; i < count; i++)
        if (known[i].one == then->site && known[i].other == site) return;
    if (count < 256) {
        known[count].one = then->site;
        known[count++].other = site;
    }
    char other[64];
    report("race at %p: block %d, thread %d %s it at: %s\n  no wait behind where %s %s it, at: %s", (const void *)p,
           now->block, now->thread, does, site_text(now->module, site), who(then, other), did,
           site_text(now->module, then->site));
}

static const char *const DOES[] = {"reads", "writes", "changes (atomic)", "reads (atomic)"};

static void meet(Shadow *s, const char *p, int32_t kind, int32_t site, const Here *now) {
    const Seen *w = &s->writer;
    int atomic = s->atomic == w->time && w->time;
    if (!ordered(w, now) && !(atomic && kind >= ATOMIC)) {
        if (w->thread == NOBODY)
            report("block %d, thread %d %s bytes that are nobody's, %p, at: %s", now->block, now->thread, DOES[kind],
                   (const void *)p, site_text(now->module, site));
        else
            tell(p, w, atomic ? "changed (atomic)" : "wrote", DOES[kind], site, now);
        if (w->thread == NOBODY) return;
    }
    if (kind == ATOMIC_READ) return; /* not kept: a plain write behind it would go unnoticed */
    if (kind != READ && !ordered(&s->reader, now)) tell(p, &s->reader, "read", DOES[kind], site, now);
    if (kind == READ) {
        merge(&s->reader, now, site);
        return;
    }
    if (kind == ATOMIC && atomic)
        merge(&s->writer, now, site);
    else
        s->writer = (Seen){(uint64_t)1 << now->block, now->time, site, now->thread};
    s->atomic = kind == ATOMIC ? s->writer.time : 0;
    s->reader.time = 0;
}

/* The shadows of a word's bytes, which begin as the word's. */
static Shadow *parts(Shadow *word, size_t offset) {
    Shadow *four = bytes_ + offset / 4 * 4;
    if (!word->split) {
        for (int i = 0; i < 4; i++) four[i] = *word;
        word->split = 1;
    }
    return four;
}

static void watch_word(const char *p, int first, int count, int32_t kind, int32_t site, const Here *now) {
    size_t offset = p - base;
    Shadow *word = words + offset / 4;
    if (count == 4 && !word->split) {
        meet(word, p, kind, site, now);
        return;
    }
    Shadow *four = parts(word, offset);
    for (int i = first; i < first + count; i++) meet(four + i, p + i, kind, site, now);
}

void watch(const char *p, int32_t n, int32_t kind, int32_t site) {
    const Here *now = here();
    last_site = site;
    if ((size_t)(p - base) >= size) {
        int own = p >= now->stack && p < now->stack + now->stack_bytes;
        int constant = (p >= now->module->low && p < now->module->high) || (p >= now->params && p < now->params_end);
        if (!own && !(constant && kind == READ))
            report("block %d, thread %d %s what is no device memory, %p, at: %s", now->block, now->thread, DOES[kind],
                   (const void *)p, site_text(now->module, site));
        return;
    }
    /* between the blocks' shared memory there may be device memory, where the range began anew */
    if (p >= now->shared_low && p < now->shared_high && memory_is_shared(p)) {
        shared_accesses++;
        if ((size_t)(p - now->shared) >= now->shared_bytes)
            report("block %d, thread %d %s shared memory of another block, at: %s", now->block, now->thread,
                   DOES[kind], site_text(now->module, site));
    }
    while (n > 0) {
        int first = (int)((uintptr_t)p & 3), count = n < 4 - first ? n : 4 - first;
        watch_word(p - first, first, count, kind, site, now);
        p += count;
        n -= count;
    }
}

void races_forget(const char *pages, size_t n) {
    size_t offset = pages - base;
    madvise(words + offset / 4, n / 4 * sizeof(Shadow), MADV_DONTNEED);
    madvise(bytes_ + offset, n * sizeof(Shadow), MADV_DONTNEED);
}

/* For the tests: whether code has used shared memory at all. */
API int64_t emu_shared_accesses(void) { return shared_accesses; }

/* Bytes that nobody may touch; a whole word is the word's shadow, a part of one its bytes'. */
void races_forbid(const char *from, const char *to, int forbidden) {
    Shadow mark = {.writer = {.thread = NOBODY}};
    if (forbidden) mark.writer.time = UINT32_MAX, mark.writer.blocks = UINT64_MAX;
    while (from < to) {
        size_t offset = from - base;
        if (offset % 4 == 0 && to - from >= 4) {
            words[offset / 4] = mark;
            from += 4;
        } else {
            parts(words + offset / 4, offset)[offset % 4] = mark;
            from++;
        }
    }
}
