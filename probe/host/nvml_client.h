/* nvml_client.h - who holds GPU memory, asked of NVML in a process of its own.
 *
 * An NVML call can take minutes when the machine is short of memory (public reports: 491 to 737 s), and may never return.
 * So the library is loaded and called in a helper alone: this very program, started again with a hidden verb. Who
 * asks never waits longer than it wants to; a helper that does not come back is killed, and where even that does nothing
 * (a process in uninterruptible sleep) it is left behind. The helper dies with the thread that started it.
 *
 * Not thread-safe: one thread starts, asks, takes and ends. That thread may have other threads beside it.
 */
#ifndef SPARKSHIM_NVML_CLIENT_H
#define SPARKSHIM_NVML_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* argv[1] by which the program knows that it is the helper. */
#define NVML_HELPER_VERB "nvml-helper"

/* main() of the helper; argv as the client made it. Closes every file but stdin and stdout. */
int nvml_helper_main(int argc, char **argv);

enum { NVML_PROCESSES = 256, NVML_NAME = 128, NVML_ERROR = 160 };

struct nvml_process {
  uint32_t pid;
  uint32_t graphics;    /* 1: it stands in the list of graphics processes alone */
  uint64_t bytes;       /* UINT64_MAX: NVML says N/A */
  char name[NVML_NAME]; /* as NVML has it; empty: it has none */
};

struct nvml_answer {
  int32_t result; /* nvmlReturn_t of the call that failed, 0: none did; -1: no call was made */
  uint32_t n;     /* of process[]; more than NVML_PROCESSES are not shown */
  uint32_t compute, graphics;
  char error[NVML_ERROR]; /* why there is no answer to be had; empty: there is one */
  struct nvml_process process[NVML_PROCESSES];
};

enum nvml_state {
  NVML_IDLE,    /* nothing asked */
  NVML_WAITING, /* asked, no answer yet */
  NVML_ANSWERED
};

struct nvml_client {
  pid_t pid;      /* of the helper; 0: none */
  int to, from;   /* pipes; negative: none */
  uint64_t asked; /* clock_us() of the question that waits; 0: none */
  size_t have;    /* bytes of `answer` that have come */
  struct nvml_answer answer;
};

#define NVML_CLIENT_NONE \
  { .to = -1, .from = -1 }

/* Asks, starting a helper where there is none. While a question waits this does nothing. 0 or negative errno: no helper
 * can be started. */
int nvml_ask(struct nvml_client *c);
/* Waits at most real_ms of real time. NVML_ANSWERED: c->answer is complete and the client idle again; also when the helper
 * has died, then with answer.error. */
enum nvml_state nvml_take(struct nvml_client *c, int real_ms);
/* Kills the helper and waits 100 ms for its end at most. The client is then as new. */
void nvml_end(struct nvml_client *c);

#endif
