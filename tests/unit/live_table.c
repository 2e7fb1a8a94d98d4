/* live_table.c - the table of live allocations against a plain model, to its brim, and under threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "live.h"

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
  return *state;
}

/* Addresses as allocators give them: small blocks side by side, blocks of 2 MiB, and anything. */
static uint64_t address(unsigned kind, uint64_t i) {
  switch (kind) {
  case 0: return 0x7f0000000000 + i * 512;
  case 1: return 0x7e0000000000 + i * (2 << 20);
  default: return (i + 1) * 0x9E3779B97F4A7C15U >> 17;
  }
}

enum { MODEL = 20000, STEPS = 400000 };

static void same_answers_as_a_model(void **unused) {
  (void)unused;
  uint64_t *model = calloc(MODEL, sizeof *model), random = 42; /* size held, 0 = none */
  for (unsigned step = 0; step < STEPS; step++) {
    uint64_t i = next_random(&random) % MODEL, key = live_key(LIVE_ADDRESS, address((unsigned)i % 3, i));
    struct live_entry got = {77, 77};
    if (next_random(&random) & 1) {
      struct live_entry entry = {1 + next_random(&random) % 1000000, (unsigned)i % 7};
      assert_int_equal(live_insert(key, entry, &got), model[i] ? LIVE_REPLACED : LIVE_NEW);
      assert_int_equal(got.size, model[i] ? model[i] : 77);
      model[i] = entry.size;
    } else {
      assert_int_equal(live_remove(key, &got), model[i] != 0);
      assert_int_equal(got.size, model[i] ? model[i] : 77);
      assert_int_equal(got.route, model[i] ? i % 7 : 77);
      model[i] = 0;
    }
  }
  for (uint64_t i = 0; i < MODEL; i++) {
    struct live_entry got;
    assert_int_equal(live_remove(live_key(LIVE_ADDRESS, address((unsigned)i % 3, i)), &got), model[i] != 0);
  }
  free(model);
}

/* A million at once, of each sort, again and again: no entry is lost, and none is left behind by the round before. */
static void a_million_live(void **unused) {
  (void)unused;
  enum { LIVE = 1000 * 1000 };
  for (unsigned kind = 0; kind < 3; kind++) {
    unsigned untracked = 0;
    for (uint64_t i = 0; i < LIVE; i++) {
      struct live_entry old;
      enum live_result r = live_insert(live_key(LIVE_ADDRESS, address(kind, i)), (struct live_entry){i + 1, 0}, &old);
      assert_int_not_equal(r, LIVE_REPLACED);
      untracked += r == LIVE_UNTRACKED;
    }
    assert_true(untracked < LIVE / 20);
    for (uint64_t i = 0; i < LIVE; i++) {
      struct live_entry got;
      if (!live_remove(live_key(LIVE_ADDRESS, address(kind, i)), &got))
        untracked--;
      else
        assert_int_equal(got.size, i + 1);
    }
    assert_int_equal(untracked, 0);
  }
}

static void spaces_do_not_meet(void **unused) {
  (void)unused;
  struct live_entry got;
  for (unsigned space = LIVE_ADDRESS; space <= LIVE_REGISTERED; space++)
    assert_int_equal(live_insert(live_key((enum live_space)space, 1), (struct live_entry){space + 1, space}, &got),
                     LIVE_NEW);
  for (unsigned space = LIVE_ADDRESS; space <= LIVE_REGISTERED; space++) {
    assert_true(live_remove(live_key((enum live_space)space, 1), &got));
    assert_int_equal(got.size, space + 1);
    assert_false(live_remove(live_key((enum live_space)space, 1), &got));
  }
}

enum { THREADS = 4, ROUNDS = 40, PER_THREAD = 4000 };
static unsigned failures;

/* Each thread has keys of its own, side by side with those of the others. */
static void *churn(void *argument) {
  uint64_t mine = (uintptr_t)argument;
  for (unsigned round = 0; round < ROUNDS; round++) {
    for (uint64_t i = 0; i < PER_THREAD; i++) {
      struct live_entry old;
      uint64_t key = live_key(LIVE_ADDRESS, address(0, i * THREADS + mine));
      if (live_insert(key, (struct live_entry){i + round + 1, (unsigned)mine}, &old) != LIVE_NEW)
        __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
    for (uint64_t i = 0; i < PER_THREAD; i++) {
      struct live_entry got = {0, 0};
      uint64_t key = live_key(LIVE_ADDRESS, address(0, i * THREADS + mine));
      if (!live_remove(key, &got) || got.size != i + round + 1 || got.route != mine)
        __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    }
  }
  return NULL;
}

static void threads_do_not_lose_entries(void **unused) {
  (void)unused;
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)i), 0);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(failures, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_answers_as_a_model),
      cmocka_unit_test(a_million_live),
      cmocka_unit_test(spaces_do_not_meet),
      cmocka_unit_test(threads_do_not_lose_entries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
