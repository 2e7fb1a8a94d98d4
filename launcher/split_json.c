/* split_json.c - see split_json.h. */
#include "split_json.h"
#include "json_value.h"

json_t *split_json(const struct split_at *at) {
  struct split_row rows[SPLIT_ROWS];
  char line[512];
  json_t *o = json_object();
  split_line(&at->split, line, sizeof line);
  split_rows(&at->split, rows);
  if (at->t) json_set_u64(o, "t", at->t);
  json_set_text(o, "line", line);
  json_set_u64(o, "total", at->split.total);
  for (int i = 0; i + 1 < SPLIT_ROWS; i++) json_set_u64(o, rows[i].key, rows[i].bytes);
  json_set_i64(o, "rest", at->split.rest);
  json_set_u64(o, "driver", at->split.driver);
  return o;
}
