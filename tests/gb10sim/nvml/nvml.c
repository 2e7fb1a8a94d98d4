/* nvml.c - a stand-in for libnvidia-ml.so.1: what NVML answers on GB10. See docs/gb10sim.md.
 *
 * What works there and what does not: facts/power_and_fabric.md, "What NVML gives on GB10" (memory info, memory
 * clock, power limits, fan, ECC and supported clocks are not supported). No nvml.h is at hand in every build, so
 * the few types are declared here, with the sizes and numbers of NVML's public ABI. Functions that are not
 * defined answer NOT_SUPPORTED (nvml.def).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "world.h"

#define EXPORT __attribute__((visibility("default")))

typedef int nvmlReturn_t;
enum {
  OK = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  DRIVER_NOT_LOADED = 9,
  GPU_IS_LOST = 15
};
typedef struct device *nvmlDevice_t;

typedef struct {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} nvmlPciInfo_t;
typedef struct {
  unsigned gpu, memory;
} nvmlUtilization_t;
typedef struct {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef struct {
  unsigned fieldId, scopeId;
  long long timestamp, latencyUsec;
  int valueType;
  nvmlReturn_t nvmlReturn;
  union {
    double d;
    unsigned ui;
    unsigned long ul;
    unsigned long long ull;
  } value;
} nvmlFieldValue_t;

static int initialised; /* atomic: count of nvmlInit */
static char the_device;
static const unsigned long long VALUE_NOT_AVAILABLE = ~0ull;

static int64_t figure(enum scalar id) { return world_get()->scalar[id]; }

/* Rules first; then the library must be initialised, and `d` be the device where there is one. */
#define ENTER(name)                                                             \
  do {                                                                          \
    int rule_ = world_call(name, 0);                                            \
    if (rule_) return rule_;                                                    \
    if (!__atomic_load_n(&initialised, __ATOMIC_ACQUIRE)) return UNINITIALIZED; \
  } while (0)
#define ENTER_DEVICE(name, d, out) \
  ENTER(name);                     \
  if ((d) != (nvmlDevice_t)&the_device || !(out)) return INVALID_ARGUMENT

static nvmlReturn_t init(void) {
  int rule = world_call("nvmlInit", 0);
  if (rule) return rule;
  if (!world_get() || !figure(SCALAR_devices)) return DRIVER_NOT_LOADED;
  __atomic_fetch_add(&initialised, 1, __ATOMIC_ACQ_REL);
  return OK;
}

EXPORT nvmlReturn_t nvmlInit(void) { return init(); }
EXPORT nvmlReturn_t nvmlInit_v2(void) { return init(); }
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  return init();
}
EXPORT nvmlReturn_t nvmlShutdown(void) {
  ENTER("nvmlShutdown");
  __atomic_fetch_sub(&initialised, 1, __ATOMIC_ACQ_REL);
  return OK;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t r) {
  static const char *const text[] = {"Success",
                                     "Uninitialized",
                                     "Invalid Argument",
                                     "Not Supported",
                                     "Insufficient Permissions",
                                     "Already Initialized",
                                     "Not Found",
                                     "Insufficient Size",
                                     "Insufficient External Power",
                                     "Driver Not Loaded",
                                     "Timeout"};
  return r >= 0 && r < (int)(sizeof text / sizeof text[0]) ? text[r]
         : r == GPU_IS_LOST                                ? "GPU is lost"
                                                           : "Unknown Error";
}

static nvmlReturn_t put_text(char *out, unsigned n, const char *text) {
  if (!out) return INVALID_ARGUMENT;
  if (strlen(text) >= n) return INSUFFICIENT_SIZE;
  strcpy(out, text);
  return OK;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned n) {
  ENTER("nvmlSystemGetDriverVersion");
  return put_text(out, n, world_get()->driver);
}
/* The library's version is "13." and the driver's: ASSUMED from releases of driver 580. */
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned n) {
  char text[48];
  ENTER("nvmlSystemGetNVMLVersion");
  snprintf(text, sizeof text, "%d.%s", (int)(figure(SCALAR_driver_cuda) / 1000), world_get()->driver);
  return put_text(out, n, text);
}
static nvmlReturn_t cuda_version(int *out) {
  if (!out) return INVALID_ARGUMENT;
  *out = (int)figure(SCALAR_driver_cuda);
  return OK;
}
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) {
  ENTER("nvmlSystemGetCudaDriverVersion");
  return cuda_version(out);
}
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) {
  ENTER("nvmlSystemGetCudaDriverVersion_v2");
  return cuda_version(out);
}

