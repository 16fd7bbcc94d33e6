/* Streams: what is asked for waits in one queue until someone waits for its stream, so that a caller
 * who does not wait, or frees too early, is noticed. Streams wait for the default one, and it for
 * them, unless they were made not to. A capture keeps what is asked for as a graph. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { LAUNCH, FILL, COPY };
enum { MAX_PARAMS = 512 };
#define LEGACY ((void *)1)

struct Stream {
    Stream *next;
    int blocking, capture; /* 2: a capture that something spoilt */
    struct Op *captured, **captured_end;
};

typedef struct Op {
    struct Op *next;
    const void *stream;
    int kind, chosen, blocks, threads, width;
    Function *function;
    int64_t shared;
    void *params[MAX_PARAMS];
    char *to, *from;
    size_t bytes; /* of a copy; of a fill: elements */
    unsigned value;
    int owned; /* `from` is the queue's own copy */
} Op;

static Stream *streams;
static Op *queue, **end = &queue;

static Stream *of(const void *stream) {
    for (Stream *s = streams; s; s = s->next)
        if (s == stream) return s;
    return NULL;
}

static const void *named(const void *stream) { return stream == LEGACY ? NULL : stream; }
int stream_known(const void *stream) { return !named(stream) || of(stream); }
static int blocking(const void *stream) { return !stream || (of(stream) && of(stream)->blocking); }

int capturing(void) {
    for (Stream *s = streams; s; s = s->next)
        if (s->capture) {
            s->capture = 2; /* who asks does what a capture forbids */
            return 1;
        }
    return 0;
}

static void drop(Op *op) {
    if (op->owned) free(op->from);
    free(op);
}

static void fill(const Op *op) {
    for (size_t i = 0; i < op->bytes; i++) memcpy(op->to + i * op->width, &op->value, op->width);
}

static int perform(const Op *op) {
    if (op->kind == LAUNCH)
        return launch(op->function, op->blocks, op->threads, op->shared, op->params);
    if (op->kind == FILL) {
        if (!memory_holds(op->to, op->bytes * op->width, NULL)) return ILLEGAL_ADDRESS;
        fill(op);
    } else {
        memmove(op->to, op->from, op->bytes);
    }
    return OK;
}

static int run_chosen(void) {
    int code = OK;
    for (Op **at = &queue; *at;) {
        Op *op = *at;
        if (!op->chosen && code == OK) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (code == OK) code = perform(op);
        drop(op);
    }
    for (end = &queue; *end;) end = &(*end)->next;
    return code;
}

int run_all(void) {
    for (Op *op = queue; op; op = op->next) op->chosen = 1;
    return run_chosen();
}

/* What is behind one that is chosen chooses nothing; so passes go on until nothing changes. */
int run_for(const void *stream) {
    stream = named(stream);
    for (Op *op = queue; op; op = op->next)
        op->chosen = op->stream == stream || (!stream && blocking(op->stream));
    for (int changed = 1; changed;) {
        changed = 0;
        for (Op *op = queue; op; op = op->next)
            for (Op *later = op->next; later && !op->chosen; later = later->next) {
                int same = op->stream == later->stream;
                int tied = (!op->stream || !later->stream) && blocking(op->stream) && blocking(later->stream);
                if (later->chosen && (same || tied)) op->chosen = changed = 1;
            }
    }
    return run_chosen();
}

static int enqueue(Op *op, const void *stream) {
    op->stream = named(stream);
    Stream *s = of(op->stream);
    if (s && s->capture) {
        int kept = s->capture == 1 && !op->owned;
        if (!kept) {
            s->capture = 2;
            drop(op);
            return CAPTURE_UNSUPPORTED;
        }
        *s->captured_end = op;
        s->captured_end = &op->next;
        return OK;
    }
    *end = op;
    end = &op->next;
    return OK;
}

static Op *new_op(int kind) {
    Op *op = calloc(1, sizeof *op);
    op->kind = kind;
    return op;
}

