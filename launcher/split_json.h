/* split_json.h - where memory was, in the program's JSON outputs. */
#ifndef SPARKSHIM_SPLIT_JSON_H
#define SPARKSHIM_SPLIT_JSON_H

#include <jansson.h>
#include "splits.h"

/* A new object {t, line, total, free, ..., rest, driver}; t 0 is left out. */
json_t *split_json(const struct split_at *at);

#endif
