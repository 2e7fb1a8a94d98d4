/* Tests of G6 about memory, on facts: who holds what was missing; every look-alike; what must never be said. */
#include "holder_facts.h"

extern const struct detector det_g06_holders;

static struct fact_memory used_up(void) { return memory(900 * MIB, 1100 * MIB, 700 * MIB); }
static struct fact_memory little_left(void) { return memory(9000 * MIB, 9400 * MIB, 1200 * MIB); }
static struct fact_memory idle(void) { return memory(97 * GIB, 114 * GIB, 17 * GIB); }

static void begin(struct process *p, struct fact_memory mem) { start(p, &det_g06_holders, mem); }

static struct fact_holder ollama(uint64_t bytes) { return service(812, "/usr/bin/ollama", bytes, "ollama.service"); }
static struct fact_holder engine(uint64_t watched) { return orphan(4242, "VLLM::EngineCore", 104277 * MIB, watched); }

/* A look that lists a process of the job as well. */
static void look_beside_us(struct process *p, struct fact_holder h) {
  struct fact_holder both[] = {h, holding(77, "python3", 20 * GIB)};
  both[1].ours = true;
  look(p, both, 2);
}

/* ---- a refusal ------------------------------------------------------------------------------------------------------------ */

static void refused_for_the_sake_of_a_service(void **state) {
  struct process p;
  (void)state;
  begin(&p, idle());
  look_at(&p, ollama(19456 * MIB));
  assert_said(&p, VERDICT_INFO, "other_holder", CONFIDENCE_HIGH);
  wait_s(&p, 5);
  p.mem = used_up();
  refuse(&p, 4 * GIB);
  assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&p)->text, "ollama (pid 812, service ollama.service) holds 19.0 GiB"));
  assert_non_null(strstr(last(&p)->fixes.item[0], "systemctl stop ollama.service"));
  wait_s(&p, 1);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_HIGH);
  assert_int_equal(last(&p)->retry, RETRY_USELESS);
  assert_true(last(&p)->t == START + 5 * SECOND); /* of the refusal: earlier than what else the end is blamed on */
  stop(&p);
}

/* Without the process the request would have been refused all the same. */
static void what_it_holds_is_not_enough(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  look_at(&p, ollama(19 * GIB));
  refuse(&p, 19 * GIB); /* 19 + 1.9 of reserve, and 1.1 are there */
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
  begin(&p, used_up());
  look_at(&p, ollama(21 * GIB));
  refuse(&p, 19 * GIB);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_HIGH);
  stop(&p);
}

static void page_cache_was_in_the_way_not_the_process(void **state) {
  struct process p;
  (void)state;
  begin(&p, memory(900 * MIB, 60 * GIB, 60 * GIB));
  look_at(&p, ollama(19 * GIB));
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
}

static void errors_that_are_not_about_memory(void **state) {
  static const int64_t results[] = {1, 3, 100, 700, 719, 999};
  struct process p;
  (void)state;
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
    begin(&p, used_up());
    look_at(&p, ollama(19 * GIB));
    refuse_as(&p, "cudaMalloc", "device", 4 * GIB, results[i]);
    end(&p, 1, START);
    assert_quiet(&p);
    stop(&p);
  }
}

static void a_retry_that_is_granted_withdraws(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  look_at(&p, ollama(19 * GIB));
  refuse(&p, 4 * GIB);
  assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
  grant(&p, 2 * GIB); /* smaller: settles nothing */
  assert_int_equal(left_at(&p, "other_holder"), VERDICT_WARN);
  grant(&p, 4 * GIB);
  assert_int_equal(left_at(&p, "other_holder"), VERDICT_INFO);
  end(&p, 1, START);
  assert_int_equal(left_at(&p, "other_holder"), VERDICT_INFO);
  stop(&p);
}

static void caught_and_ended_well(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  look_at(&p, ollama(19 * GIB));
  refuse(&p, 4 * GIB);
  wait_s(&p, 2);
  end(&p, 0, p.now);
  assert_int_equal(left_at(&p, "other_holder"), VERDICT_INFO);
  stop(&p);
}

