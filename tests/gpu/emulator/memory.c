/* Device memory: one reserved range, so that an address says at once whether it is the device's.
 *
 * An allocation ends at a page that is not mapped, is poisoned with 0xFF, and never lies where
 * something was freed before the range has been used up. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

enum { PAGE = 4096, ALIGNMENT = 256, GUARD = 0xA5, POISON = 0xFF };

typedef struct Piece {
    struct Piece *next;
    char *pages, *start; /* pages: mapped; start .. start + bytes: the user's */
    size_t mapped, bytes;
    int shared;
} Piece;

static char *base, *next_place;
static size_t size;
static Piece *pieces;

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

int memory_ready(void) {
    if (base) return 1;
    size = (size_t)settings.megabytes << 20;
    void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return 0;
    base = next_place = range;
    races_room(base, size);
    return 1;
}

/* The piece that reaches into the range, if there is one. */
static Piece *meeting(const char *from, const char *to) {
    for (Piece *p = pieces; p; p = p->next)
        if (p->pages < to && from < p->pages + p->mapped) return p;
    return NULL;
}

/* Room with an unmapped page before and behind it. */
static char *place(size_t mapped) {
    char *at = next_place;
    for (int wrapped = 0; wrapped < 2;) {
        if (at + mapped + 2 * PAGE > base + size) {
            at = base;
            wrapped++;
            continue;
        }
        Piece *in_the_way = meeting(at, at + mapped + 2 * PAGE);
        if (!in_the_way) {
            next_place = at + mapped + PAGE;
            return at + PAGE;
        }
        at = in_the_way->pages + in_the_way->mapped;
    }
    return NULL;
}

static void forbid_edges(const Piece *p, int forbidden) {
    races_forbid(p->pages, p->start, forbidden);
    races_forbid(p->start + p->bytes, p->pages + p->mapped, forbidden);
}

void *memory_new(size_t bytes, int shared) {
    if (!memory_ready()) return NULL;
    size_t mapped = up(up(bytes, ALIGNMENT), PAGE);
    Piece *p = malloc(sizeof *p);
    char *pages = place(mapped);
    if (!p || !pages || mprotect(pages, mapped, PROT_READ | PROT_WRITE)) {
        free(p);
        return NULL;
    }
    *p = (Piece){pieces, pages, pages + mapped - up(bytes, ALIGNMENT), mapped, bytes, shared};
    pieces = p;
    memset(pages, GUARD, mapped);
    memset(p->start, POISON, bytes);
    forbid_edges(p, 1);
    return p->start;
}

static int untouched(const char *from, const char *to) {
    for (; from < to; from++)
        if (*(const unsigned char *)from != GUARD) return 0;
    return 1;
}

static int guarded(const Piece *p, const char *when) {
    if (untouched(p->pages, p->start) && untouched(p->start + p->bytes, p->pages + p->mapped)) return 1;
    report("bytes beside %zu bytes of %s memory were overwritten, noticed %s", p->bytes,
           p->shared ? "shared" : "device", when);
    return 0;
}

int memory_guards(const char *when) {
    int whole = 1;
    for (Piece *p = pieces; p; p = p->next) whole &= guarded(p, when);
    return whole;
}

int memory_delete(void *start) {
    for (Piece **at = &pieces; *at; at = &(*at)->next) {
        Piece *p = *at;
        if (p->start != start) continue;
        guarded(p, "as it was freed");
        forbid_edges(p, 0);
        races_forget(p->pages, p->mapped);
        madvise(p->pages, p->mapped, MADV_DONTNEED);
        mprotect(p->pages, p->mapped, PROT_NONE);
        *at = p->next;
        free(p);
        return 1;
    }
    return 0;
}

int memory_holds(const void *address, size_t bytes, size_t *left) {
    const char *from = address;
    for (Piece *p = pieces; p; p = p->next)
        if (p->start <= from && from + bytes <= p->start + p->bytes && !p->shared) {
            if (left) *left = p->start + p->bytes - from;
            return 1;
        }
    return 0;
}

int memory_is_shared(const char *address) {
    for (Piece *p = pieces; p; p = p->next)
        if (p->pages <= address && address < p->pages + p->mapped) return p->shared;
    return 0;
}

int memory_live(void) {
    int count = 0;
    for (Piece *p = pieces; p; p = p->next) count += !p->shared;
    return count;
}