API int cuLaunchCooperativeKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                  unsigned bz, unsigned shared, void *stream, void **params) {
    ENTER_WITH_CONTEXT(cuLaunchCooperativeKernel);
    if (!f || !stream_known(stream)) LEAVE(INVALID_HANDLE);
    if (!params) LEAVE(INVALID_VALUE);
    if (gx < 1 || gy != 1 || gz != 1 || bx < 1 || bx > 1024 || by != 1 || bz != 1) LEAVE(INVALID_VALUE);
    if ((int)shared > f->shared_limit || f->params > MAX_PARAMS) LEAVE(INVALID_VALUE);
    int64_t fit = 228 * 1024 / (shared + 1024), most = 2048 / bx;
    int64_t resident = fit < most ? fit : most;
    if (resident > settings.occupancy) resident = settings.occupancy;
    if (gx > resident * settings.sms) LEAVE(TOO_LARGE);
    Op *op = new_op(LAUNCH);
    op->function = f;
    op->blocks = (int)gx;
    op->threads = (int)bx;
    op->shared = shared;
    for (int i = 0; i < f->params; i++) memcpy(op->params + i, params[i], 8);
    LEAVE(enqueue(op, stream));
}

static int fill_later(char *to, unsigned value, size_t count, int width, const void *stream) {
    if ((uintptr_t)to % width || !memory_holds(to, count * width, NULL) || !stream_known(stream)) return INVALID_VALUE;
    Op *op = new_op(FILL);
    op->to = to;
    op->value = value;
    op->bytes = count;
    op->width = width;
    return enqueue(op, stream);
}

API int cuMemsetD8Async(char *to, unsigned char value, size_t n, void *stream) {
    ENTER_WITH_CONTEXT(cuMemsetD8Async);
    LEAVE(fill_later(to, value, n, 1, stream));
}
API int cuMemsetD32Async(char *to, unsigned value, size_t n, void *stream) {
    ENTER_WITH_CONTEXT(cuMemsetD32Async);
    LEAVE(fill_later(to, value, n, 4, stream));
}

/* Which ends are the device's: 1 the target, 2 the source. A pageable source is read at once. */
static int copy_later(char *to, const char *from, size_t n, int device, const void *stream) {
    if (!stream_known(stream)) return INVALID_HANDLE;
    if (n == 0) return OK;
    if ((device & 1 && !memory_holds(to, n, NULL)) || (device & 2 && !memory_holds(from, n, NULL)))
        return INVALID_VALUE;
    if (!(device & 1) && memory_holds(to, 1, NULL)) return INVALID_VALUE;
    if (!(device & 2) && memory_holds(from, 1, NULL)) return INVALID_VALUE;
    Op *op = new_op(COPY);
    op->to = to;
    op->from = (char *)(uintptr_t)from;
    op->bytes = n;
    if (!(device & 2)) {
        op->owned = 1;
        op->from = memcpy(malloc(n), from, n);
    }
    return enqueue(op, stream);
}

API int cuMemcpyHtoDAsync_v2(char *to, const char *from, size_t n, void *stream) {
    ENTER_WITH_CONTEXT(cuMemcpyHtoDAsync_v2);
    LEAVE(copy_later(to, from, n, 1, stream));
}
API int cuMemcpyDtoHAsync_v2(char *to, const char *from, size_t n, void *stream) {
    ENTER_WITH_CONTEXT(cuMemcpyDtoHAsync_v2);
    LEAVE(copy_later(to, from, n, 2, stream));
}
API int cuMemcpyDtoDAsync_v2(char *to, const char *from, size_t n, void *stream) {
    ENTER_WITH_CONTEXT(cuMemcpyDtoDAsync_v2);
    LEAVE(copy_later(to, from, n, 3, stream));
}

static int copy_now(char *to, const char *from, size_t n, int device) {
    if (capturing()) return CAPTURE_UNSUPPORTED;
    int code = copy_later(to, from, n, device, NULL);
    return code == OK ? run_for(NULL) : code;
}
API int cuMemcpyHtoD_v2(char *to, const char *from, size_t n) {
    ENTER_WITH_CONTEXT(cuMemcpyHtoD_v2);
    LEAVE(copy_now(to, from, n, 1));
}
API int cuMemcpyDtoH_v2(char *to, const char *from, size_t n) {
    ENTER_WITH_CONTEXT(cuMemcpyDtoH_v2);
    LEAVE(copy_now(to, from, n, 2));
}

