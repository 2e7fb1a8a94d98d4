/* poison.h - names that no file of shim/ may use. Included last; see the rules in shim.h.
 *
 * Each can be interposed, takes a lock, allocates, or calls back into the application. What stands in for them:
 * probe/core/sys.h for system calls and strings, shim_env() for getenv, shim_real and linkmap.h for the loader. What cannot
 * be poisoned (exit and free are names of facts as well) is caught by the test of the library's undefined symbols.
 */
#ifndef SPARKSHIM_POISON_H
#define SPARKSHIM_POISON_H

#pragma GCC poison malloc calloc realloc strdup strndup alloca
#pragma GCC poison printf fprintf dprintf sprintf snprintf vsnprintf puts fputs perror fopen fdopen fclose
#pragma GCC poison _exit quick_exit abort atexit getenv setenv putenv secure_getenv system popen
#pragma GCC poison pthread_mutex_lock pthread_mutex_unlock pthread_once pthread_create pthread_key_create
#pragma GCC poison strlen strcmp strncmp strcpy strncpy strcat strchr strrchr strstr strtol strtoul

#endif
