/* json_value.c - see json_value.h. */
#include "json_value.h"
#include "fact_json.h"

/* jansson refuses what is not UTF-8. */
json_t *json_text(const char *s) {
  json_t *plain = s ? json_string(s) : NULL;
  if (plain || !s) return plain;
  struct fact fact = {.kind = FACT_KIND_note, .u.note.text = s};
  char line[FACT_JSON_MAX];
  fact_json(&fact, line, sizeof line);
  json_t *record = json_loads(line, 0, NULL), *escaped = json_incref(json_object_get(record, "text"));
  json_decref(record);
  return escaped;
}

void json_set_text(json_t *o, const char *key, const char *s) {
  if (s) json_object_set_new(o, key, json_text(s));
}

void json_set_u64(json_t *o, const char *key, uint64_t n) {
  if (n <= INT64_MAX) json_object_set_new(o, key, json_integer((json_int_t)n));
}

void json_set_i64(json_t *o, const char *key, int64_t n) {
  if (n != FACT_NO_I64) json_object_set_new(o, key, json_integer((json_int_t)n));
}
