/* redact.c - see redact.h. Prefixes of tokens: the public documentation of Hugging Face, GitHub, GitLab, OpenAI,
 * Slack, AWS, NVIDIA NGC, and RFC 7519 for "eyJ". */
#include "redact.h"

#include <stdbool.h>

#include "sys.h"

enum { TOKEN_LENGTH = 16 }; /* characters behind a prefix that make it a token rather than a word */

struct out {
  char *at, *end; /* end: last place, kept for the NUL */
};

static void put(struct out *o, char c) {
  if (o->at < o->end) *o->at++ = c;
}

static void put_stars(struct out *o) {
  for (int i = 0; i < 3; i++) put(o, '*');
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c == '-' ? '_' : c; }

/* Whether text[0..n) begins with / ends in `word`, letters of either case, '-' as '_'. */
static bool begins(const char *text, size_t n, const char *word) {
  for (; *word; word++, text++)
    if (n-- == 0 || lower(*text) != *word) return false;
  return true;
}

static bool ends_in(const char *text, size_t n, const char *word) {
  size_t length = str_length(word);
  return n >= length && begins(text + n - length, length, word);
}

static bool is_secret_name(const char *name, size_t n) {
  static const char *const words[] = {"token",      "secret",      "password",    "passwd",     "passphrase",
                                      "apikey",     "api_key",     "access_key",  "secret_key", "private_key",
                                      "credential", "credentials", "auth_header", "basic_auth"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (ends_in(name, n, words[i])) return true;
  return false;
}

static bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_' || c == '-' || c == '.';
}

static size_t token_run(const char *text, size_t n) {
  size_t i = 0;
  while (i < n && is_token_char(text[i])) i++;
  return i;
}

/* Length of the token of a known service that begins at text, or 0. */
static size_t known_token(const char *text, size_t n) {
  static const char *const prefixes[] = {"hf_", "ghp_",  "gho_",  "ghs_", "github_pat_", "glpat-",
                                         "sk-", "xoxb-", "xoxp-", "AKIA", "nvapi-",      "eyJ"};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    size_t length = str_length(prefixes[i]);
    if (n < length) continue;
    size_t same = 0;
    while (same < length && text[same] == prefixes[i][same]) same++;
    if (same == length && token_run(text + length, n - length) >= TOKEN_LENGTH) return token_run(text, n);
  }
  return 0;
}

/* Length of "user:password@" behind "://", with the length up to the colon, or 0. */
static size_t url_login(const char *text, size_t n, size_t *ret_user) {
  size_t user = 0;
  for (size_t i = 0; i < n && text[i] != '/' && text[i] != ' ' && text[i] != '"' && text[i] != '\''; i++) {
    if (text[i] == ':' && !user) user = i + 1;
    if (text[i] == '@') {
      *ret_user = user;
      return user ? i : 0;
    }
  }
  return 0;
}

/* One word without a secret name before it. */
static void put_word(struct out *o, const char *word, size_t n) {
  for (size_t i = 0; i < n; i++) {
    size_t user, token = i && is_token_char(word[i - 1]) ? 0 : known_token(word + i, n - i);
    if (token) {
      put_stars(o);
      i += token - 1;
      continue;
    }
    put(o, word[i]);
    if (begins(word + i, n - i, "authorization:") || begins(word + i, n - i, "bearer ")) {
      while (++i < n && word[i] != ':' && word[i] != ' ') put(o, word[i]);
      if (i < n) put(o, word[i]);
      put_stars(o);
      return;
    }
    if (word[i] != '/' || i < 2 || word[i - 1] != '/' || word[i - 2] != ':') continue;
    size_t login = url_login(word + i + 1, n - i - 1, &user);
    if (!login) continue;
    for (size_t k = 0; k < user; k++) put(o, word[i + 1 + k]);
    put_stars(o);
    i += login;
  }
}

/* Returns true when the next word is the secret. */
static bool put_option(struct out *o, const char *word, size_t n) {
  size_t name = 0;
  while (name < n && word[name] != '=') name++;
  bool secret = is_secret_name(word, name);
  if (secret && name < n) {
    for (size_t i = 0; i <= name; i++) put(o, word[i]);
    put_stars(o);
    return false;
  }
  put_word(o, word, n);
  return secret && n && word[0] == '-';
}

size_t redact_words(const char *words, size_t size, char *out, size_t out_size) {
  if (!out_size) return 0;
  struct out o = {out, out + out_size - 1};
  bool hide = false;
  for (size_t at = 0; at < size;) {
    size_t n = 0;
    while (at + n < size && words[at + n]) n++;
    if (at) put(&o, ' ');
    if (hide && !(n && words[at] == '-')) {
      put_stars(&o);
      hide = false;
    } else {
      hide = put_option(&o, words + at, n);
    }
    at += n + 1;
  }
  *o.at = '\0';
  return (size_t)(o.at - out);
}
