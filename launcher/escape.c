/* escape.c - see escape.h. */
#include "escape.h"
#include "plain.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* Writes what is not plain ASCII, or is not shown, and returns how many bytes that was; 0 at an ASCII character. */
static size_t put_other(FILE *to, const char *s) {
  size_t n = plain_length(s, SIZE_MAX);
  if (n == 1) return 0;
  if (n)
    fwrite(s, 1, n, to);
  else
    fputc('?', to);
  return n ? n : 1;
}

void escape_plain(FILE *to, const char *s) {
  while (*s) {
    size_t n = put_other(to, s);
    if (!n) fputc(*s, to);
    s += n ? n : 1;
  }
}

void escape_html(FILE *to, const char *s) {
  while (*s) {
    size_t n = put_other(to, s);
    switch (n ? '\0' : *s) {
    case '\0': break;
    case '&': fputs("&amp;", to); break;
    case '<': fputs("&lt;", to); break;
    case '>': fputs("&gt;", to); break;
    case '"': fputs("&quot;", to); break;
    case '\'': fputs("&#39;", to); break;
    default: fputc(*s, to);
    }
    s += n ? n : 1;
  }
}

/* What would open a block at the beginning of a line: a heading, list, quotation, rule or underline. Returns how many bytes
 * it wrote. */
static size_t put_block_start(FILE *to, const char *s) {
  size_t spaces = strspn(s, " "), digits = strspn(s + spaces, "0123456789");
  const char *at = s + spaces;
  if (spaces && *at) fputs("&nbsp;", to); /* four of them would make a block of code */
  if (digits && (at[digits] == '.' || at[digits] == ')')) {
    fprintf(to, "%.*s\\%c", (int)digits, at, at[digits]);
    return spaces + digits + 1;
  }
  if (!*at || !strchr("#+-=", *at)) return spaces;
  fprintf(to, "\\%c", *at);
  return spaces + 1;
}

/* ":smile:" or "://"; a time of day is neither. */
static bool is_emoji_or_address(const char *s) {
  size_t name = strspn(s + 1, "0123456789_+-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  return s[1] == '/' || (name && s[1 + name] == ':' && (name != 2 || !isdigit((unsigned char)s[1])));
}

/* Whether the hosts of issues would make a link, a mention or a picture of the character at `s` and what follows. */
static bool is_reference(const char *s) {
  switch (*s) {
  case '@': return true;
  case '#': return isdigit((unsigned char)s[1]);
  case ':': return is_emoji_or_address(s);
  case 'w':
  case 'W': return !strncasecmp(s, "www.", 4);
  default: return false;
  }
}

void escape_markdown(FILE *to, const char *s) {
  static const char cut[] = "<!-- -->"; /* shows as nothing, and keeps the two sides apart */
  s += put_block_start(to, s);
  while (*s) {
    size_t n = put_other(to, s);
    if (!n && strchr("\\`*_[]<>~&|$", *s)) fputc('\\', to);
    if (!n) fputc(*s, to);
    if (!n && is_reference(s)) fputs(cut, to);
    s += n ? n : 1;
  }
}
