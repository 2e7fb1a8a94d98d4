/* redact.h - no secret goes into a log. Freestanding, async-signal-safe. */
#ifndef SPARKSHIM_REDACT_H
#define SPARKSHIM_REDACT_H

#include <stddef.h>

/* `words` are NUL-ended words one behind the other, `size` bytes in all, as /proc/<pid>/cmdline has them. Writes
 * them to out[out_size] with a space between, cut to fit, NUL-ended when out_size > 0. Replaced by "***" are: the
 * value of an option or assignment whose name ends in a word for a secret (token, password, secret, api_key, ...),
 * also when it is the next word; what looks like a token of a known service; the password in a URL; what
 * follows "Authorization:" or "Bearer". Returns the length without the NUL. */
size_t redact_words(const char *words, size_t size, char *out, size_t out_size);

#endif
