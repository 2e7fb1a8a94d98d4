/* detectors.c - the list of detectors, and the one loop that hands facts to them.
 *
 * The states of all detectors lie one behind the other in the caller's block, each aligned to 16 bytes, in
 * the order of det_all. Freestanding, no state of its own; see detector.h for who calls it and where.
 */
#include "detector.h"

extern const struct detector det_g03_collapse, det_g03_fragments, det_g03_killed, det_g03_livelock;
extern const struct detector det_g03_memory, det_g03_orphan, det_g03_relief;
extern const struct detector det_g06_holders, det_g06_pace, det_g06_swap;

const struct detector *const det_all[] = {&det_g03_killed,
                                          &det_g03_memory,
                                          &det_g03_relief,
                                          &det_g03_orphan,
                                          &det_g03_collapse,
                                          &det_g03_livelock,
                                          &det_g03_fragments,
                                          &det_g06_holders,
                                          &det_g06_pace,
                                          &det_g06_swap,
                                          NULL};

enum { G_FIRST = 1, G_LAST = 10, STATE_ALIGN = 16 };
#define MASK_ALL ((((uint32_t)1 << (G_LAST + 1)) - 1) & ~(uint32_t)1)

static size_t aligned(size_t n) { return (n + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN; }

/* One word of SPARKSHIM_DETECTORS, [s, end): its bit, or 0 when it is not G1 to G10; *ret_off: has a minus. */
static uint32_t word_bit(const char *s, const char *end, bool *ret_off) {
  unsigned g = 0;
  bool off = false;
  while (s < end && *s == ' ') s++;
  while (end > s && end[-1] == ' ') end--;
  if (s < end && *s == '-') off = true, s++;
  if (s == end || (*s != 'G' && *s != 'g') || end - s < 2 || end - s > 3) return 0;
  for (s++; s < end; s++) {
    if (*s < '0' || *s > '9') return 0;
    g = g * 10 + (unsigned)(*s - '0');
  }
  if (g < G_FIRST || g > G_LAST) return 0;
  *ret_off = off;
  return (uint32_t)1 << g;
}

uint32_t det_mask(const char *text) {
  uint32_t only = 0, without = 0;
  while (text && *text) {
    const char *end = text;
    bool off = false;
    while (*end && *end != ',') end++;
    uint32_t bit = word_bit(text, end, &off);
    if (off)
      without |= bit;
    else
      only |= bit;
    text = *end ? end + 1 : end;
  }
  return (only ? only : MASK_ALL) & ~without;
}

size_t det_state_size(void) {
  size_t n = 0;
  for (size_t i = 0; det_all[i]; i++) n += aligned(det_all[i]->state_size);
  return n;
}

void det_observe(void *state, uint32_t mask, const struct fact *fact, struct det_out *out) {
  char *at = state;
  for (size_t i = 0; det_all[i]; i++) {
    if (mask >> det_all[i]->g & 1) det_all[i]->observe(at, fact, out);
    at += aligned(det_all[i]->state_size);
  }
}
