/* What the files of the driver's functions share. */
#ifndef DRIVER_H
#define DRIVER_H

#include "emulator.h"

/* Every function begins with ENTER and ends with LEAVE: one at a time, and settings.fail may name it. */
#define ENTER(name)                                   \
    lock();                                           \
    int result = state_of_driver(#name);              \
    if (result != OK) return unlock(result)
#define ENTER_WITH_CONTEXT(name)                                        \
    ENTER(name);                                                        \
    if (!current_context()) return unlock(INVALID_CONTEXT)
#define LEAVE(code) return unlock(code)

void lock(void);
int unlock(int code);
int state_of_driver(const char *name);
void *current_context(void);

/* stream.c */
typedef struct Stream Stream;
int stream_known(const void *);
int run_all(void);             /* what is queued anywhere */
int run_for(const void *);     /* what a wait for this stream waits for */
int capturing(void);
void streams_reset(void);
#endif
