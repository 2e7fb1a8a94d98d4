/* evict.c - `sparkshim evict PATH... | --run RUN`: gives the page cache of files back, without root.
 *
 * On GB10 page cache is memory that CUDA is told it does not have, and `drop_caches` is root's and for all files. Here
 * the user names the files, or the run that has read them. What each call gave is measured, never believed (pagecache.h).
 */
#include "evict.h"
#include "fact.h"
#include "json_value.h"
#include "launcher.h"
#include "meminfo.h"
#include "rundir.h"
#include "runlog.h"
#include "runs.h"
#include "text.h"

#include <errno.h>
#include <fts.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { STATUS_SOME_LEFT = 1, STATUS_ALL_LEFT = 2, STATUS_NOTHING_SEEN = 3 };
enum {
  WORTH_A_LINE = 16 << 20, /* bytes cached of a file that was not named itself */
  SOUGHT = 64,             /* files whose mappers are looked for: those that keep most */
};

struct totals {
  uint64_t files, empty, cached, dropped, left;
  uint64_t blind;      /* files of which the kernel does not tell this user what is cached */
  uint64_t unreadable; /* files and folders that could not be looked at, or have no cache */
  uint64_t untold;     /* files with cache that have no line of their own */
};

struct walk {
  struct evict_how how;
  struct totals sum;
  struct evict_file *file; /* those that get a line */
  size_t files;
  struct {
    dev_t dev;
    ino_t ino;
  } * seen; /* of all files, so that links count once; ino 0: a free place */
  size_t seens, room;
  unsigned unseen; /* processes that could not be looked at */
};

static void *must(void *p) {
  if (p) return p;
  complain("out of memory");
  exit(STATUS_LAUNCHER_FAILED);
}

/* ---- files that were seen: open addressing, at most half full -------------------------------------------------------- */
static bool seen_put(struct walk *w, dev_t dev, ino_t ino) {
  for (size_t i = (ino * 31 + dev) & (w->room - 1);; i = (i + 1) & (w->room - 1)) {
    if (w->seen[i].ino == ino && w->seen[i].dev == dev) return false;
    if (w->seen[i].ino) continue;
    w->seen[i].dev = dev;
    w->seen[i].ino = ino;
    return true;
  }
}

/* False: it has been seen under another name. */
static bool is_first(struct walk *w, dev_t dev, ino_t ino) {
  if (2 * w->seens >= w->room) {
    struct walk old = *w;
    w->room = old.room ? 2 * old.room : 1024;
    w->seen = must(calloc(w->room, sizeof *w->seen));
    for (size_t i = 0; i < old.room; i++)
      if (old.seen[i].ino) seen_put(w, old.seen[i].dev, old.seen[i].ino);
    free(old.seen);
  }
  bool fresh = seen_put(w, dev, ino);
  w->seens += fresh;
  return fresh;
}

/* ---- one file ---------------------------------------------------------------------------------------------------------- */
static void keep(struct walk *w, const struct evict_file *file) {
  if (!(w->files & (w->files - 1))) w->file = must(realloc(w->file, (w->files ? 2 * w->files : 1) * sizeof *w->file));
  w->file[w->files] = *file;
  w->file[w->files++].path = must(strdup(file->path));
}

static uint64_t or_zero(uint64_t n) { return n == FACT_NO_U64 ? 0 : n; }

static void count(struct totals *sum, const struct evict_file *file) {
  if (file->why == EVICT_UNREADABLE || file->why == EVICT_NOT_FILE || file->why == EVICT_NO_CACHE) {
    sum->unreadable++;
    return;
  }
  sum->files++;
  sum->blind += file->estimated;
  sum->empty += !file->estimated && !file->cached;
  sum->cached += or_zero(file->cached);
  sum->dropped += or_zero(file->dropped);
  sum->left += or_zero(file->left);
}

/* `named`: on the command line, so that the user expects a word about it. */
static void consider(struct walk *w, const char *path, bool named) {
  struct evict_file file = {.path = (char *)(uintptr_t)path};
  evict_file(&file, &w->how);
  if (!named && (file.why == EVICT_NOT_FILE || (file.why == EVICT_UNREADABLE && file.error == ENOENT))) return;
  if (file.ino && !is_first(w, file.dev, file.ino)) return;
  count(&w->sum, &file);
  uint64_t much = file.estimated ? file.size : file.cached;
  if (named || much >= WORTH_A_LINE || file.why == EVICT_UNREADABLE)
    keep(w, &file);
  else
    w->sum.untold += much > 0;
}