/* The rule of the end: work afterwards, a long time, or a signal from outside prove nothing. */
static void what_the_end_proves(void **state) {
  static const struct {
    int64_t status;
    uint64_t later, worked;
    enum verdict verdict;
  } rows[] = {{1, 1, 0, VERDICT_FAIL},  {134, 1, 0, VERDICT_FAIL}, {1, 29, 0, VERDICT_FAIL},  {1, 31, 0, VERDICT_WARN},
              {1, 10, 5, VERDICT_WARN}, {143, 1, 0, VERDICT_WARN}, {137, 1, 0, VERDICT_WARN}, {0, 1, 0, VERDICT_INFO}};
  struct process p;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin(&p, used_up());
    look_at(&p, ollama(19 * GIB));
    refuse(&p, 4 * GIB);
    wait_s(&p, rows[i].later);
    end(&p, rows[i].status, rows[i].worked ? START + rows[i].worked * SECOND : NO);
    assert_int_equal(left_at(&p, "other_holder"), rows[i].verdict);
    stop(&p);
  }
}

/* A job that grows until nothing is left meets a small neighbour: it would fit today, and not tomorrow. */
static void a_small_neighbour_is_only_one_of_two_causes(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  look_at(&p, ollama(3 * GIB));
  refuse(&p, 20 * MIB);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_MEDIUM);
  stop(&p);
  begin(&p, used_up());
  look_at(&p, ollama(1 * GIB)); /* less than what the machine keeps for itself */
  refuse(&p, 20 * MIB);
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
}

static void several_together(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  const struct fact_holder list[] = {holding(10, "/opt/asr", 5 * GIB), holding(11, "/opt/tts", 6 * GIB),
                                     graphics(12, "/usr/lib/xorg/Xorg", 559 * MIB)};
  look(&p, list, 3);
  refuse(&p, 9 * GIB);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_HIGH);
  assert_non_null(
      strstr(last(&p)->text, "2 other processes hold 11.0 GiB of GPU memory, the largest, 6.0 GiB, tts (pid 11)"));
  assert_true(list_says(&last(&p)->evidence, "process 10 holds 5.0 GiB"));
  stop(&p);
}

/* ---- look-alikes ------------------------------------------------------------------------------------------------------------ */

static void a_desktop_is_ordinary(void **state) {
  struct process p;
  (void)state;
  const struct fact_holder list[] = {graphics(1, "/usr/lib/xorg/Xorg", 559 * MIB),
                                     graphics(2, "/usr/bin/gnome-shell", 349 * MIB), graphics(3, "/usr/bin/kwin", NO)};
  begin(&p, used_up());
  look(&p, list, 3);
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_int_equal(p.said, 0);
  stop(&p);
  begin(&p, used_up()); /* a renderer is no desktop */
  look_at(&p, graphics(4, "/opt/blender", 30 * GIB));
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_HIGH);
  stop(&p);
}

static void what_belongs_to_the_job_is_no_other(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  struct fact_holder mine = holding(77, "python3", 90 * GIB);
  mine.ours = true;
  look_at(&p, mine);
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_int_equal(p.said, 0);
  stop(&p);
}

/* In both lists of NVML: one process, counted once. */
static void listed_twice_is_one(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  struct fact_holder twice[] = {graphics(5, "/opt/game", 12 * GIB), holding(5, "/opt/game", 12 * GIB)};
  look(&p, twice, 2);
  refuse(&p, 20 * GIB);
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
}

/* In a container NVML has the host's numbers: what it lists and nobody sees may be the job. */
static void the_job_itself_under_another_number(void **state) {
  struct process p;
  struct fact_holder h = holding(81234, NULL, 110 * GIB);
  (void)state;
  h.unseen = true, h.ppid = h.uid = NO, h.watched = 60 * SECOND;
  begin(&p, used_up());
  look_at(&p, h);
  ask(&p);
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_int_equal(p.said, 0);
  stop(&p);
  begin(&p, used_up()); /* it had not taken anything: one of its kin at most */
  look_at(&p, h);
  refuse_holding(&p, 4 * GIB, 0);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_MEDIUM);
  stop(&p);
}

