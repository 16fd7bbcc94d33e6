/* A few threads for the calls of any number of models, one call at a time (POSIX threads).
 *
 *     static int task(void *call, const struct rnncc_part *part) {
 *         struct call *c = call;
 *         return lstm_run_part(&c->inputs, &c->outputs, c->workspace, part, c->t, c->n);
 *     }
 *     rnncc_pool *pool = rnncc_pool_create(2);
 *     int code = rnncc_pool_run(pool, lstm_threads(t, n), task, &call);
 *     rnncc_pool_destroy(pool);
 *
 * Any number of threads may call rnncc_pool_run of one pool: one call waits for the other. A process
 * that is forked has none of its parent's threads: there, the thread that calls rnncc_pool_run of a
 * pool of its parent computes alone, to the same bits; for more threads it makes a pool of its own.
 */
#ifndef RNNCC_POOL_H
#define RNNCC_POOL_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RNNCC_PART
#define RNNCC_PART
struct rnncc_part {
    int64_t part, parts;
    int64_t *counter;
};
#endif

typedef int (*rnncc_task)(void *argument, const struct rnncc_part *part);

typedef struct rnncc_pool {
    int64_t counter[16]; /* the middle one is used, so that no other data is near */
    int threads, used, waiting, stops;
    unsigned round;
    pid_t process; /* that has the threads */
    rnncc_task task;
    void *argument;
    int *codes;
    pthread_t *handles;
    pthread_mutex_t call, lock;
    pthread_cond_t begin, end;
} rnncc_pool;

struct rnncc_worker {
    rnncc_pool *pool;
    int64_t part;
};

static inline int rnncc_pool_part(rnncc_pool *pool, int64_t part) {
    struct rnncc_part own;
    own.part = part;
    own.parts = pool->used;
    own.counter = &pool->counter[8];
    return pool->task(pool->argument, &own);
}

static inline void *rnncc_pool_work(void *argument) {
    struct rnncc_worker worker = *(struct rnncc_worker *)argument;
    rnncc_pool *pool = worker.pool;
    unsigned seen = 0;
    free(argument);
    for (;;) {
        pthread_mutex_lock(&pool->lock);
        while (pool->round == seen && !pool->stops) pthread_cond_wait(&pool->begin, &pool->lock);
        seen = pool->round;
        int stops = pool->stops, used = worker.part < pool->used;
        pthread_mutex_unlock(&pool->lock);
        if (stops) return NULL;
        if (!used) continue;
        pool->codes[worker.part] = rnncc_pool_part(pool, worker.part);
        pthread_mutex_lock(&pool->lock);
        if (--pool->waiting == 0) pthread_cond_signal(&pool->end);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Ends the threads, while no call is under way; NULL is allowed. */
static inline void rnncc_pool_destroy(rnncc_pool *pool) {
    if (!pool) return;
    if (pool->process == getpid()) { /* else there are no threads, and locks may be held by them */
        pthread_mutex_lock(&pool->lock);
        pool->stops = 1;
        pthread_cond_broadcast(&pool->begin);
        pthread_mutex_unlock(&pool->lock);
        for (int i = 1; i < pool->threads; i++) pthread_join(pool->handles[i], NULL);
        pthread_cond_destroy(&pool->end);
        pthread_cond_destroy(&pool->begin);
        pthread_mutex_destroy(&pool->lock);
        pthread_mutex_destroy(&pool->call);
    }
    free(pool->handles);
    free(pool->codes);
    free(pool);
}

/* The caller's thread is one of `threads`, which are best no more than there are cores.
 * NULL where memory or threads are lacking. */
static inline rnncc_pool *rnncc_pool_create(int threads) {
    rnncc_pool *pool = (rnncc_pool *)calloc(1, sizeof *pool);
    if (!pool) return NULL;
    if (threads < 1) threads = 1;
    pool->codes = (int *)calloc((size_t)threads, sizeof *pool->codes);
    pool->handles = (pthread_t *)calloc((size_t)threads, sizeof *pool->handles);
    pthread_mutex_init(&pool->call, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->begin, NULL);
    pthread_cond_init(&pool->end, NULL);
    pool->process = getpid();
    pool->threads = 1;
    for (int i = 1; pool->codes && pool->handles && i < threads; i++) {
        struct rnncc_worker *worker = (struct rnncc_worker *)malloc(sizeof *worker);
        if (worker) {
            worker->pool = pool;
            worker->part = i;
        }
        if (!worker || pthread_create(&pool->handles[i], NULL, rnncc_pool_work, worker)) {
            free(worker);
            break;
        }
        pool->threads++;
    }
    if (pool->threads == threads && pool->codes && pool->handles) return pool;
    rnncc_pool_destroy(pool);
    return NULL;
}

/* Calls `task` in so many threads, at most those of the pool and at least one, and waits.
 * Returns the first code that is not 0, if any. */
static inline int rnncc_pool_run(rnncc_pool *pool, int64_t threads, rnncc_task task, void *argument) {
    if (pool->process != getpid()) {
        int64_t counter = 0;
        struct rnncc_part whole;
        whole.part = 0;
        whole.parts = 1;
        whole.counter = &counter;
        return task(argument, &whole);
    }
    pthread_mutex_lock(&pool->call);
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->argument = argument;
    pool->used = threads > pool->threads ? pool->threads : threads > 1 ? (int)threads : 1;
    pool->waiting = pool->used - 1;
    pool->round++;
    if (pool->waiting) pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    pool->codes[0] = rnncc_pool_part(pool, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->waiting) pthread_cond_wait(&pool->end, &pool->lock);
    int code = 0;
    for (int i = 0; i < pool->used; i++)
        if (!code) code = pool->codes[i];
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->call);
    return code;
}

#ifdef __cplusplus
}
#endif

#endif
