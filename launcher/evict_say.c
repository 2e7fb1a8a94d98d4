/* evict_say.c - what `sparkshim evict` tells: a line a file and one for all, or one JSON object. See evict.h. */
#include "evict.h"
#include "fact.h"
#include "json_value.h"
#include "launcher.h"
#include "text.h"

#include <string.h>

static const char *size_text(uint64_t bytes, char out[32]) {
  struct text t = text_in(out, 32);
  text_size(&t, bytes);
  return out;
}

static void say_mappers(const struct evict_file *file, FILE *to) {
  fputs("mapped by", to);
  for (unsigned i = 0; i < file->mappers && i < EVICT_MAPPERS; i++)
    fprintf(to, "%s process %d (%s)", i ? "," : "", file->mapper[i].pid, shown(file->mapper[i].name));
  if (file->mappers > EVICT_MAPPERS) fprintf(to, " and %u more", file->mappers - EVICT_MAPPERS);
}

static void say_why(const struct evict_walk *w, const struct evict_file *file, FILE *to) {
  switch (file->why) {
  case EVICT_FINE: break;
  case EVICT_MAPPED: fputs("; ", to), say_mappers(file, to); break;
  case EVICT_DIRTY: fputs("; not yet written to disk: --sync writes it first", to); break;
  case EVICT_LEFT:
    fputs("; locked, or in use by the kernel", to);
    if (w->unseen) fprintf(to, ", or mapped by one of %u processes that cannot be looked at", w->unseen);
    break;
  case EVICT_UNKNOWN: fputs("; not counted: only the file's owner is told what is cached of it", to); break;
  case EVICT_NO_CACHE: fputs("its file system has no disk behind it, so it is no cache", to); break;
  case EVICT_NOT_FILE: fputs("no file with contents of its own", to); break;
  case EVICT_UNREADABLE: fputs(strerror(file->error), to); break;
  }
}

static void say_file(const struct evict_walk *w, const struct evict_file *file, FILE *to) {
  char a[32], b[32];
  fprintf(to, "%s: ", shown(file->path));
  bool looked = file->why != EVICT_NO_CACHE && file->why != EVICT_NOT_FILE && file->why != EVICT_UNREADABLE;
  if (looked && file->estimated && w->how.dry_run)
    fprintf(to, "of %s", size_text(file->size, a));
  else if (looked && file->estimated)
    fprintf(to, "about %s dropped", size_text(file->dropped, a));
  else if (looked && w->how.dry_run)
    fprintf(to, "%s of %s cached", size_text(file->cached, a), size_text(file->size, b));
  else if (looked && !file->cached)
    fputs("nothing was cached", to);
  else if (looked && file->left)
    fprintf(to, "%s dropped, %s stays", size_text(file->dropped, a), size_text(file->left, b));
  else if (looked)
    fprintf(to, "%s dropped", size_text(file->dropped, a));
  say_why(w, file, to);
  fputc('\n', to);
}

static void say_totals(const struct evict_walk *w, FILE *to) {
  const struct evict_totals *sum = &w->sum;
  char a[32], b[32];
  if (w->how.dry_run) {
    fprintf(to, "in all: %s cached", size_text(sum->cached, a));
  } else {
    fprintf(to, "in all: %s dropped", size_text(sum->dropped, a));
    if (sum->left) fprintf(to, ", %s stays", size_text(sum->left, a));
  }
  fprintf(to, "; %llu file%s", (unsigned long long)sum->files, sum->files == 1 ? "" : "s");
  if (sum->empty) fprintf(to, ", %llu of them had nothing cached", (unsigned long long)sum->empty);
  if (sum->untold) fprintf(to, ", %llu small ones are not listed", (unsigned long long)sum->untold);
  if (sum->unreadable) fprintf(to, ", %llu could not be looked at", (unsigned long long)sum->unreadable);
  if (!w->how.dry_run) fprintf(to, "; MemFree %s -> %s", size_text(w->free_before, a), size_text(w->free_after, b));
  fputc('\n', to);
}

void evict_text(const struct evict_walk *w, FILE *to) {
  for (size_t i = 0; i < w->files; i++) say_file(w, &w->file[i], to);
  say_totals(w, to);
}

/* ---- for programs -------------------------------------------------------------------------------------------------------- */
static json_t *json_of_file(const struct evict_file *file) {
  static const char *const words[] = {
      [EVICT_FINE] = "none",         [EVICT_MAPPED] = "mapped",        [EVICT_DIRTY] = "dirty",
      [EVICT_LEFT] = "left",         [EVICT_UNKNOWN] = "unknown",      [EVICT_NO_CACHE] = "in_memory",
      [EVICT_NOT_FILE] = "not_file", [EVICT_UNREADABLE] = "unreadable"};
  json_t *o = json_object();
  json_set_text(o, "path", file->path);
  json_set_text(o, "why", words[file->why]);
  if (file->why == EVICT_UNREADABLE) json_set_text(o, "error", strerror(file->error));
  if (file->why == EVICT_UNREADABLE || file->why == EVICT_NOT_FILE) return o;
  json_set_u64(o, "size", file->size);
  json_set_u64(o, "cached", file->cached);
  json_set_u64(o, "dropped", file->dropped);
  json_set_u64(o, "left", file->left);
  if (file->estimated) json_object_set_new(o, "estimated", json_true());
  json_t *by = json_array();
  for (unsigned i = 0; i < file->mappers && i < EVICT_MAPPERS; i++) {
    json_t *process = json_object();
    json_set_u64(process, "pid", (uint64_t)file->mapper[i].pid);
    json_set_text(process, "name", file->mapper[i].name);
    json_array_append_new(by, process);
  }
  json_object_set_new(o, "mapped_by", by);
  return o;
}

void evict_json(const struct evict_walk *w, FILE *to) {
  json_t *o = json_object(), *files = json_array();
  json_set_u64(o, "v", 1);
  json_object_set_new(o, "dry_run", json_boolean(w->how.dry_run));
  for (size_t i = 0; i < w->files; i++) json_array_append_new(files, json_of_file(&w->file[i]));
  json_object_set_new(o, "files", files);
  json_set_u64(o, "looked_at", w->sum.files);
  json_set_u64(o, "unreadable", w->sum.unreadable);
  json_set_u64(o, "cached", w->sum.cached);
  json_set_u64(o, "dropped", w->sum.dropped);
  json_set_u64(o, "left", w->sum.left);
  json_set_u64(o, "mem_free_before", w->free_before);
  json_set_u64(o, "mem_free_after", w->free_after);
  json_dumpf(o, to, JSON_INDENT(2));
  fputc('\n', to);
  json_decref(o);
}
