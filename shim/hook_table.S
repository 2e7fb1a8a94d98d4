/* hook_table.S - for every row of hooks.def the places of its hooks, as offsets from the table itself.
 *
 * Pointers in a C array would be one relocation each, paid by every program that starts under the preload; an offset
 * costs nothing. Row layout: {any, first, second}: the hook behind bound thunks, then the exported hooks (CUDART:
 * for libcudart.so.12 and .13; DRIVER, NCCL: the only one). 0 = there is none. Same on every processor.
 */
#define HOOK(lib, name, nodes, ...) ROW_##lib(name, nodes)
#define ROW_LIBC(name, nodes) .long 0, 0, 0;
#define ROW_CUDART(name, nodes) ROW_##nodes(name)
#define ROW_N12(name) ENTRY(hook_##name##__any) ENTRY(hook_##name##__12) .long 0;
#define ROW_N13(name) ENTRY(hook_##name##__any) .long 0; ENTRY(hook_##name##__13)
#define ROW_N12_13(name) ENTRY(hook_##name##__any) ENTRY(hook_##name##__12) ENTRY(hook_##name##__13)
#define ROW_DRIVER(name, nodes) ENTRY(hook_##name##__any) ENTRY(hook_##name##__export) .long 0;
#define ROW_NCCL(name, nodes) ROW_DRIVER(name, nodes)
#define ENTRY(symbol) .long symbol - hook_places;

        .section .rodata
        .hidden hook_places
        .globl  hook_places
        .p2align 2
hook_places:
        .long   0, 0, 0                 /* HOOK_NONE */
#include "hooks.def"

#ifdef __x86_64__
        .section .note.GNU-stack, "", @progbits
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3, 0
#else
        .section .note.GNU-stack, "", %progbits
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000000, 4, 3, 0
#endif
