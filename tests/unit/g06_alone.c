/* Property of G6: where no other process computes, and nothing was refused, nothing above INFO is said of other holders,
 * whatever the machine and the job do. All detectors of G6 together, on random hours. The same hours with a neighbour that
 * computes, and with refusals, do give warnings: else the first half would prove nothing. */
#include "holder_facts.h"

static uint64_t seed;
static unsigned chance(unsigned below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((seed >> 33) % below);
}

/* The machine: figures that move by themselves, now and then by jumps. */
struct hours {
  struct process p;
  struct fact_sample sample;
  uint64_t pace, in, out, full;
  bool neighbour, refusing;
  unsigned loud;
};

static void hear(struct det_out *out, const struct finding *f) {
  struct hours *h = (struct hours *)out;
  if (f->g == 6 && f->verdict > VERDICT_INFO) h->loud++;
}

static void send(struct hours *h, struct fact f) {
  f.t = h->p.now;
  det_observe(h->p.state, det_mask("G6"), &f, &h->p.out);
}

static void change(struct hours *h) {
  uint64_t available = chance(8) ? chance(120) * GIB : chance(1024) * MIB;
  uint64_t cached = available ? chance(1 + (unsigned)(available / MIB)) * MIB : 0;
  h->p.mem = memory(available - cached, available, cached);
  h->p.mem.swap_free = h->p.mem.swap_total - chance(16) * GIB;
  h->pace = chance(4) ? chance(2000) : 0;
  h->in = chance(3) ? 0 : chance(200000);
  h->out = chance(3) ? 0 : chance(200000);
  h->full = chance(2) ? 0 : chance(900000);
}

static void sample(struct hours *h) {
  struct fact f = {.kind = FACT_KIND_sample};
  h->sample.mem = h->p.mem;
  h->sample.job_work += h->pace;
  h->sample.pswpin += h->in;
  h->sample.pswpout += h->out;
  h->sample.full_total += h->full;
  h->sample.full_avg10 = h->full / 100;
  h->sample.pgmajfault += chance(5);
  if (chance(50) == 0) h->sample.job_work = chance(1000); /* a process of the job has ended */
  f.u.sample = h->sample;
  send(h, f);
}

static void tell_holder(struct hours *h, struct fact_holder holder) {
  struct fact f = {.kind = FACT_KIND_holder};
  f.u.holder = holder;
  send(h, f);
}

static void look_around(struct hours *h) {
  struct fact f = {.kind = FACT_KIND_nvml};
  struct fact_holder mine = holding(77 + chance(2), "python3", chance(10) ? chance(120) * GIB : NO);
  mine.ours = true;
  if (chance(8)) tell_holder(h, mine);
  for (unsigned i = chance(4); i; i--)
    tell_holder(h, graphics(1 + i, "gnome-shell", chance(5) ? chance(561) * MIB : NO));
  if (h->neighbour) tell_holder(h, service(812, "/usr/bin/ollama", 40 * GIB, "ollama.service"));
  f.u.nvml = (struct fact_nvml){.call = "processes", .answered = chance(10) != 0};
  send(h, f);
  f = (struct fact){.kind = FACT_KIND_split};
  f.u.split = (struct fact_split){.why = "tick",
                                  .total = TOTAL,
                                  .device_job = chance(60) * GIB,
                                  .device_others = 0,
                                  .device_nobody = chance(3) ? chance(50) * GIB : NO,
                                  .pinned = chance(20) * GIB,
                                  .driver = chance(100) * GIB};
  send(h, f);
}

static void call(struct hours *h) {
  struct fact f = {.kind = FACT_KIND_mem_query};
  f.u.mem_query = (struct fact_mem_query){
      .call = "cudaMemGetInfo", .free = h->p.mem.free, .total = TOTAL, .mem = h->p.mem};
  if (chance(2)) {
    f = (struct fact){.kind = FACT_KIND_alloc_failed};
    f.u.alloc_failed = (struct fact_alloc_failed){.call = "cudaMalloc",
                                                  .route = "device",
                                                  .size = 4 * GIB,
                                                  .result = h->refusing ? 2 : 700,
                                                  .repeat = 1,
                                                  .last = NO,
                                                  .live_device = NO,
                                                  .live_pinned = NO,
                                                  .mem = h->p.mem};
  }
  send(h, f);
}

/* One run of up to an hour. */
static unsigned play(bool neighbour, bool refusing) {
  struct hours h;
  memset(&h, 0, sizeof h);
  memset(&h.sample, 0xff, sizeof h.sample);
  h.p.out.emit = hear;
  h.p.state = calloc(1, det_state_size());
  h.p.now = START;
  h.neighbour = neighbour, h.refusing = refusing;
  h.sample.page_size = 4096;
  h.sample.job_work = h.sample.pswpin = h.sample.pswpout = h.sample.full_total = h.sample.pgmajfault = 0;
  assert_non_null(h.p.state);
  struct fact f = {.kind = FACT_KIND_header};
  f.u.header = (struct fact_header){.writer = "shim", .uid = OUR_UID, .gpu = chance(5) ? "NVIDIA GB10" : NULL};
  send(&h, f);
  change(&h);
  for (unsigned second = chance(3600); second; second--) {
    if (chance(40) == 0) change(&h);
    if (chance(5) == 0) look_around(&h);
    if (chance(20) == 0) call(&h);
    sample(&h);
    wait_s(&h.p, chance(30) ? 1 : chance(60));
  }
  f = (struct fact){.kind = FACT_KIND_exit};
  f.u.exit = (struct fact_exit){
      .status = chance(3), .signal = FACT_NO_I64, .last_activity = chance(2) ? NO : h.p.now, .mem = h.p.mem};
  send(&h, f);
  free(h.p.state);
  return h.loud;
}

static void alone_and_granted_nothing_is_said(void **state) {
  (void)state;
  seed = 1;
  for (int round = 0; round < 150; round++) assert_int_equal(play(false, false), 0);
}

/* Refusals without a neighbour are G3's alone. */
static void alone_and_refused_nothing_is_said(void **state) {
  (void)state;
  seed = 2;
  for (int round = 0; round < 150; round++) assert_int_equal(play(false, true), 0);
}

static void beside_another_it_is(void **state) {
  unsigned swapping = 0, refused = 0;
  (void)state;
  seed = 3;
  for (int round = 0; round < 40; round++) swapping += play(true, false) > 0, refused += play(true, true) > 0;
  assert_true(swapping > 5); /* swap_pressure */
  assert_true(refused > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(alone_and_granted_nothing_is_said),
      cmocka_unit_test(alone_and_refused_nothing_is_said),
      cmocka_unit_test(beside_another_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
