/* ipc.c - memory and an event shared by two processes; memory of a process that is killed comes back. */
#include <cuda.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

struct message {
  CUipcMemHandle memory;
  CUipcEventHandle event;
};

static void start(void) {
  CUcontext c;
  EQUAL(cuInit(0) | cuDevicePrimaryCtxRetain(&c, 0) | cuCtxSetCurrent(c), 0);
}

/* Exports a GiB with a word in it, waits to be killed. */
static void exporter(int out) {
  struct message m;
  CUdeviceptr d;
  CUevent e;
  start();
  EQUAL(cuMemAlloc(&d, 1 << 30) | cuMemsetD32(d + 4096, 1234, 1), 0);
  EQUAL(cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), 0);
  EQUAL(cuIpcGetMemHandle(&m.memory, d) | cuIpcGetEventHandle(&m.event, e), 0);
  if (check_failures || write(out, &m, sizeof m) != sizeof m) _exit(1);
  for (;;) pause();
}

int main(void) {
  int fd[2];
  struct message m;
  unsigned word = 0, changed = 99;
  CUdeviceptr d, own;
  CUevent e;
  long long before = meminfo("MemFree");
  if (pipe(fd)) return 1;
  pid_t pid = fork();
  if (!pid) exporter(fd[1]);
  if (read(fd[0], &m, sizeof m) != sizeof m) return 1;
  start();
  EQUAL(meminfo("MemFree"), before - 1048576);
  EQUAL(cuIpcOpenMemHandle(&d, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), 0);
  EQUAL(cuMemcpyDtoH(&word, d + 4096, 4), 0);
  EQUAL(word, 1234);
  EQUAL(cuMemcpyHtoD(d + 4096, &changed, 4), 0);
  EQUAL(cuIpcOpenEventHandle(&e, m.event) | cuEventQuery(e), 0);
  EQUAL(meminfo("MemFree"), before - 1048576); /* opened, not taken again */
  EQUAL(cuIpcCloseMemHandle(d), 0);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  EQUAL(cuMemAlloc(&own, 64), 0);
  for (int i = 0; i < 100 && meminfo("MemFree") < before - 1024; i++) usleep(20000);
  EQUAL(meminfo("MemFree") >= before - 1024, 1);
  pid = fork(); /* a child of a process that has used the driver cannot use it */
  if (!pid) _exit(cuMemAlloc(&own, 64) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  int status = 1;
  waitpid(pid, &status, 0);
  EQUAL(status, 0);
  return check_failures != 0;
}