static void nobody_asked_nvml(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_int_equal(p.said, 0);
  stop(&p);
  begin(&p, used_up()); /* asked, and no answer came: what was told of the look does not count */
  struct fact f = {.kind = FACT_KIND_holder};
  f.u.holder = ollama(19 * GIB);
  tell(&p, f);
  f = (struct fact){.kind = FACT_KIND_nvml};
  f.u.nvml = (struct fact_nvml){.call = "processes", .answered = false, .waited = 10 * SECOND};
  tell(&p, f);
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_int_equal(p.said, 0);
  stop(&p);
}

static void a_gpu_with_memory_of_its_own(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  struct fact f = {.kind = FACT_KIND_header};
  f.u.header = (struct fact_header){.writer = "shim", .uid = OUR_UID, .gpu = "NVIDIA H100"};
  tell(&p, f);
  look_at(&p, ollama(19 * GIB));
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_int_equal(p.said, 0);
  stop(&p);
}

/* It had come and gone, or came only afterwards: when nobody had looked shortly before, that is said. */
static void looks_and_refusals_in_time(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up()); /* the first look comes after the refusal */
  refuse(&p, 4 * GIB);
  wait_s(&p, 2);
  look_at(&p, ollama(19 * GIB));
  assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_MEDIUM);
  stop(&p);
  begin(&p, used_up()); /* too late to say anything */
  refuse(&p, 4 * GIB);
  wait_s(&p, 12);
  look_at(&p, ollama(19 * GIB));
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
  begin(&p, used_up()); /* nothing new was to be seen since */
  look_at(&p, ollama(19 * GIB));
  wait_s(&p, 140);
  refuse(&p, 4 * GIB);
  assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p, used_up()); /* NVML does not answer any more */
  look_at(&p, ollama(19 * GIB));
  struct fact wait = {.kind = FACT_KIND_nvml};
  wait.u.nvml = (struct fact_nvml){.call = "processes", .answered = false, .waited = 2 * SECOND};
  wait_s(&p, 31);
  tell(&p, wait);
  refuse(&p, 4 * GIB);
  assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_MEDIUM);
  wait_s(&p, 2); /* the look that follows lists it still, with an earlier time */
  struct fact_holder later = ollama(19 * GIB);
  later.watched = 33 * SECOND; /* answered after all */
  look_at(&p, later);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_HIGH);
  stop(&p);
  begin(&p, used_up()); /* it had ended before */
  look_at(&p, ollama(19 * GIB));
  wait_s(&p, 5);
  look(&p, NULL, 0);
  wait_s(&p, 1);
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
}

static void it_has_ended_since(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  look_at(&p, ollama(19 * GIB));
  refuse(&p, 4 * GIB);
  wait_s(&p, 1);
  look(&p, NULL, 0);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_HIGH);
  assert_int_equal(last(&p)->retry, RETRY_MAY_HELP);
  assert_non_null(strstr(last(&p)->fixes.item[0], "try again"));
  stop(&p);
}

static void a_size_that_nvml_does_not_tell(void **state) {
  struct process p;
  const struct fact_holder two[] = {ollama(NO), holding(813, "/opt/tts", NO)};
  (void)state;
  begin(&p, used_up()); /* what is left of MemTotal tells */
  p.mem.anon = 10 * GIB;
  look_at(&p, ollama(NO));
  refuse_holding(&p, 4 * GIB, 80 * GIB);
  end(&p, 1, START);
  assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_MEDIUM);
  assert_non_null(strstr(last(&p)->text, "holds about 28.7 GiB"));
  stop(&p);
  begin(&p, used_up()); /* of two it does not */
  look(&p, two, 2);
  refuse_holding(&p, 4 * GIB, 80 * GIB);
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
  begin(&p, used_up()); /* it is all the job's */
  p.mem.anon = 4 * GIB;
  look_at(&p, ollama(NO));
  refuse_holding(&p, 4 * GIB, 115 * GIB);
  end(&p, 1, START);
  assert_quiet(&p);
  stop(&p);
}

/* ---- orphans ------------------------------------------------------------------------------------------------------------------ */

