/* thunk.S (x86_64) - the exported dlopen, dlmopen, dlsym, dlvsym, and the pool of bound thunks.
 *
 * libc looks at the return address of these four to find the caller's search path, namespace and place in the
 * look-up order, so they must never be called from C. Each exported entry asks its C pre-function (dl.c), which
 * answers {target, result} in rax:rdx, and then either jumps to `target` with registers, stack and return address
 * as it found them, or returns `result`. All arguments are integers: vector registers carry none, and the caller
 * keeps none across a call.
 *
 * May run before any constructor and before libc is relocated: nothing here goes through the PLT.
 */
#include "thunk.h"

        .text

        .macro DL_THUNK name, pre
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx                    /* three pushes and the return address: rsp is a multiple of 16 */
        .cfi_adjust_cfa_offset 8
        call    \pre
        testq   %rax, %rax
        jz      1f
        movq    %rax, %r11
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jmp     *%r11
1:      .cfi_adjust_cfa_offset 24
        movq    %rdx, %rax
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
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
 * jumps to `target`, a hook_<name>__any. Arguments of any kind pass untouched; only r10 and r11 are used. */
        .hidden bind_thunks, bind_slots, shim_thread
        .globl  bind_thunks
        .type   bind_thunks, @function
        .p2align 4
bind_thunks:
        .cfi_startproc
        .set    i, 0
        .rept   BIND_SLOTS
        .p2align 4
        endbr64
        movl    $i, %r11d
        jmp     bind_go
        .set    i, i + 1
        .endr
        .p2align 4
bind_go:
        shlq    $5, %r11
        leaq    bind_slots(%rip), %r10
        addq    %r10, %r11
        movq    shim_thread@gottpoff(%rip), %r10
        pushq   8(%r11)
        .cfi_adjust_cfa_offset 8
        popq    %fs:SHIM_THREAD_REAL(%r10)
        .cfi_adjust_cfa_offset -8
        jmp     *16(%r11)
        .cfi_endproc
        .size   bind_thunks, . - bind_thunks

        .section .note.GNU-stack, "", @progbits

/* IBT and SHSTK: every entry starts with endbr64, and no return address is touched. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002              /* GNU_PROPERTY_X86_FEATURE_1_AND */
        .long   4, 3, 0