static nvmlReturn_t process_name(unsigned pid, char *out, unsigned n) {
  char text[WORLD_TEXT] = "";
  struct world *w = world_get();
  world_lock(w);
  for (int i = 0; i < WORLD_PROCS; i++)
    if (w->process[i].pid == (int)pid) snprintf(text, sizeof text, "%s", w->process[i].name);
  world_unlock(w);
  if (!text[0]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *f = fopen(path, "re");
    if (!f) return NOT_FOUND;
    if (!fgets(text, sizeof text, f)) text[0] = '\0';
    fclose(f);
    text[strcspn(text, "\n")] = '\0';
  }
  return put_text(out, n, text);
}
EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *out, unsigned n) {
  ENTER("nvmlSystemGetProcessName");
  return process_name(pid, out, n);
}

/* ---- finding the device ---- */

static nvmlReturn_t count(unsigned *out) {
  if (!out) return INVALID_ARGUMENT;
  *out = (unsigned)figure(SCALAR_devices);
  return OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *out) {
  ENTER("nvmlDeviceGetCount");
  return count(out);
}
EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out) {
  ENTER("nvmlDeviceGetCount_v2");
  return count(out);
}

static nvmlReturn_t handle(bool found, nvmlDevice_t *out) {
  if (!out) return INVALID_ARGUMENT;
  if (!found) return NOT_FOUND;
  *out = (nvmlDevice_t)&the_device;
  return OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned i, nvmlDevice_t *out) {
  ENTER("nvmlDeviceGetHandleByIndex");
  return i < figure(SCALAR_devices) ? handle(true, out) : INVALID_ARGUMENT;
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *out) {
  ENTER("nvmlDeviceGetHandleByIndex_v2");
  return i < figure(SCALAR_devices) ? handle(true, out) : INVALID_ARGUMENT;
}
static bool same_bus(const char *id) {
  return id && (!strcasecmp(id, world_get()->bus_id) || !strcasecmp(id, world_get()->bus_id + 4));
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *out) {
  ENTER("nvmlDeviceGetHandleByPciBusId");
  return handle(same_bus(id), out);
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *out) {
  ENTER("nvmlDeviceGetHandleByPciBusId_v2");
  return handle(same_bus(id), out);
}

static void uuid_text(char out[48]) {
  const unsigned char *u = (const unsigned char *)world_get()->uuid;
  snprintf(out, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
           u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) {
  char mine[48];
  ENTER("nvmlDeviceGetHandleByUUID");
  uuid_text(mine);
  return handle(uuid && !strcmp(uuid, mine), out);
}

/* ---- who it is ---- */

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned n) {
  ENTER_DEVICE("nvmlDeviceGetName", d, out);
  return put_text(out, n, world_get()->device_name);
}
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned n) {
  char text[48];
  ENTER_DEVICE("nvmlDeviceGetUUID", d, out);
  uuid_text(text);
  return put_text(out, n, text);
}
EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *out) {
  ENTER_DEVICE("nvmlDeviceGetIndex", d, out);
  return *out = 0, OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *out) {
  ENTER_DEVICE("nvmlDeviceGetMinorNumber", d, out);
  return *out = 0, OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor) {
  ENTER_DEVICE("nvmlDeviceGetCudaComputeCapability", d, major && minor);
  *major = (int)figure(SCALAR_cc_major);
  *minor = (int)figure(SCALAR_cc_minor);
  return OK;
}
static nvmlReturn_t pci(nvmlPciInfo_t *out) {
  memset(out, 0, sizeof *out);
  out->domain = 15;
  out->bus = 1;
  snprintf(out->busId, sizeof out->busId, "%s", world_get()->bus_id);
  snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%.15s", world_get()->bus_id + 4);
  return OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out) {
  ENTER_DEVICE("nvmlDeviceGetPciInfo_v3", d, out);
  return pci(out);
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t d, nvmlPciInfo_t *out) {
  ENTER_DEVICE("nvmlDeviceGetPciInfo", d, out);
  return pci(out);
}

