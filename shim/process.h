/* process.h - between init.c and process.c, exit.c. */
#ifndef SPARKSHIM_PROCESS_H
#define SPARKSHIM_PROCESS_H

/* Looks the real functions up and keeps where a vforked child leaves word. By the waking thread, and again in
 * a forked child with a ring of its own. */
void process_init(void);
/* Registers what is done at exit(3). Once, by the waking thread. */
void exit_watch(void);

#endif
