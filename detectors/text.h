/* text.h - building the sentences of findings without libc.
 *
 * A struct text appends to a buffer of fixed size: what does not fit is cut off, the buffer always ends in
 * NUL, nothing fails. Freestanding, no state of its own; usable wherever a detector is.
 */
#ifndef SPARKSHIM_TEXT_H
#define SPARKSHIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "finding.h"

struct text {
  char *at;    /* where the next byte goes */
  size_t room; /* bytes left at `at`, the NUL included; 0 = swallows everything */
};

/* Starts an empty text in buf[size]; size > 0. */
struct text text_in(char *buf, size_t size);

/* Starts the next item of a list; when the list is full, a text that swallows everything. */
struct text text_item(struct finding_list *list);

void text_add(struct text *t, const char *s); /* NULL adds nothing */
void text_number(struct text *t, uint64_t n);

/* A size in bytes as people read it: "41.5 GiB" with one decimal, rounded to nearest; below 0.1 GiB "20.0 MiB",
 * below 0.1 MiB "256 bytes". FACT_NO_U64 is "an unknown size". */
void text_size(struct text *t, uint64_t bytes);

/* `before`, the size, `after`. */
void text_sized(struct text *t, const char *before, uint64_t bytes, const char *after);
/* `before`, a time in us with one decimal of a second, cut: "1.5 s", `after`. */
void text_seconds(struct text *t, const char *before, uint64_t us, const char *after);
/* One more item of a list: `s`, or `before`, the size, `after`. */
void text_item_add(struct finding_list *list, const char *s);
void text_item_sized(struct finding_list *list, const char *before, uint64_t bytes, const char *after);

/* True when both are the same text; NULL equals only NULL. */
bool text_equal(const char *a, const char *b);

/* True when `s` begins with `prefix`; NULL does not. */
bool text_starts(const char *s, const char *prefix);

/* True when `word` stands in `s` with no letter or digit on either side. */
bool text_has_word(const char *s, const char *word);

/* Copies `s` (NULL: the empty text) into buf[size], cut to fit, NUL-ended. */
void text_copy(char *buf, size_t size, const char *s);

#endif