static void start_fails_beside_an_orphan(void **state) {
  struct process p;
  (void)state;
  begin(&p, little_left());
  look_at(&p, engine(0));
  assert_int_equal(p.said, 0); /* it may be gone in a moment */
  wait_s(&p, 11);
  look_at(&p, engine(11 * SECOND));
  assert_said(&p, VERDICT_WARN, "orphan_holder", CONFIDENCE_HIGH);
  ask(&p);
  wait_s(&p, 1);
  end(&p, 1, NO);
  assert_said(&p, VERDICT_FAIL, "orphan_holder", CONFIDENCE_HIGH);
  assert_non_null(strstr(last(&p)->text, "VLLM::EngineCore (pid 4242) holds 101.8 GiB"));
  assert_non_null(strstr(last(&p)->fixes.item[0], "kill 4242"));
  assert_true(list_says(&last(&p)->ruled_out, "memory that is still coming back"));
  assert_int_equal(left_at(&p, "other_holder"), VERDICT_PASS);
  stop(&p);
}

/* gpu-07: the engine crashed three seconds ago, and its memory comes back. */
static void a_crash_is_given_time(void **state) {
  struct process p;
  (void)state;
  begin(&p, little_left());
  for (unsigned s = 0; s < 5; s++, wait_s(&p, 1)) look_at(&p, engine(s * SECOND));
  look(&p, NULL, 0);
  wait_s(&p, 20);
  look(&p, NULL, 0);
  end(&p, 0, p.now);
  assert_int_equal(p.said, 0);
  stop(&p);
}

/* Refused before the patience is over: it is another holder, and whether it is one for long is not known. */
static void refused_while_it_may_be_ending(void **state) {
  struct process p;
  (void)state;
  begin(&p, used_up());
  look_at(&p, engine(0));
  wait_s(&p, 3);
  refuse(&p, 4 * GIB);
  assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_MEDIUM);
  assert_int_equal(last(&p)->retry, RETRY_MAY_HELP);
  wait_s(&p, 8);
  look_at(&p, engine(11 * SECOND)); /* now it is known */
  assert_int_equal(left_at(&p, "other_holder"), VERDICT_INFO);
  assert_int_equal(left_at(&p, "orphan_holder"), VERDICT_WARN);
  wait_s(&p, 1);
  end(&p, 1, NO);
  assert_said(&p, VERDICT_FAIL, "orphan_holder", CONFIDENCE_HIGH);
  stop(&p);
}

/* Each reading that makes it somebody's. */
static void no_orphans(void **state) {
  struct process p;
  (void)state;
  for (int what = 0; what < 6; what++) {
    struct fact_holder h = engine(60 * SECOND);
    if (what == 0) h.ppid = 4000;
    if (what == 1) h.session_gone = false;
    if (what == 2) h.managed = "service", h.unit = "vllm.service";
    if (what == 3) h.managed = "container", h.unit = "0123456789ab";
    if (what == 4) h.managed = "user-service", h.unit = "vllm.service";
    if (what == 5) h.unseen = true;
    begin(&p, little_left());
    look_beside_us(&p, h);
    assert_int_equal(left_at(&p, "orphan_holder"), VERDICT_PASS);
    assert_said(&p, VERDICT_INFO, "other_holder", CONFIDENCE_HIGH);
    ask(&p);
    end(&p, 1, NO);
    assert_said(&p, VERDICT_FAIL, "other_holder", CONFIDENCE_HIGH);
    assert_int_equal(left_at(&p, "orphan_holder"), VERDICT_PASS);
    stop(&p);
  }
}

static void an_orphan_that_works(void **state) {
  struct process p;
  struct fact_holder h = engine(60 * SECOND);
  (void)state;
  h.idle = SECOND;
  begin(&p, idle());
  look_at(&p, h);
  assert_said(&p, VERDICT_WARN, "orphan_holder", CONFIDENCE_MEDIUM);
  assert_true(list_says(&last(&p)->evidence, "detached on purpose"));
  h.idle = NO; /* nobody looked */
  stop(&p);
  begin(&p, idle());
  look_at(&p, h);
  assert_said(&p, VERDICT_WARN, "orphan_holder", CONFIDENCE_MEDIUM);
  stop(&p);
}

