/* empty.c - the empty preload: what any LD_PRELOAD costs. */
extern const int sparkshim_empty;
const int sparkshim_empty = 1;
