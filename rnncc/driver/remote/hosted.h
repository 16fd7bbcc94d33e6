/* What `program.c` needs, on a system with C's library. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

static void leave(int status) {
    fflush(stdout);
    exit(status);
}

static void get(void *to, int64_t size) {
    if (fread(to, 1, (size_t)size, stdin) != (size_t)size) leave(4);
}

static void put(const void *from, int64_t size) {
    if (fwrite(from, 1, (size_t)size, stdout) != (size_t)size) leave(5);
}

static void *room(int64_t size) {
    unsigned char *at = malloc((size_t)size + 64);
    return at == NULL ? NULL : at + (64 - (uintptr_t)at % 64);
}

static void begin(void) {
#ifdef _WIN32
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
#endif
}