static void consider_unreadable(struct walk *w, const char *path, int error) {
  struct evict_file file = {.path = (char *)(uintptr_t)path, .why = EVICT_UNREADABLE, .error = error};
  count(&w->sum, &file);
  keep(w, &file);
}

/* ---- folders ------------------------------------------------------------------------------------------------------------ */
/* Links to files are followed (the files of a model are often links to a store), links to folders are not: no loops.
 * Other file systems that are mounted below are left alone. */
static void consider_folder(struct walk *w, const char *path) {
  char *roots[] = {(char *)(uintptr_t)path, NULL};
  FTS *tree = must(fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR | FTS_XDEV, NULL));
  const FTSENT *entry;
  while ((entry = fts_read(tree))) {
    if (entry->fts_info == FTS_F || entry->fts_info == FTS_SL)
      consider(w, entry->fts_path, false);
    else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
      consider_unreadable(w, entry->fts_path, entry->fts_errno);
  }
  fts_close(tree);
}

static void consider_named(struct walk *w, const char *path) {
  struct stat st;
  if (!stat(path, &st) && S_ISDIR(st.st_mode))
    consider_folder(w, path);
  else
    consider(w, path, true);
}

/* The data files that processes of the run on this host had mapped or open. */
static void consider_run(struct walk *w, const char *name) {
  char path[PATH_MAX], host[RUN_HOST];
  struct runlog run = {.processes = 0};
  size_t before = w->files;
  if (!runs_find(name, path)) return;
  int error = runlog_read(&run, path);
  if (error) say("cannot read %s: %s", path, strerror(-error));
  rundir_host(host);
  for (size_t i = 0; i < run.processes; i++) {
    const struct process *p = &run.process[i];
    for (size_t k = 0; k < p->data_files && p->host && !strcmp(p->host, host); k++)
      consider(w, p->data_file[k].path, true);
  }
  if (!error && w->files == before) say("no data file was found mapped or open by a process of this run on %s", host);
  runlog_free(&run);
}

/* ---- what stays --------------------------------------------------------------------------------------------------------- */
/* What was being written at the first look may have arrived by now. */
static void look_again(struct walk *w) {
  static const struct timespec pause = {0, 100 * 1000 * 1000};
  bool paused = false;
  for (size_t i = 0; i < w->files; i++) {
    struct evict_file *file = &w->file[i], again = {.path = file->path};
    if (file->why != EVICT_DIRTY) continue;
    if (!paused) nanosleep(&pause, NULL);
    paused = true;
    evict_file(&again, &w->how);
    if (again.why == EVICT_UNREADABLE || again.estimated || again.left >= file->left) continue;
    w->sum.dropped += file->left - again.left;
    w->sum.left -= file->left - again.left;
    file->dropped += file->left - again.left;
    file->left = again.left;
    file->why = again.why;
  }
}

static int most_left_first(const void *a, const void *b) {
  const struct evict_file *x = *(struct evict_file *const *)a, *y = *(struct evict_file *const *)b;
  return x->left < y->left ? 1 : -(x->left > y->left);
}

static void find_mappers(struct walk *w) {
  struct evict_file **stuck = must(malloc((w->files + 1) * sizeof *stuck));
  size_t n = 0;
  for (size_t i = 0; i < w->files; i++) {
    const struct evict_file *file = &w->file[i];
    if (file->why == EVICT_LEFT || file->why == EVICT_DIRTY || (file->why == EVICT_UNKNOWN && !w->how.dry_run))
      stuck[n++] = &w->file[i];
  }
  if (n) qsort(stuck, n, sizeof *stuck, most_left_first);
  w->unseen = evict_mappers(stuck, n < SOUGHT ? (unsigned)n : SOUGHT);
  free(stuck);
}

static int status_of(const struct walk *w) {
  const struct totals *sum = &w->sum;
  if (!sum->files) return STATUS_NOTHING_SEEN;
  if (w->how.dry_run) return sum->unreadable ? STATUS_SOME_LEFT : 0;
  if (sum->left && !sum->dropped) return STATUS_ALL_LEFT;
  return sum->left || sum->unreadable || (sum->blind && !sum->dropped) ? STATUS_SOME_LEFT : 0;
}

