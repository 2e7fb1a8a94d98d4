/* thunk.h - the numbers that assembly and C must agree on. Preprocessor lines only. */
#ifndef SPARKSHIM_THUNK_H
#define SPARKSHIM_THUNK_H

#define BIND_SLOTS 2048    /* bound thunks; 16 bytes of text and 32 bytes of data each */
#define SHIM_THREAD_REAL 8 /* offset of `real` in struct shim_thread */

#endif
