/* escape.h - text of logs on a page. Names, paths and command lines come from the job and may hold anything: markup, mentions,
 * terminal sequences, characters that turn the reading direction. None of it may act.
 *
 * All write to `to`; each byte that a terminal would not show (facts/plain.h) becomes '?'.
 */
#ifndef SPARKSHIM_ESCAPE_H
#define SPARKSHIM_ESCAPE_H

#include <stdio.h>

/* For a terminal. */
void escape_plain(FILE *to, const char *s);
/* Inline Markdown (CommonMark, GitHub, GitLab), also at the beginning of a block: reads as the text it is, with no markup, HTML,
 * link, mention, reference, emoji or formula. */
void escape_markdown(FILE *to, const char *s);
/* Text and attribute values in quotes of HTML. */
void escape_html(FILE *to, const char *s);

#endif
