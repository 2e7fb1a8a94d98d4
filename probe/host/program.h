/* program.h - which file a command runs, and whether the dynamic loader will take a preload for it. */
#ifndef SPARKSHIM_PROGRAM_H
#define SPARKSHIM_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

enum program_kind {
  PROGRAM_UNKNOWN, /* not found, unreadable, or odd: exec will tell */
  PROGRAM_GLIBC,   /* dynamic, of this machine: takes a preload */
  PROGRAM_STATIC,  /* no dynamic loader: takes none, but the programs it starts may */
  PROGRAM_MUSL,    /* musl's loader would try to load the library and fail: it is built for glibc */
  PROGRAM_FOREIGN, /* another machine or word size: its loader would complain on every start */
  PROGRAM_SECURE,  /* set-user-id, set-group-id or file capabilities: the loader drops the preload */
};

struct program {
  char path[PATH_MAX]; /* the ELF file that is executed: of a script, its interpreter */
  enum program_kind kind;
  bool needs_libasan; /* gcc's shared AddressSanitizer runtime is among its needs */
};

/* Follows PATH as execvp(3) does, "#!" lines and env(1) in them. Never fails: what cannot be found out is
 * PROGRAM_UNKNOWN. */
void program_inspect(const char *command, struct program *ret);

#endif
