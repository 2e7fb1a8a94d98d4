/* lines.h - small text files of the kernel, line by line. Freestanding: raw system calls, no allocation, errno kept.
 *
 * Under SPARKSHIM_ROOT such a file is anybody's: it may be missing, empty, endless, without a newline, or any bytes at all.
 */
#ifndef SPARKSHIM_LINES_H
#define SPARKSHIM_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line without its newline, valid during the call. True: enough has been read. */
typedef bool (*line_see)(const char *line, size_t size, void *arg);

/* The lines of text[size], the last one with or without a newline. */
void lines_of_text(const char *text, size_t size, line_see see, void *arg);

enum {
  LINES_LENGTH = 4096,  /* a longer line is cut to this many bytes */
  LINES_BYTES = 1 << 20 /* most that is read of one file */
};

/* The lines of <root><path> when root is not NULL and has it, else of <path>. Needs 4 KiB of stack. 0, or negative errno
 * when the file could not be opened or the first read failed; *ret_below, when not NULL, says whether it was the root's. */
int lines_of_file(const char *root, const char *path, line_see see, void *arg, bool *ret_below);

/* The decimal number at line[*at] behind blanks; *at then stands behind its last digit. FACT_NO_U64 (UINT64_MAX), *at
 * anywhere, when there is none or it overflows. */
uint64_t line_number(const char *line, size_t size, size_t *at);

/* The same with up to two decimals, in hundredths: "41.2" is 4120. */
uint64_t line_hundredths(const char *line, size_t size, size_t *at);

/* `word` at line[at]: the index behind it, 0 when something else stands there. */
size_t line_word(const char *line, size_t size, size_t at, const char *word);

/* a * b and a + b; FACT_NO_U64 when one of them is, or on overflow. */
uint64_t known_times(uint64_t a, uint64_t b);
uint64_t known_plus(uint64_t a, uint64_t b);
/* *sum + v where both may be unknown: an unknown v adds nothing. */
void add_known(uint64_t *sum, uint64_t v);

#endif