API int cuStreamCreate(Stream **out, unsigned flags) {
    ENTER_WITH_CONTEXT(cuStreamCreate);
    if (flags > 1) LEAVE(INVALID_VALUE);
    Stream *s = calloc(1, sizeof *s);
    s->next = streams;
    s->blocking = !flags;
    *out = streams = s;
    LEAVE(OK);
}

API int cuStreamSynchronize(void *stream) {
    ENTER_WITH_CONTEXT(cuStreamSynchronize);
    if (!stream_known(stream)) LEAVE(INVALID_HANDLE);
    if (capturing()) LEAVE(CAPTURE_UNSUPPORTED);
    LEAVE(run_for(stream));
}

API int cuStreamQuery(void *stream) {
    ENTER_WITH_CONTEXT(cuStreamQuery);
    if (!stream_known(stream)) LEAVE(INVALID_HANDLE);
    for (Op *op = queue; op; op = op->next)
        if (op->stream == named(stream)) LEAVE(NOT_READY);
    LEAVE(OK);
}

static void remove_stream(Stream *s) {
    for (Stream **at = &streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            free(s);
            return;
        }
}

API int cuStreamDestroy_v2(Stream *s) {
    ENTER_WITH_CONTEXT(cuStreamDestroy_v2);
    if (!of(s)) LEAVE(INVALID_HANDLE);
    int code = run_for(s);
    remove_stream(s);
    LEAVE(code);
}

API int cuStreamBeginCapture_v2(Stream *s, int mode) {
    ENTER_WITH_CONTEXT(cuStreamBeginCapture_v2);
    (void)mode;
    if (!of(s) || s->capture) LEAVE(of(s) ? INVALID_VALUE : INVALID_HANDLE);
    s->capture = 1;
    s->captured = NULL;
    s->captured_end = &s->captured;
    LEAVE(OK);
}

typedef struct Graph {
    Op *ops;
} Graph;

static void drop_ops(Op *op) {
    while (op) {
        Op *next = op->next;
        drop(op);
        op = next;
    }
}

API int cuStreamEndCapture(Stream *s, Graph **out) {
    ENTER_WITH_CONTEXT(cuStreamEndCapture);
    if (!of(s) || !s->capture) LEAVE(INVALID_VALUE);
    int spoilt = s->capture == 2;
    s->capture = 0;
    *out = NULL;
    if (spoilt) {
        drop_ops(s->captured);
        LEAVE(CAPTURE_UNSUPPORTED + 1);
    }
    *out = malloc(sizeof **out);
    (*out)->ops = s->captured;
    LEAVE(OK);
}

static Op *copied(const Op *op) {
    Op *first = NULL, **at = &first;
    for (; op; op = op->next, at = &(*at)->next) {
        *at = malloc(sizeof **at);
        **at = *op;
        (*at)->next = NULL;
    }
    return first;
}

API int cuGraphInstantiateWithFlags(Graph **out, const Graph *graph, unsigned long long flags) {
    ENTER_WITH_CONTEXT(cuGraphInstantiateWithFlags);
    (void)flags;
    *out = malloc(sizeof **out);
    (*out)->ops = copied(graph->ops);
    LEAVE(OK);
}

API int cuGraphLaunch(const Graph *graph, void *stream) {
    ENTER_WITH_CONTEXT(cuGraphLaunch);
    if (!stream_known(stream)) LEAVE(INVALID_HANDLE);
    for (Op *op = copied(graph->ops), *next; op; op = next) {
        next = op->next;
        op->next = NULL;
        int code = enqueue(op, stream);
        if (code != OK) LEAVE(code);
    }
    LEAVE(OK);
}

static int destroy(Graph *graph) {
    if (!graph) return INVALID_HANDLE;
    drop_ops(graph->ops);
    free(graph);
    return OK;
}
API int cuGraphDestroy(Graph *graph) {
    ENTER_WITH_CONTEXT(cuGraphDestroy);
    LEAVE(destroy(graph));
}
API int cuGraphExecDestroy(Graph *graph) {
    ENTER_WITH_CONTEXT(cuGraphExecDestroy);
    LEAVE(destroy(graph));
}

void streams_reset(void) {
    drop_ops(queue);
    queue = NULL;
    end = &queue;
}