/* A job that ends well beside an orphan, one that goes away, one that is small. */
static void orphans_without_harm(void **state) {
  struct process p;
  (void)state;
  begin(&p, idle());
  look_at(&p, engine(20 * SECOND));
  end(&p, 0, p.now);
  assert_int_equal(left_at(&p, "orphan_holder"), VERDICT_INFO);
  stop(&p);
  for (int exit = 0; exit < 2; exit++) { /* the launcher's own eyes see no more than that */
    struct fact f = {.kind = FACT_KIND_job_end};
    f.u.job_end = (struct fact_job_end){.pid = 7, .exit = exit, .signal = FACT_NO_I64};
    begin(&p, idle());
    look_at(&p, engine(20 * SECOND));
    tell(&p, f);
    assert_int_equal(left_at(&p, "orphan_holder"), exit ? VERDICT_WARN : VERDICT_INFO);
    stop(&p);
  }
  begin(&p, idle());
  look_at(&p, engine(20 * SECOND));
  look(&p, NULL, 0);
  assert_int_equal(left_at(&p, "orphan_holder"), VERDICT_INFO);
  stop(&p);
  begin(&p, idle());
  look_at(&p, orphan(9, "python3", 600 * MIB, 20 * SECOND));
  assert_int_equal(p.said, 0);
  stop(&p);
}

/* Of an orphan and a service, the one whose memory comes back without harm is named, where it is enough. */
static void the_orphan_is_named_first(void **state) {
  struct process p;
  (void)state;
  const struct fact_holder both[] = {ollama(60 * GIB), orphan(9, "VLLM::EngineCore", 20 * GIB, 20 * SECOND)};
  begin(&p, used_up());
  look(&p, both, 2);
  refuse(&p, 4 * GIB);
  end(&p, 1, START);
  assert_int_equal(left_at(&p, "orphan_holder"), VERDICT_FAIL);
  assert_true(left_at(&p, "other_holder") <= VERDICT_INFO);
  stop(&p);
  begin(&p, used_up());
  look(&p, both, 2);
  refuse(&p, 40 * GIB);
  end(&p, 1, START);
  assert_int_equal(left_at(&p, "other_holder"), VERDICT_FAIL);
  stop(&p);
}

/* ---- the free figure ------------------------------------------------------------------------------------------------------------ */

static void a_figure_proves_little(void **state) {
  static const struct {
    uint64_t available, bytes;
    enum verdict verdict;
    enum confidence confidence;
  } rows[] = {{9, 100, VERDICT_FAIL, CONFIDENCE_HIGH},
              {30, 80, VERDICT_FAIL, CONFIDENCE_MEDIUM},
              {9, 58, VERDICT_FAIL, CONFIDENCE_MEDIUM},
              {9, 30, VERDICT_INFO, CONFIDENCE_HIGH},
              {95, 19, VERDICT_INFO, CONFIDENCE_HIGH}};
  struct process p;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin(&p, memory(rows[i].available * GIB - 500 * MIB, rows[i].available * GIB, GIB));
    look_at(&p, ollama(rows[i].bytes * GIB));
    ask(&p);
    wait_s(&p, 1);
    end(&p, 1, NO);
    assert_said(&p, rows[i].verdict, "other_holder", rows[i].confidence);
    stop(&p);
  }
  begin(&p, little_left()); /* it worked after that */
  look_at(&p, ollama(100 * GIB));
  ask(&p);
  wait_s(&p, 5);
  end(&p, 1, START + 2 * SECOND);
  assert_quiet(&p);
  stop(&p);
  begin(&p, little_left()); /* a crash is no decision */
  look_at(&p, ollama(100 * GIB));
  ask(&p);
  end(&p, 139, NO);
  assert_quiet(&p);
  stop(&p);
}

/* ---- before a job ------------------------------------------------------------------------------------------------------------- */

static void preflight(struct process *p) {
  struct fact f = {.kind = FACT_KIND_split};
  f.u.split = (struct fact_split){.why = "preflight", .device_nobody = NO, .driver = NO};
  tell(p, f);
}

