/* Which mappings may be paged out: real texts of smaps, each with one thing changed, and texts that are no smaps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "fact.h"
#include "mappings.h"

#define HEAD(letters) \
  "7f5a00000000-7f5a40000000 " letters " 00000000 fd:01 131077                     /models/a.safetensors\n"
#define SIZES "Size:            1048576 kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n"
#define BODY(anonymous, swap, locked)                                                                                 \
  "Rss:             1048576 kB\nPss:             1048576 kB\nPrivate_Clean:   1048576 kB\nAnonymous:      " anonymous \
  " kB\nShared_Hugetlb:        0 kB\nSwap:       " swap " kB\nSwapPss:               0 kB\nLocked:   " locked         \
  " kB\nTHPeligible:           0\n"
#define FLAGS(words) "VmFlags: " words " \n"

struct seen {
  unsigned n, good;
  struct mapping last;
  char path[MAPPING_LINE];
};

static bool see(const struct mapping *m, void *arg) {
  struct seen *s = arg;
  s->n++;
  s->good += mapping_may_page_out(m);
  s->last = *m;
  strcpy(s->path, m->path);
  return false;
}

/* The text in pieces of `piece` bytes. */
static struct seen parse(const char *text, size_t size, size_t piece) {
  struct seen s = {.n = 0};
  struct mappings_text *t = calloc(1, sizeof *t);
  assert_non_null(t);
  t->see = see;
  t->arg = &s;
  for (size_t at = 0; at < size; at += piece) mappings_feed(t, text + at, size - at < piece ? size - at : piece);
  mappings_finish(t);
  free(t);
  return s;
}

static unsigned good(const char *text) {
  struct seen s = parse(text, strlen(text), 7);
  assert_int_equal(s.n, 1);
  return s.good;
}

static void fields(void **unused) {
  (void)unused;
  static const char text[] = HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms");
  for (size_t piece = 1; piece < 50; piece++) {
    struct seen s = parse(text, sizeof text - 1, piece);
    assert_int_equal(s.n, 1);
    assert_true(s.last.start == 0x7f5a00000000 && s.last.end == 0x7f5a40000000 && s.last.ino == 131077);
    assert_true(s.last.shared && s.last.readable && !s.last.writable && !s.last.executable);
    assert_true(s.last.rss == (uint64_t)1 << 30 && s.last.anonymous == 0 && s.last.swap == 0 && s.last.locked == 0);
    assert_int_equal(s.last.flags, MAPPING_FLAGS_SEEN | MAPPING_SHARED);
    assert_string_equal(s.path, "/models/a.safetensors");
  }
}

