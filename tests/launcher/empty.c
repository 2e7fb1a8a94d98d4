/* empty.c - a library that does nothing, preloaded where the launcher alone is tested. */
extern int launcher_empty;
int launcher_empty;
