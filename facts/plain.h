/* plain.h - text of unknown origin on its way to somebody's terminal.
 *
 * Names of files, processes and kernels may hold what a terminal takes for a command: escape sequences, C1 control
 * characters (also as bytes of their own, where the text is no UTF-8), and characters that turn the order of what is
 * shown. Freestanding, async-signal-safe.
 */
#ifndef SPARKSHIM_PLAIN_H
#define SPARKSHIM_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the valid UTF-8 character at `s`, 0 when there is none. Overlong forms, surrogates and what lies
 * beyond U+10FFFF are not valid. Stops at a NUL by itself: a NUL is no continuation byte. */
unsigned utf8_length(const unsigned char *s, uint32_t *ret_code);

/* Bytes of the character at `s`, of which `max` bytes may be looked at, when a terminal only shows it; else 0: one byte
 * is then to be left out. */
unsigned plain_length(const char *s, size_t max);

/* Copies `s`, NUL-ended or of `max` bytes, into out[size], size > 0, with '?' for each byte that is not shown; cut between
 * characters to fit, NUL-ended. Returns the length. */
size_t plain_text(const char *s, size_t max, char *out, size_t size);

#endif