static void before_a_job(void **state) {
  struct process p;
  (void)state;
  for (int split_first = 0; split_first < 2; split_first++) {
    begin(&p, idle());
    if (split_first) preflight(&p);
    look_at(&p, ollama(19456 * MIB));
    if (!split_first) preflight(&p);
    assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
    stop(&p);
  }
  begin(&p, idle());
  const struct fact_holder desktop[] = {graphics(1, "/usr/lib/xorg/Xorg", 559 * MIB), holding(2, "/opt/x", 300 * MIB)};
  look(&p, desktop, 2);
  preflight(&p);
  assert_int_equal(p.said, 0);
  stop(&p);
  begin(&p, idle());
  for (uint64_t s = 0; s < 10; s++) look_at(&p, engine(s * SECOND)), preflight(&p), wait_s(&p, 1);
  assert_int_equal(p.said, 0);
  look_at(&p, engine(10 * SECOND));
  assert_said(&p, VERDICT_WARN, "orphan_holder", CONFIDENCE_HIGH);
  stop(&p);
}

/* ---- whose it is ---------------------------------------------------------------------------------------------------------------- */

static void fixes_say_whose_it_is(void **state) {
  static const struct {
    const char *managed, *unit, *user;
    uint64_t uid;
    bool unseen;
    const char *says, *text;
  } rows[] = {
      {"service", "ollama.service", NULL, 0, false, "sudo systemctl stop ollama.service", "service ollama.service"},
      {"user-service", "vllm.service", NULL, 1000, false, "systemctl --user stop vllm.service", "user service vllm"},
      {"container", "0123456789ab", NULL, 0, false, "docker stop 0123456789ab", "container 0123456789ab"},
      {NULL, NULL, "alice", 1001, false, "ask user alice, whose process it is", "user alice"},
      {NULL, NULL, NULL, 1001, false, "ask user 1001, whose process it is", "user 1001"},
      {NULL, NULL, NULL, OUR_UID, false, "end it: kill 812 (SIGTERM)", "server (pid 812)"},
      {NULL, NULL, NULL, FACT_NO_U64, true, "another PID namespace", "not visible here"},
  };
  struct process p;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fact_holder h = holding(812, "/opt/server", 30 * GIB);
    h.managed = rows[i].managed, h.unit = rows[i].unit, h.user = rows[i].user;
    h.uid = rows[i].uid, h.unseen = rows[i].unseen, h.watched = 20 * SECOND;
    begin(&p, used_up());
    look_beside_us(&p, h);
    refuse(&p, 4 * GIB);
    assert_said(&p, VERDICT_WARN, "other_holder", CONFIDENCE_HIGH);
    assert_non_null(strstr(last(&p)->fixes.item[0], rows[i].says));
    assert_non_null(strstr(last(&p)->text, rows[i].text));
    assert_false(list_says(&last(&p)->fixes, "kill -9"));
    stop(&p);
  }
  struct fact_holder h = engine(20 * SECOND); /* somebody else's orphan: never by force */
  h.uid = 1001;
  begin(&p, used_up());
  look_at(&p, h);
  assert_said(&p, VERDICT_WARN, "orphan_holder", CONFIDENCE_HIGH);
  assert_true(list_says(&last(&p)->fixes, "ask user 1001"));
  assert_false(list_says(&last(&p)->fixes, "kill -9"));
  stop(&p);
}

/* ---- what is never said --------------------------------------------------------------------------------------------------------- */

static uint64_t seed = 20260105;
static unsigned chance(uint64_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((seed >> 33) % below);
}

static struct fact_memory any_memory(void) {
  uint64_t available = chance(120) * GIB + chance(1024) * MIB;
  uint64_t free_bytes = available ? chance(available) : 0;
  return memory(free_bytes, available, available - free_bytes + chance(4) * GIB);
}