/* ---- state over time ---- */

static nvmlReturn_t number(unsigned *out, int64_t value) { return *out = (unsigned)value, OK; }

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *mw) {
  ENTER_DEVICE("nvmlDeviceGetPowerUsage", d, mw);
  return number(mw, figure(SCALAR_gpu_power));
}
EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *mj) {
  ENTER_DEVICE("nvmlDeviceGetTotalEnergyConsumption", d, mj);
  *mj = (unsigned long long)figure(SCALAR_gpu_energy);
  return OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *out) {
  ENTER_DEVICE("nvmlDeviceGetTemperature", d, out);
  return sensor ? INVALID_ARGUMENT : number(out, figure(SCALAR_gpu_temperature));
}
EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out) {
  ENTER_DEVICE("nvmlDeviceGetUtilizationRates", d, out);
  *out = (nvmlUtilization_t){(unsigned)figure(SCALAR_gpu_utilization), 0};
  return OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t d, int *out) {
  ENTER_DEVICE("nvmlDeviceGetPerformanceState", d, out);
  return *out = (int)figure(SCALAR_gpu_pstate), OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t d, int *out) {
  ENTER_DEVICE("nvmlDeviceGetPowerState", d, out);
  return *out = (int)figure(SCALAR_gpu_pstate), OK;
}

enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEM, CLOCK_VIDEO };
static nvmlReturn_t clock_of(int type, unsigned *out, enum scalar id) {
  return type == CLOCK_GRAPHICS || type == CLOCK_SM ? number(out, figure(id)) : NOT_SUPPORTED;
}
EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int type, unsigned *out) {
  ENTER_DEVICE("nvmlDeviceGetClockInfo", d, out);
  return clock_of(type, out, SCALAR_gpu_sm_clock);
}
EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, int type, unsigned *out) {
  ENTER_DEVICE("nvmlDeviceGetMaxClockInfo", d, out);
  return clock_of(type, out, SCALAR_gpu_max_sm_clock);
}
EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t d, int type, unsigned *out) {
  ENTER_DEVICE("nvmlDeviceGetApplicationsClock", d, out);
  return clock_of(type, out, SCALAR_gpu_app_clock);
}
EXPORT nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t d, int type, unsigned *out) {
  ENTER_DEVICE("nvmlDeviceGetDefaultApplicationsClock", d, out);
  return clock_of(type, out, SCALAR_gpu_app_clock);
}

static nvmlReturn_t reasons(unsigned long long *out) {
  return *out = (unsigned long long)figure(SCALAR_gpu_reasons), OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *out) {
  ENTER_DEVICE("nvmlDeviceGetCurrentClocksEventReasons", d, out);
  return reasons(out);
}
EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *out) {
  ENTER_DEVICE("nvmlDeviceGetCurrentClocksThrottleReasons", d, out);
  return reasons(out);
}
EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t d, unsigned long long *out) {
  ENTER_DEVICE("nvmlDeviceGetSupportedClocksEventReasons", d, out);
  return *out = 0x1ef, OK;
}

/* Time counters of the reasons, in nanoseconds; ids of nvml.h (NVML_FI_DEV_CLOCKS_EVENT_REASON_*). */
static bool reason_counter(unsigned field, enum scalar *id) {
  switch (field) {
  case 74: /* ..._SW_POWER_CAP, as NVML_FI_DEV_PERF_POLICY_POWER */ return *id = SCALAR_gpu_sw_power_us, true;
  case 269: return *id = SCALAR_gpu_sw_thermal_us, true;
  case 270: return *id = SCALAR_gpu_hw_thermal_us, true;
  case 271: return *id = SCALAR_gpu_hw_brake_us, true;
  case 76: return *id = SCALAR_gpu_sync_boost_us, true;
  default: return false;
  }
}

