/* thunk.S (aarch64) - the exported dlopen, dlmopen, dlsym, dlvsym, and the pool of bound thunks.
 *
 * libc looks at the return address of these four to find the caller's search path, namespace and place in the
 * look-up order, so they must never be called from C. Each exported entry asks its C pre-function (dl.c), which
 * answers {target, result} in x0:x1, and then either jumps to `target` with registers, stack and return address
 * as it found them, or returns `result`. All arguments are integers: vector registers carry none, and the caller
 * keeps none across a call but the low halves of v8 to v15, which C preserves.
 *
 * May run before any constructor and before libc is relocated: nothing here goes through the PLT.
 * PAC and BTI instructions are in the hint space: older processors do nothing there.
 */
#include "thunk.h"

        .text

        .macro DL_THUNK name, pre
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
        hint    #25                     /* paciasp; also a landing pad for bl, blr and br x16 */
        .cfi_negate_ra_state
        stp     x29, x30, [sp, #-48]!
        .cfi_adjust_cfa_offset 48
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        bl      \pre
        cbz     x0, 1f
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        .cfi_remember_state
        ldp     x29, x30, [sp], #48
        .cfi_adjust_cfa_offset -48
        .cfi_restore x29
        .cfi_restore x30
        hint    #29                     /* autiasp */
        .cfi_negate_ra_state
        br      x16
1:      .cfi_restore_state
        mov     x0, x1
        ldp     x29, x30, [sp], #48
        .cfi_adjust_cfa_offset -48
        .cfi_restore x29
        .cfi_restore x30
        hint    #29
        .cfi_negate_ra_state
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .hidden dl_pre_dlopen, dl_pre_dlmopen, dl_pre_dlsym, dl_pre_dlvsym
        DL_THUNK dlopen, dl_pre_dlopen
        DL_THUNK dlmopen, dl_pre_dlmopen
        DL_THUNK dlsym, dl_pre_dlsym
        DL_THUNK dlvsym, dl_pre_dlvsym

/* Bound thunk i belongs to bind_slots[i] = {key, real, target, -} (bind.c): it leaves `real` in shim_thread.real and
 * jumps to `target`, a hook_<name>__any. Arguments of any kind pass untouched; only x9, x10, x16 and x17 are used. */
        .hidden bind_thunks, bind_slots, shim_thread
        .globl  bind_thunks
        .type   bind_thunks, %function
        .p2align 4
bind_thunks:
        .cfi_startproc
        .set    i, 0
        .rept   BIND_SLOTS
        .p2align 4
        hint    #34                     /* bti c */
        mov     w17, #i
        b       bind_go
        .set    i, i + 1
        .endr
        .p2align 4
bind_go:
        adrp    x16, bind_slots
        add     x16, x16, :lo12:bind_slots
        add     x16, x16, x17, lsl #5
        ldp     x17, x16, [x16, #8]
        adrp    x10, :gottprel:shim_thread
        ldr     x10, [x10, :gottprel_lo12:shim_thread]
        mrs     x9, tpidr_el0
        add     x9, x9, x10
        str     x17, [x9, #SHIM_THREAD_REAL]
        br      x16
        .cfi_endproc
        .size   bind_thunks, . - bind_thunks

        .section .note.GNU-stack, "", %progbits

/* BTI and PAC: every entry starts with a landing pad. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000000              /* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
        .long   4, 3, 0
