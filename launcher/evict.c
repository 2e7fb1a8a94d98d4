/* evict.c - `sparkshim evict PATH... | --run RUN`: gives the page cache of files back, without root.
 *
 * On GB10 page cache is memory that CUDA is told it does not have, and `drop_caches` is root's and for all files. Here
 * the user names the files, or the run that has read them. What each call gave is measured, never believed (pagecache.h).
 */
#include "evict.h"
#include "fact.h"
#include "launcher.h"
#include "meminfo.h"
#include "rundir.h"
#include "runlog.h"
#include "runs.h"

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

static void *must(void *p) {
  if (p) return p;
  complain("out of memory");
  exit(STATUS_LAUNCHER_FAILED);
}

/* ---- files that were seen: open addressing, at most half full -------------------------------------------------------- */
static bool seen_put(struct evict_walk *w, dev_t dev, ino_t ino) {
  for (size_t i = (ino * 31 + dev) & (w->room - 1);; i = (i + 1) & (w->room - 1)) {
    if (w->seen[i].ino == ino && w->seen[i].dev == dev) return false;
    if (w->seen[i].ino) continue;
    w->seen[i].dev = dev;
    w->seen[i].ino = ino;
    return true;
  }
}

/* False: it has been seen under another name. */
static bool is_first(struct evict_walk *w, dev_t dev, ino_t ino) {
  if (2 * w->seens >= w->room) {
    struct evict_walk old = *w;
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
static void keep(struct evict_walk *w, const struct evict_file *file) {
  if (!(w->files & (w->files - 1))) w->file = must(realloc(w->file, (w->files ? 2 * w->files : 1) * sizeof *w->file));
  w->file[w->files] = *file;
  w->file[w->files++].path = must(strdup(file->path));
}

static uint64_t or_zero(uint64_t n) { return n == FACT_NO_U64 ? 0 : n; }

static void count(struct evict_totals *sum, const struct evict_file *file) {
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
static void consider(struct evict_walk *w, const char *path, bool named) {
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

static void consider_unreadable(struct evict_walk *w, const char *path, int error) {
  struct evict_file file = {.path = (char *)(uintptr_t)path, .why = EVICT_UNREADABLE, .error = error};
  count(&w->sum, &file);
  keep(w, &file);
}

/* ---- folders ------------------------------------------------------------------------------------------------------------ */
/* Links to files are followed (the files of a model are often links to a store), links to folders are not: no loops.
 * Other file systems that are mounted below are left alone. */
static void consider_folder(struct evict_walk *w, const char *path) {
  char *roots[] = {(char *)(uintptr_t)path, NULL};
  FTS *tree = must(fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR | FTS_XDEV, NULL));
  const FTSENT *entry;
  while ((entry = fts_read(tree))) {
    if (entry->fts_info == FTS_F || entry->fts_info == FTS_SL)
      consider(w, entry->fts_path, false);
    else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR ||
             (entry->fts_info == FTS_NS && entry->fts_errno != ENOENT))
      consider_unreadable(w, entry->fts_path, entry->fts_errno);
  }
  fts_close(tree);
}

static void consider_named(struct evict_walk *w, const char *path) {
  struct stat st;
  if (!stat(path, &st) && S_ISDIR(st.st_mode))
    consider_folder(w, path);
  else
    consider(w, path, true);
}

/* The data files that processes of the run on this host had mapped or open. */
static void consider_run(struct evict_walk *w, const char *name) {
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
static void look_again(struct evict_walk *w) {
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

static void find_mappers(struct evict_walk *w) {
  const size_t pointer = sizeof(void *);
  struct evict_file **stuck = must(malloc((w->files + 1) * pointer));
  size_t n = 0;
  for (size_t i = 0; i < w->files; i++) {
    const struct evict_file *file = &w->file[i];
    if (file->why == EVICT_LEFT || file->why == EVICT_DIRTY || (file->why == EVICT_UNKNOWN && !w->how.dry_run))
      stuck[n++] = &w->file[i];
  }
  if (n) qsort(stuck, n, pointer, most_left_first);
  w->unseen = evict_mappers(stuck, n < SOUGHT ? (unsigned)n : SOUGHT);
  free(stuck);
}

static int status_of(const struct evict_walk *w) {
  const struct evict_totals *sum = &w->sum;
  if (!sum->files) return STATUS_NOTHING_SEEN;
  if (w->how.dry_run) return sum->unreadable ? STATUS_SOME_LEFT : 0;
  if (sum->left && !sum->dropped) return STATUS_ALL_LEFT;
  return sum->left || sum->unreadable || (sum->blind && !sum->dropped) ? STATUS_SOME_LEFT : 0;
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

/* ---- the verb ------------------------------------------------------------------------------------------------------------ */
struct asked {
  const char *run;
  bool json;
};

/* False: *ret_status is the answer to wrong or other options. */
static bool read_options(int argc, char **argv, struct asked *asked, struct evict_how *how, int *ret_status) {
  static const struct option options[] = {{"run", required_argument, NULL, 'r'}, {"dry-run", no_argument, NULL, 'n'},
                                          {"sync", no_argument, NULL, 's'},      {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0}};
  int option;
  optind = 1;
  *ret_status = STATUS_LAUNCHER_FAILED;
  while ((option = getopt_long(argc, argv, "r:nsjh", options, NULL)) != -1) {
    switch (option) {
    case 'r': asked->run = optarg; break;
    case 'n': how->dry_run = true; break;
    case 's': how->sync = true; break;
    case 'j': asked->json = true; break;
    case 'h':
      usage(stdout);
      *ret_status = 0;
      return false;
    default: usage(stderr); return false;
    }
  }
  if (optind < argc || asked->run) return true;
  usage(stderr);
  return false;
}

static uint64_t mem_free(void) {
  struct fact_memory m;
  return meminfo_read(NULL, &m) ? FACT_NO_U64 : m.free;
}

int verb_evict(int argc, char **argv) {
  struct asked asked = {.run = NULL};
  struct evict_walk w = {.files = 0};
  int status;
  if (!read_options(argc, argv, &asked, &w.how, &status)) return status;
  w.free_before = mem_free();
  if (asked.run) consider_run(&w, asked.run);
  for (int i = optind; i < argc; i++) consider_named(&w, argv[i]);
  look_again(&w);
  find_mappers(&w);
  w.free_after = mem_free();
  (asked.json ? evict_json : evict_text)(&w, stdout);
  status = status_of(&w);
  if (fflush(stdout) == EOF) {
    say("cannot write what was done: %s", strerror(errno));
    status = STATUS_NOTHING_SEEN;
  }
  for (size_t i = 0; i < w.files; i++) free(w.file[i].path);
  free(w.file);
  free(w.seen);
  return status;
}
