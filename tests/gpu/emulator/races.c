/* Two accesses of a word, one of them a write, by threads that no wait orders: a race.
 *
 * Each word of device and shared memory has a shadow: who wrote it last, and who has read it since.
 * Time is the number of waits: a wait of a block gives the block a new time, a wait of the grid gives
 * all blocks one that is later than any before. So an access is ordered before this one if it is of
 * a time before the grid's last wait, or of this block and of an earlier time, or of this thread.
 * What several threads have done at one time is kept as done by MANY: exact, as none of them differs
 * from the others in what orders it. Words that are accessed in parts have a shadow for each byte. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

enum { READ, WRITE, ATOMIC, ATOMIC_READ };
enum { MANY = 0xFFFF, NOBODY = 0xFFFE };

typedef struct {
    uint32_t time;
    uint16_t block, thread;
    int32_t site;
} Seen;
typedef struct {
    Seen writer, reader;
    uint32_t atomic, split; /* the writer's time if it was atomic; the launch that split this word */
} Shadow;

static const char *base;
static size_t size;
static Shadow *words, *bytes_;
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
    return then->block == now->block && (then->time < now->time || then->thread == now->thread);
}

/* One more access of a kind that does not race with those that were seen. */
static void merge(Seen *seen, const Here *now, int32_t site) {
    int fresh = seen->time < now->before || (seen->block == now->block && seen->time < now->time);
    if (fresh) {
        *seen = (Seen){now->time, now->block, now->thread, site};
    } else if (seen->block != now->block) {
        seen->block = seen->thread = MANY;
    } else if (seen->thread != now->thread) {
        seen->thread = MANY;
    }
}

static const char *who(const Seen *seen, char *text) {
    const char *names[] = {"block ", ", thread "};
    const int numbers[] = {seen->block, seen->thread};
    text[0] = 0;
    for (int i = 0; i < 2; i++) {
        strcat(text, names[i]);
        if (numbers[i] == MANY) {
            strcat(text, "(several)");
            continue;
        }
        char digits[8], *d = digits + 7;
        int n = numbers[i];
        for (*d = 0; d == digits + 7 || n; n /= 10) *--d = (char)('0' + n % 10);
        strcat(text, d);
    }
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
        if (w->block == NOBODY)
            report("block %d, thread %d %s bytes that are nobody's, %p, at: %s", now->block, now->thread, DOES[kind],
                   (const void *)p, site_text(now->module, site));
        else
            tell(p, w, atomic ? "changed (atomic)" : "wrote", DOES[kind], site, now);
        if (w->block == NOBODY) return;
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
        s->writer = (Seen){now->time, now->block, now->thread, site};
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
    while (n > 0) {
        int first = (int)((uintptr_t)p & 3), count = n < 4 - first ? n : 4 - first;
        watch_word(p - first, first, count, kind, site, now);
        p += count;
        n -= count;
    }
}

/* Bytes that nobody may touch; a whole word is the word's shadow, a part of one its bytes'. */
void races_forbid(const char *from, const char *to, int forbidden) {
    Shadow mark = {{forbidden ? UINT32_MAX : 0, NOBODY, 0, 0}, {0, 0, 0, 0}, 0, 0};
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