static void field(nvmlFieldValue_t *v) {
  enum scalar id;
  v->timestamp = (long long)(world_get()->start_us + world_now(world_get()));
  v->latencyUsec = 0;
  v->nvmlReturn = NOT_SUPPORTED;
  if (reason_counter(v->fieldId, &id)) {
    v->valueType = 3; /* unsigned long long */
    v->value.ull = (unsigned long long)figure(id) * 1000;
    v->nvmlReturn = OK;
  } else if (v->fieldId == 83) { /* total energy, millijoules */
    v->valueType = 3;
    v->value.ull = (unsigned long long)figure(SCALAR_gpu_energy);
    v->nvmlReturn = OK;
  } else if (v->fieldId == 186) { /* instantaneous power, milliwatts */
    v->valueType = 1;
    v->value.ui = (unsigned)figure(SCALAR_gpu_power);
    v->nvmlReturn = OK;
  }
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *values) {
  ENTER_DEVICE("nvmlDeviceGetFieldValues", d, values);
  for (int i = 0; i < n; i++) field(&values[i]);
  return OK;
}

/* nvmlDeviceGetViolationStatus: policies 0 power, 1 thermal; times in nanoseconds. */
EXPORT nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t d, int policy, unsigned long long out[2]) {
  ENTER_DEVICE("nvmlDeviceGetViolationStatus", d, out);
  if (policy != 0 && policy != 1) return NOT_SUPPORTED;
  out[0] = world_get()->start_us + world_now(world_get());
  out[1] = 1000ull * (unsigned long long)(policy ? figure(SCALAR_gpu_sw_thermal_us) + figure(SCALAR_gpu_hw_thermal_us)
                                                 : figure(SCALAR_gpu_sw_power_us));
  return OK;
}

/* ---- processes ---- */

typedef struct {
  unsigned pid;
  unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

static void add_process(nvmlProcessInfo_t *list, unsigned room, unsigned *n, int32_t pid, int64_t kb) {
  if (*n < room)
    list[*n] = (nvmlProcessInfo_t){(unsigned)pid, kb < 0 ? VALUE_NOT_AVAILABLE : (unsigned long long)kb * 1024, ~0u,
                                   ~0u};
  ++*n;
}

static nvmlReturn_t processes(bool graphics, unsigned *n, nvmlProcessInfo_t *list) {
  struct world *w = world_get();
  if (!n) return INVALID_ARGUMENT;
  unsigned room = list ? *n : 0, found = 0;
  world_give_back_dead(w);
  world_lock(w);
  for (int i = 0; i < WORLD_PROCS; i++) {
    const struct world_process *p = &w->process[i];
    if (p->pid > 0 && p->memory_kb != -2 && !!p->graphics == graphics)
      add_process(list, room, &found, p->pid, p->memory_kb);
  }
  for (int i = 0; i < WORLD_JOBS && !graphics; i++)
    if (w->job[i].pid && w->job[i].has_context)
      add_process(list, room, &found, w->job[i].pid, w->job[i].device_bytes / 1024);
  world_unlock(w);
  *n = found;
  return found > room ? INSUFFICIENT_SIZE : OK;
}

#define PROCESSES(name, graphics)                                                  \
  EXPORT nvmlReturn_t name(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *list) { \
    ENTER_DEVICE(#name, d, n);                                                     \
    return processes(graphics, n, list);                                           \
  }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, false)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, false)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, true)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, true)
EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *list) {
  ENTER_DEVICE("nvmlDeviceGetMPSComputeRunningProcesses_v3", d, n);
  (void)list;
  return *n = 0, OK;
}

/* The first form has a smaller struct. */
static nvmlReturn_t processes_v1(bool graphics, unsigned *n, nvmlProcessInfo_v1_t *list) {
  nvmlProcessInfo_t all[WORLD_PROCS + WORLD_JOBS];
  unsigned found = sizeof all / sizeof all[0], room = list ? *n : 0;
  nvmlReturn_t r = processes(graphics, &found, all);
  for (unsigned i = 0; i < found && i < room; i++) list[i] = (nvmlProcessInfo_v1_t){all[i].pid, all[i].usedGpuMemory};
  *n = found;
  return r ? r : found > room ? INSUFFICIENT_SIZE : OK;
}
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_v1_t *list) {
  ENTER_DEVICE("nvmlDeviceGetComputeRunningProcesses", d, n);
  return processes_v1(false, n, list);
}
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_v1_t *list) {
  ENTER_DEVICE("nvmlDeviceGetGraphicsRunningProcesses", d, n);
  return processes_v1(true, n, list);
}
