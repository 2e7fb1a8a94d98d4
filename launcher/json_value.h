/* json_value.h - values of the program's JSON outputs: what is not known is left out, and any bytes are a text. */
#ifndef SPARKSHIM_JSON_VALUE_H
#define SPARKSHIM_JSON_VALUE_H

#include <jansson.h>
#include <stdint.h>

/* A new string; NULL for NULL. Bytes that are not UTF-8 are written as the log does, as U+F700 + byte. */
json_t *json_text(const char *s);
/* Set nothing for NULL, for a number above 2^63-1 (FACT_NO_U64 among them), for FACT_NO_I64. */
void json_set_text(json_t *o, const char *key, const char *s);
void json_set_u64(json_t *o, const char *key, uint64_t n);
void json_set_i64(json_t *o, const char *key, int64_t n);

#endif