static void data_files(void **unused) {
  (void)unused;
  assert_int_equal(good(HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms sd")), 1);
  assert_int_equal(good(HEAD("r--p") SIZES BODY("0", "0", "0") FLAGS("rd mr mw me sd")), 1);
  assert_int_equal(good(HEAD("rw-p") SIZES BODY("0", "0", "0") FLAGS("rd wr mr mw me ac sd")), 1); /* PyTorch's own */
  assert_int_equal(good(HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd sh mr mw me ms sd")), 1);
  assert_int_equal(good(HEAD("r--p") SIZES BODY("0", "0", "0") FLAGS("rd mr mw me xy zz")), 1); /* of kernels to come */
}

static void what_is_never_touched(void **unused) {
  (void)unused;
  static const char *const no[] = {
      /* RELRO, or own changes that mprotect has closed: the letters are those of a data file */
      HEAD("r--p") SIZES BODY("16", "0", "0") FLAGS("rd mr mw me ac sd"),
      HEAD("r--p") SIZES BODY("0", "16", "0") FLAGS("rd mr mw me ac sd"), /* they are in swap */
      HEAD("r--s") SIZES BODY("0", "0", "1048576") FLAGS("rd mr me ms lo sd"),
      HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms lo sd"),
      HEAD("r--s") SIZES BODY("0", "0", "4") FLAGS("rd mr me ms sd"),
      HEAD("rw-s") SIZES BODY("0", "0", "0") FLAGS("rd wr sh mr mw me ms sd"),
      HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd wr sh mr mw me ms sd"), /* letters and flags do not agree */
      HEAD("r-xp") SIZES BODY("0", "0", "0") FLAGS("rd ex mr mw me sd"),
      HEAD("r--p") SIZES BODY("0", "0", "0") FLAGS("rd ex mr mw me sd"),
      HEAD("r-xp") SIZES BODY("0", "0", "0") FLAGS("rd mr mw me sd"),
      HEAD("r--p") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms sd"), /* shared or not? */
      HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr mw me sd"),
      HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms de ht sd"),
      HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms pf io dc de sd"),
      HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms um sd"),
      "7f5a00000000-7f5a40000000 rw-p 00000000 00:00 0 \n" SIZES BODY("0", "0", "0") FLAGS("rd wr mr mw me ac"),
      "7f5a00000000-7f5a40000000 r--p 00000000 fd:01 0 /models/a\n" SIZES BODY("0", "0", "0") FLAGS("rd mr mw me"),
      "7f5a00000000-7f5a40000000 r--p 00000000 00:01 77 anon_inode:x\n" SIZES BODY("0", "0", "0") FLAGS("rd mr mw me"),
      "7f5a00000000-7f5a40000000 r--p 00000000 00:00 0 [vvar]\n" SIZES BODY("0", "0", "0") FLAGS("rd mr pf io de"),
  };
  for (unsigned i = 0; i < sizeof no / sizeof no[0]; i++)
    if (good(no[i])) fail_msg("%u: %s", i, no[i]);
}

/* What smaps does not say, or says in a way that we do not know, is not taken for harmless. */
static void what_is_not_said(void **unused) {
  (void)unused;
  static const char *const no[] = {
      HEAD("r--p"), /* a line of maps */
      HEAD("r--p") SIZES BODY("0", "0", "0"),
      HEAD("r--p") SIZES FLAGS("rd mr mw me"),
      HEAD("r--p") "Rss: 4 kB\nSwap: 0 kB\nLocked: 0 kB\n" FLAGS("rd mr mw me"),
      HEAD("r--p") "Rss: 4 kB\nAnonymous: 0 kB\nLocked: 0 kB\n" FLAGS("rd mr mw me"),
      HEAD("r--p") "Rss: 4 kB\nAnonymous: 0 kB\nSwap: 0 kB\n" FLAGS("rd mr mw me"),
      HEAD("r--p") SIZES BODY("0", "0", "-1") FLAGS("rd mr mw me"),
      HEAD("r--p") SIZES BODY("99999999999999999999", "0", "0") FLAGS("rd mr mw me"),
      HEAD("r--p") "Anonymous: 0\nSwap: 0 kB\nLocked: 0 kB\n" FLAGS("rd mr mw me"),
      HEAD("r--p") "Anonymous: 0 MB\nSwap: 0 kB\nLocked: 0 kB\n" FLAGS("rd mr mw me"),
      HEAD("r--p") SIZES BODY("0", "0", "0") FLAGS("rd mr mw locked"),
      HEAD("r--p") SIZES BODY("0", "0", "0") "VmFlags: rd mr mw m",
      HEAD("r--p") SIZES BODY("0", "0", "0") FLAGS("rd mr mw m"),
  };
  for (unsigned i = 0; i < sizeof no / sizeof no[0]; i++)
    if (good(no[i])) fail_msg("%u: %s", i, no[i]);
}

/* Fields belong to the head above them, and to no other. */
static void fields_are_not_mixed_up(void **unused) {
  (void)unused;
  static const char text[] = BODY("0", "0", "0") FLAGS("rd mr me ms") /* the text begins in the middle */
      HEAD("r--s") SIZES BODY("0", "0", "0") FLAGS("rd mr me ms") "nonsense\n" BODY("0", "0", "0") FLAGS("rd mr me ms")
          HEAD("r--s") SIZES BODY("4", "0", "0")
              FLAGS("rd mr me ms") "7f5a00000000-7f5a40000000 r--s 00000000 fd:01 131077 /models/b\n";
  struct seen s = parse(text, sizeof text - 1, 100);
  assert_int_equal(s.n, 3);
  assert_int_equal(s.good, 1);
  assert_true(s.last.rss == FACT_NO_U64 && s.last.flags == 0);
}

static void odd_heads(void **unused) {
  (void)unused;
  static const char *const none[] = {"",
                                     "-",
                                     "\n\n\n",
                                     "7f00-7f00 r--p 0 0:0 1 /a\n",
                                     "7f01-7f00 r--p 0 0:0 1 /a\n",
                                     "7f00-8000 r--q 0 0:0 1 /a\n",
                                     "7f00-8000 rwz 0 0:0 1 /a\n",
                                     "7f00 8000 r--p 0 0:0 1 /a\n",
                                     "7f00-8000 r--p 0 0:0 x /a\n",
                                     "7f00-8000 r--p 0 00 1 /a\n",
                                     "7f00-8000\n",
                                     "fffffffffffffffff-8000 r--p 0 0:0 1 /a\n",
                                     "7F00-8000 r--p 0 0:0 1 /a\n"};
  for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) assert_int_equal(parse(none[i], strlen(none[i]), 5).n, 0);
  struct seen s = parse("0-1 r--p 0 0:0 1 /with  blanks \n", 32, 3);
  assert_string_equal(s.path, "/with  blanks ");
}

/* A path that is cut is no path: it could name another file. */
static void long_path(void **unused) {
  (void)unused;
  enum { LONG = 3 * MAPPING_LINE };
  static const char head[] = "7f5a00000000-7f5a40000000 r--s 00000000 fd:01 131077 /",
                    body[] = "\n" BODY("0", "0", "0") FLAGS("rd mr me ms");
  char *text = malloc(LONG);
  assert_non_null(text);
  memcpy(text, head, sizeof head - 1);
  memset(text + sizeof head - 1, 'x', LONG - (sizeof head - 1));
  memcpy(text + LONG - sizeof body, body, sizeof body);
  struct seen s = parse(text, LONG - 1, 1000);
  assert_int_equal(s.n, 1);
  assert_int_equal(s.good, 0);
  assert_string_equal(s.path, "");
  free(text);
}

static bool find(const struct mapping *m, void *arg) {
  struct mapping *sought = arg;
  if (m->start > sought->start || m->end <= sought->start) return false;
  *sought = *m;
  return true;
}

/* A page of our own, as the kernel describes it. */
static void this_process(void **unused) {
  (void)unused;
  char *page = mmap(NULL, 3 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(page != MAP_FAILED);
  memset(page, 1, 3 << 20);
  struct mapping m = {.start = (uint64_t)(uintptr_t)page};
  assert_int_equal(mappings_read("maps", find, &m), 0);
  assert_true(m.rss == FACT_NO_U64 && m.writable);
  m.start = (uint64_t)(uintptr_t)page;
  assert_int_equal(mappings_read("smaps", find, &m), 0);
  assert_true(m.rss >= 3 << 20 && (m.flags & MAPPING_FLAGS_SEEN) && (m.flags & MAPPING_WRITE) && !m.shared);
  assert_int_equal(mappings_read("no such file", find, &m), -2);
  munmap(page, 3 << 20);
}

/* Bytes without sense, in which true lines occur. */
static void noise(void **unused) {
  (void)unused;
  static const char *const words[] = {
      HEAD("r--s"), BODY("0", "0", "0"), FLAGS("rd mr me ms"), "\n", "VmFlags:", "7f", " kB", "\0", "-"};
  char text[4096];
  srandom(4);
  for (unsigned round = 0; round < 2000; round++) {
    size_t n = 0;
    while (n < sizeof text - 512) {
      const char *word = words[(unsigned long)random() % (sizeof words / sizeof words[0])];
      size_t length = strlen(word), from = length ? (unsigned long)random() % length : 0;
      memcpy(text + n, word + from, length - from);
      n += length - from;
      if (random() % 4 == 0) text[n++] = (char)random();
    }
    parse(text, n, 1 + (unsigned long)random() % 300);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fields),
                                     cmocka_unit_test(data_files),
                                     cmocka_unit_test(what_is_never_touched),
                                     cmocka_unit_test(what_is_not_said),
                                     cmocka_unit_test(fields_are_not_mixed_up),
                                     cmocka_unit_test(odd_heads),
                                     cmocka_unit_test(long_path),
                                     cmocka_unit_test(this_process),
                                     cmocka_unit_test(noise)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
