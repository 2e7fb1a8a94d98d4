/* nvml.c - what the stand-in for libnvidia-ml.so.1 answers: as on GB10, and moving with its world. The types and
 * numbers are those of NVML's public ABI, declared here because nvml.h is not at hand in every build. */
#include <dlfcn.h>
#include <stdint.h>

#include "../gb10sim/gb10sim.h"
#include "check.h"

enum {
  SUCCESS = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  TOO_SMALL = 7,
  LOST = 15
};

typedef struct device *nvmlDevice_t;
struct process {
  unsigned pid;
  unsigned long long memory;
  unsigned instance, compute_instance;
};
struct field {
  unsigned id, scope;
  long long t, latency;
  int type, result;
  union {
    double d;
    unsigned ui;
    unsigned long long ull;
  } value;
};

static void *nvml;

/* NVML's functions take integers and pointers only, and all return an int. */
typedef int (*nvml_function)(uintptr_t a, uintptr_t b, uintptr_t c);
static int call(const char *name, uintptr_t a, uintptr_t b, uintptr_t c) {
  nvml_function f = (nvml_function)dlsym(nvml, name);
  if (f) return f(a, b, c);
  printf("%s is missing\n", name);
  check_failures++;
  return -1;
}
#define NVML(name, a, b, c) call("nvml" name, (uintptr_t)(a), (uintptr_t)(b), (uintptr_t)(c))

static nvmlDevice_t start(void) {
  nvmlDevice_t d = NULL;
  unsigned n = 99;
  EQUAL(NVML("DeviceGetCount_v2", &n, 0, 0), UNINITIALIZED);
  EQUAL(NVML("Init_v2", 0, 0, 0), SUCCESS);
  EQUAL(NVML("DeviceGetCount_v2", &n, 0, 0), SUCCESS);
  EQUAL(n, 1);
  EQUAL(NVML("DeviceGetHandleByIndex_v2", 1, &d, 0), INVALID_ARGUMENT);
  EQUAL(NVML("DeviceGetHandleByPciBusId_v2", "00000000:FF:00.0", &d, 0), NOT_FOUND);
  EQUAL(NVML("DeviceGetHandleByIndex_v2", 0, &d, 0), SUCCESS);
  return d;
}

static void identity(nvmlDevice_t d) {
  char text[96] = "";
  nvmlDevice_t again = NULL;
  int major = 0, minor = 0;
  EQUAL(NVML("DeviceGetName", d, text, sizeof text), SUCCESS);
  EQUAL(strcmp(text, "NVIDIA GB10"), 0);
  EQUAL(NVML("DeviceGetName", d, text, 3), TOO_SMALL);
  EQUAL(NVML("DeviceGetCudaComputeCapability", d, &major, &minor), SUCCESS);
  EQUAL(major * 10 + minor, 121);
  EQUAL(NVML("DeviceGetUUID", d, text, sizeof text), SUCCESS);
  EQUAL(NVML("DeviceGetHandleByUUID", text, &again, 0), SUCCESS);
  EQUAL(again == d, 1);
  EQUAL(NVML("SystemGetDriverVersion", text, sizeof text, 0), SUCCESS);
  EQUAL(strcmp(text, "580.95.05"), 0);
  EQUAL(NVML("SystemGetProcessName", 4242, text, sizeof text), SUCCESS);
  EQUAL(strcmp(text, "VLLM::EngineCore"), 0);
}

/* GB10 has no memory of its own to tell of, and no memory clock. */
static void not_there(nvmlDevice_t d) {
  unsigned long long memory[8] = {0};
  unsigned value = 0;
  enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };
  EQUAL(NVML("DeviceGetMemoryInfo", d, memory, 0), NOT_SUPPORTED);
  EQUAL(NVML("DeviceGetFanSpeed", d, &value, 0), NOT_SUPPORTED);
  EQUAL(NVML("DeviceGetClockInfo", d, CLOCK_MEMORY, &value), NOT_SUPPORTED);
  EQUAL(NVML("DeviceGetClockInfo", d, CLOCK_SM, &value), SUCCESS);
  EQUAL(value, 2385);
}

static unsigned long long memory_of(const struct process *list, unsigned n, unsigned pid) {
  for (unsigned i = 0; i < n; i++)
    if (list[i].pid == pid) return list[i].memory;
  return 0;
}

static void processes(nvmlDevice_t d, unsigned expected) {
  struct process list[8];
  unsigned n = 0;
  EQUAL(NVML("DeviceGetComputeRunningProcesses_v3", d, &n, NULL), TOO_SMALL);
  EQUAL(n, expected);
  n = sizeof list / sizeof *list;
  EQUAL(NVML("DeviceGetComputeRunningProcesses_v3", d, &n, list), SUCCESS);
  EQUAL(n, expected);
  EQUAL(memory_of(list, n, 4242), expected == 2 ? 104277ULL << 20 : 0);
  EQUAL(memory_of(list, n, 4300), ~0ULL); /* N/A */
  n = sizeof list / sizeof *list;
  EQUAL(NVML("DeviceGetGraphicsRunningProcesses_v3", d, &n, list), SUCCESS);
  EQUAL(n, 2);
  EQUAL(memory_of(list, n, 2101), 43ULL << 20);
}

static void state(nvmlDevice_t d) {
  struct field field[3] = {{.id = 269}, {.id = 83}, {.id = 1}};
  unsigned long long reasons = 0;
  unsigned power = 0;
  EQUAL(NVML("DeviceGetPowerUsage", d, &power, 0), SUCCESS);
  EQUAL(power, 38000);
  EQUAL(NVML("DeviceGetCurrentClocksEventReasons", d, &reasons, 0), SUCCESS);
  EQUAL(reasons, 0x20);
  EQUAL(NVML("DeviceGetFieldValues", d, 3, field), SUCCESS);
  EQUAL(field[0].result, SUCCESS);
  EQUAL(field[0].value.ull, 30ULL * 1000 * 1000 * 1000);
  EQUAL(field[1].result, SUCCESS);
  EQUAL(field[1].value.ull, 5000000);
  EQUAL(field[2].result, NOT_SUPPORTED);
}

static void faults(nvmlDevice_t d) {
  unsigned value = 0;
  EQUAL(NVML("DeviceGetTemperature", d, 0, &value), SUCCESS);
  EQUAL(value, 40);
  EQUAL(NVML("DeviceGetTemperature", d, 0, &value), LOST);
  EQUAL(NVML("DeviceGetTemperature", NULL, 0, &value), INVALID_ARGUMENT);
}

int main(void) {
  void (*mark)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "gb10sim_mark");
  unsigned power = 0;
  nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!nvml || !mark) return printf("the stand-ins are not there\n"), 1;
  nvmlDevice_t d = start();
  identity(d);
  not_there(d);
  processes(d, 2);
  state(d);
  faults(d);
  mark("later");
  processes(d, 1);
  EQUAL(NVML("DeviceGetPowerUsage", d, &power, 0), SUCCESS);
  EQUAL(power, 97000);
  EQUAL(NVML("Shutdown", 0, 0, 0), SUCCESS);
  EQUAL(NVML("DeviceGetPowerUsage", d, &power, 0), UNINITIALIZED);
  return check_failures ? 1 : 0;
}
