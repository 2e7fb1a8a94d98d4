/* doctor_probe.c - the small program that `sparkshim doctor` runs under the preload. It does the two things that
 * show whether the library works: it looks for it among its own mappings, and makes a load fail that the library
 * must notice. Status: bit 0 the library is not mapped, bit 1 the load did not fail as it must.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { NOT_MAPPED = 1, LOADED = 2 };

static int is_mapped(const char *name) {
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  int found = 0;
  while (maps && !found && fgets(line, sizeof line, maps)) found = strstr(line, name) != NULL;
  if (maps) fclose(maps);
  return found;
}

int main(void) {
  int status = is_mapped("/libsparkshim.so") ? 0 : NOT_MAPPED;
  void *handle = dlopen("/nonexistent/sparkshim-doctor/libcudart.so.13", RTLD_NOW);
  if (handle || !dlerror()) status |= LOADED;
  return status;
}