/* A fact that can come in any run: nothing is refused in it, and nobody else computes. */
static void harmless_fact(struct process *p) {
  struct fact_holder mine = holding(77, "python3", chance(120) * GIB), desk = graphics(1, "Xorg", chance(561) * MIB);
  mine.ours = true;
  if (chance(8) == 0) desk.bytes = NO;
  const struct fact_holder list[] = {mine, desk};
  struct fact f = {.kind = FACT_KIND_sample};
  wait_s(p, chance(30));
  p->mem = any_memory();
  switch (chance(6)) {
  case 0: look(p, list + chance(2), chance(2)); break;
  case 1: look(p, list, 2); break;
  case 2: ask(p); break;
  case 3: grant(p, chance(40) * GIB); break;
  case 4: refuse_as(p, "cudaMalloc", "device", chance(40) * GIB, 1 + (int64_t)(chance(2) ? 0 : 700)); break;
  default:
    f.u.sample = p->sample;
    f.u.sample.mem = p->mem;
    f.u.sample.pswpin = f.u.sample.pswpout = p->now / 7;
    f.u.sample.full_avg10 = chance(9000);
    tell(p, f);
  }
}

static void nobody_else_and_nothing_refused(void **state) {
  struct process p;
  (void)state;
  for (int round = 0; round < 3000; round++) {
    begin(&p, any_memory());
    for (unsigned n = 1 + chance(40); n; n--) harmless_fact(&p);
    if (chance(4) == 0) preflight(&p);
    end(&p, (int64_t)chance(3), chance(2) ? p.now : NO);
    for (unsigned i = 0; i < p.said; i++) assert_true(p.finding[i].verdict <= VERDICT_INFO);
    stop(&p);
  }
}

/* Figures that cannot be, holders without end, looks that are torn: no crash, and no lie about sizes. */
static void nonsense(void **state) {
  struct process p;
  (void)state;
  for (int round = 0; round < 2000; round++) {
    struct fact_holder list[40];
    begin(&p, any_memory());
    for (int i = 0; i < 40; i++) {
      list[i] = chance(2) ? orphan(chance(50), "x", chance(2) ? NO - chance(3) : chance(200) * GIB, chance(40) * SECOND)
                          : holding(chance(50), NULL, chance(90) * GIB);
      if (chance(3) == 0) list[i].ours = true;
      if (chance(3) == 0) list[i].name = list[i].argv = list[i].unit = NULL;
      if (chance(3) == 0) list[i].managed = chance(2) ? "service" : "container";
    }
    for (int i = 0; i < 6; i++) {
      look(&p, list, chance(41));
      refuse(&p, chance(3) ? chance(60) * GIB : NO);
      if (chance(3) == 0) grant(&p, 60 * GIB);
      wait_s(&p, chance(20));
    }
    end(&p, (int64_t)chance(2), NO);
    stop(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused_for_the_sake_of_a_service),
      cmocka_unit_test(what_it_holds_is_not_enough),
      cmocka_unit_test(page_cache_was_in_the_way_not_the_process),
      cmocka_unit_test(errors_that_are_not_about_memory),
      cmocka_unit_test(a_retry_that_is_granted_withdraws),
      cmocka_unit_test(caught_and_ended_well),
      cmocka_unit_test(what_the_end_proves),
      cmocka_unit_test(a_small_neighbour_is_only_one_of_two_causes),
      cmocka_unit_test(several_together),
      cmocka_unit_test(a_desktop_is_ordinary),
      cmocka_unit_test(what_belongs_to_the_job_is_no_other),
      cmocka_unit_test(listed_twice_is_one),
      cmocka_unit_test(the_job_itself_under_another_number),
      cmocka_unit_test(nobody_asked_nvml),
      cmocka_unit_test(a_gpu_with_memory_of_its_own),
      cmocka_unit_test(looks_and_refusals_in_time),
      cmocka_unit_test(it_has_ended_since),
      cmocka_unit_test(a_size_that_nvml_does_not_tell),
      cmocka_unit_test(start_fails_beside_an_orphan),
      cmocka_unit_test(a_crash_is_given_time),
      cmocka_unit_test(refused_while_it_may_be_ending),
      cmocka_unit_test(no_orphans),
      cmocka_unit_test(an_orphan_that_works),
      cmocka_unit_test(orphans_without_harm),
      cmocka_unit_test(the_orphan_is_named_first),
      cmocka_unit_test(a_figure_proves_little),
      cmocka_unit_test(before_a_job),
      cmocka_unit_test(fixes_say_whose_it_is),
      cmocka_unit_test(nobody_else_and_nothing_refused),
      cmocka_unit_test(nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
