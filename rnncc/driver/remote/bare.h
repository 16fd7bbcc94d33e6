/* What `program.c` needs, without a system: files of the emulator by semihosting, on Arm M-profile
 * and RISC-V. The linker's script says where memory is. */
#include <stddef.h>
#include <stdint.h>

enum { OPEN = 0x01, WRITE = 0x05, READ = 0x06, EXIT = 0x18, EXIT_CODE = 0x20, ENDED = 0x20026 };

extern unsigned char heap_begin[], heap_end[];
static unsigned char *heap = heap_begin;
static uintptr_t from_host, to_host;

static uintptr_t ask(uintptr_t operation, void *arguments) {
#ifdef __riscv
    register uintptr_t a0 __asm__("a0") = operation;
    register void *a1 __asm__("a1") = arguments;
    __asm__ volatile(".balign 16\n.option push\n.option norvc\nslli x0, x0, 0x1f\nebreak\n"
                     "srai x0, x0, 7\n.option pop" : "+r"(a0) : "r"(a1) : "memory");
    return a0;
#else
    register uintptr_t r0 __asm__("r0") = operation;
    register void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
#endif
}

static void leave(int status) {
    uintptr_t how[2] = {ENDED, (uintptr_t)status};
    ask(EXIT_CODE, how);
    for (;;) ask(EXIT, (void *)ENDED);
}

static void get(void *to, int64_t size) {
    uintptr_t what[3] = {from_host, (uintptr_t)to, (uintptr_t)size};
    if (ask(READ, what) != 0) leave(4);
}

static void put(const void *from, int64_t size) {
    uintptr_t what[3] = {to_host, (uintptr_t)from, (uintptr_t)size};
    if (ask(WRITE, what) != 0) leave(5);
}

static void *room(int64_t size) {
    unsigned char *at = heap + (64 - (uintptr_t)heap % 64);
    if (size > heap_end - at) return NULL;
    heap = at + size;
    return at;
}

static void begin(void) {
    uintptr_t in[3] = {(uintptr_t) "request", 1, 7}, out[3] = {(uintptr_t) "response", 5, 8};
    from_host = ask(OPEN, in);
    to_host = ask(OPEN, out);
    if (from_host == (uintptr_t)-1 || to_host == (uintptr_t)-1) leave(6);
}

int main(void);

#ifdef __riscv
__asm__(".section .start,\"ax\"\n.globl start\nstart:\nla sp, stack_end\n"
        "li t0, 0x6000\ncsrs mstatus, t0\n" /* floats, and vectors where there are any */
        "call main\n.text");
#else
extern unsigned char stack_end[];
void start(void);
void start(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20; /* CPACR: floats */
    __asm__ volatile("dsb\nisb");
    main();
}
static void fault(void) {
    leave(9);
}
__attribute__((section(".start"), used)) static void *const vectors[16] = {
    stack_end, (void *)start, (void *)fault, (void *)fault,
    (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};
#endif
