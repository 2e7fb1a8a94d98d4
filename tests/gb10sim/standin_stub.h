/* standin_stub.h - exports by the dozen: weak ones that answer "not supported", and jumps from one name to
 * another. The includer defines `static int unsupported(const char *name)`. */
#ifndef GB10SIM_STANDIN_STUB_H
#define GB10SIM_STANDIN_STUB_H

#include "world.h"

#define STANDIN_STUB(symbol)                                     \
  __attribute__((weak, visibility("default"))) int symbol(void); \
  int symbol(void) { return unsupported(#symbol); }

#if defined(__x86_64__)
#define STANDIN_JUMP "endbr64\n\tjmp "
#else
#define STANDIN_JUMP "hint 34\n\tb " /* bti c */
#endif
#define STANDIN_TWIN(symbol, twin)                                                        \
  __asm__(".text\n\t.p2align 4\n\t.globl " #twin "\n\t.type " #twin ", %function\n" #twin \
          ":\n\t.cfi_startproc\n\t" STANDIN_JUMP #symbol "\n\t.cfi_endproc\n\t.size " #twin ", . - " #twin "\n");

#endif
