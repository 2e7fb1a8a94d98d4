/* An object that says which copy it is (SUBJECT), and opens others in its own name: its search path, not the
 * program's, must count. */
#define _GNU_SOURCE
#include <dlfcn.h>

const char *subject_name(void);
void *subject_open(const char *name, int flags);
void *subject_find(void *handle, const char *name);
int shared_word(void);
int subject_shared_word(void);

const char *subject_name(void) { return SUBJECT; }
void *subject_open(const char *name, int flags) { return dlopen(name, flags); }
void *subject_find(void *handle, const char *name) { return dlsym(handle, name); }
int shared_word(void) { return 2; }                     /* the program has one, too: 1 */
int subject_shared_word(void) { return shared_word(); } /* whose is it? RTLD_DEEPBIND decides */
