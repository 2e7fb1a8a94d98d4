/* scenario.h - reads a scenario file into a world. */
#ifndef GB10SIM_SCENARIO_H
#define GB10SIM_SCENARIO_H

#include "world.h"

enum { STANDINS_MAX = 16 };
struct scenario {
  int n_standins; /* -1: the default set */
  char standin[STANDINS_MAX][32];
};

/* Applies the file's lines to the world, in order. `name`: a path, or the name of a file in $GB10SIM_SCENARIOS or of a base
 * world, "gb10-idle.scn" or "idle". 0, or -1 after a line "file:line: what" on stderr. */
int scenario_read(const char *name, struct world *w, struct scenario *out);

#endif