/* ---- said ---------------------------------------------------------------------------------------------------------------- */
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

static void say_why(const struct walk *w, const struct evict_file *file, FILE *to) {
  switch (file->why) {
  case EVICT_FINE: break;
  case EVICT_MAPPED: fputs("; ", to), say_mappers(file, to); break;
  case EVICT_DIRTY: fputs("; not yet written to disk: --sync writes it first", to); break;
  case EVICT_LEFT:
    fputs("; locked, or in use by the kernel", to);
    if (w->unseen) fprintf(to, ", or mapped by one of %u processes that cannot be looked at", w->unseen);
    break;
  case EVICT_UNKNOWN: fputs("; not counted: only the file's owner is told what is cached of it", to); break;
  case EVICT_NO_CACHE: fputs("its file system lies in memory, it is no cache", to); break;
  case EVICT_NOT_FILE: fputs("no file with contents of its own", to); break;
  case EVICT_UNREADABLE: fputs(strerror(file->error), to); break;
  }
}

static void say_file(const struct walk *w, const struct evict_file *file, FILE *to) {
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

static void say_totals(const struct walk *w, uint64_t free_before, uint64_t free_after, FILE *to) {
  const struct totals *sum = &w->sum;
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
  if (!w->how.dry_run) fprintf(to, "; MemFree %s -> %s", size_text(free_before, a), size_text(free_after, b));
  fputc('\n', to);
}

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

static void print_json(const struct walk *w, uint64_t free_before, uint64_t free_after) {
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
  json_set_u64(o, "mem_free_before", free_before);
  json_set_u64(o, "mem_free_after", free_after);
  json_dumpf(o, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(o);
}

static void usage(FILE *to) {
  fputs(
      "Usage: sparkshim evict [--dry-run] [--sync] [--json] PATH...|--run RUN\n\n"
      "Takes the named files, and those in the named folders, out of the page cache, so that CUDA finds the memory\n"
      "free. Nothing is lost: whoever reads a file again gets it from the disk. Nobody needs to be root; what others\n"
      "have mapped stays, and is said.\n\n"
      "  -n, --dry-run  only tell what is cached\n"
      "  -s, --sync     write what has not been written to disk first, and wait for it\n"
      "  -j, --json     one object, described in docs/page-cache.md\n"
      "  -h, --help     this text\n\n"
      "Status: 0 nothing is left, 1 some of it stays or could not be looked at, 2 nothing could be dropped,\n"
      "3 no file could be looked at.\n",
      to);
}

static uint64_t mem_free(void) {
  struct fact_memory m;
  return meminfo_read(NULL, &m) ? FACT_NO_U64 : m.free;
}

int verb_evict(int argc, char **argv) {
  static const struct option options[] = {{"run", required_argument, NULL, 'r'}, {"dry-run", no_argument, NULL, 'n'},
                                          {"sync", no_argument, NULL, 's'},      {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0}};
  struct walk w = {.files = 0};
  const char *run = NULL;
  bool json = false;
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, "r:nsjh", options, NULL)) != -1) {
    switch (option) {
    case 'r': run = optarg; break;
    case 'n': w.how.dry_run = true; break;
    case 's': w.how.sync = true; break;
    case 'j': json = true; break;
    case 'h': usage(stdout); return 0;
    default: usage(stderr); return STATUS_LAUNCHER_FAILED;
    }
  }
  if (optind == argc && !run) {
    usage(stderr);
    return STATUS_LAUNCHER_FAILED;
  }
  uint64_t before = mem_free();
  if (run) consider_run(&w, run);
  for (int i = optind; i < argc; i++) consider_named(&w, argv[i]);
  look_again(&w);
  find_mappers(&w);
  uint64_t after = mem_free();
  for (size_t i = 0; i < w.files && !json; i++) say_file(&w, &w.file[i], stdout);
  if (json)
    print_json(&w, before, after);
  else
    say_totals(&w, before, after, stdout);
  int status = status_of(&w);
  for (size_t i = 0; i < w.files; i++) free(w.file[i].path);
  free(w.file);
  free(w.seen);
  return status;
}
