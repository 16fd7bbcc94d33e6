/* A pedal: the main loop of a Cortex-M4 that takes a sample, computes a step and gives a sample out.
 * It is written for the board that qemu emulates, an AN386: there, samples come from a formula, go
 * out over the UART as bits, and the loop ends after `SAMPLES`. Nothing is allocated. */
#include <stdint.h>

#include "amp.h"
#include "rnncc.h"

enum { SAMPLES = 48, TICKS = 1000 };

/* The caller's memory, for one step of one sequence. */
static _Alignas(8) unsigned char workspace[amp_STREAM_WORKSPACE_BYTES(1, 1)];
static _Alignas(8) unsigned char state[amp_STATE_BYTES(1)];

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYSTICK_CONTROL REGISTER(0xE000E010)
#define SYSTICK_RELOAD REGISTER(0xE000E014)
#define FPU_ACCESS REGISTER(0xE000ED88)
#define UART_DATA REGISTER(0x40004000)
#define UART_FULL (REGISTER(0x40004004) & 1)
#define UART_CONTROL REGISTER(0x40004008)
#define UART_DIVIDER REGISTER(0x40004010)

static volatile uint32_t ticks;

static void on_tick(void) { ticks++; }

static void put(char letter) {
    while (UART_FULL) {
    }
    UART_DATA = (uint32_t)letter;
}

static void print(const char *text) {
    while (*text) put(*text++);
    put('\n');
}

/* Where a board has its converter. */
static void put_sample(float y) {
    union {
        float number;
        uint32_t bits;
    } sample = {y};
    char text[9] = {0};
    for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[sample.bits >> (28 - 4 * i) & 15];
    print(text);
}

/* A triangle that fades. */
static float get_sample(int t) {
    const int phase = t % 16;
    return (float)(phase < 8 ? phase - 4 : 12 - phase) / (float)(8 + t);
}

/* Not inline: its registers are there once `start` has enabled them. */
__attribute__((noinline)) static int play(void) {
    static const float silence[12];
    const int32_t endless = INT32_MAX;
    const amp_inputs start = {.seq_lengths = &endless, .h0 = silence, .c0 = silence};
    int code = amp_state_init(&start, state, workspace, 1);
    uint32_t seen = ticks;
    for (int t = 0; t < SAMPLES && code == RNNCC_OK; t++) {
        while (seen == ticks) __asm volatile("wfi"); /* asleep until the next sample */
        seen = ticks;
        float x = get_sample(t), y;
        const amp_inputs inputs = {.x = &x};
        const amp_outputs outputs = {.y = &y};
        code = amp_step(&inputs, &outputs, state, workspace, 1, 1);
        put_sample(y);
    }
    return code;
}

static void leave(int status) { /* by semihosting; a pedal never ends */
    uint32_t how[2] = {0x20026, (uint32_t)status};
    register uint32_t operation __asm__("r0") = 0x20;
    register void *arguments __asm__("r1") = how;
    __asm volatile("bkpt 0xab" : : "r"(operation), "r"(arguments) : "memory");
}

extern unsigned char bss_begin[], bss_end[], stack_end[];

static void fault(void) { leave(9); }

static void start(void) {
    for (unsigned char *at = bss_begin; at < bss_end; at++) *at = 0;
    FPU_ACCESS |= 0xF << 20;
    __asm volatile("dsb\nisb");
    UART_DIVIDER = 16;
    UART_CONTROL = 1;
    SYSTICK_RELOAD = TICKS - 1;
    SYSTICK_CONTROL = 7; /* the processor's clock, an interrupt, on */
    const int code = play();
    print(rnncc_error_string(code));
    leave(code);
}

typedef void (*handler)(void);
__attribute__((section(".vectors"), used)) const struct {
    void *stack;
    handler start, faults[5], others[8], tick;
} vectors = {stack_end, start, {fault, fault, fault, fault, fault}, {0}, on_tick};
