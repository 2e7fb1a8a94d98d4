/* empty.c - a libcuda.so.1 with nothing in it: its name alone wakes the library up. */
extern const int sparkshim_empty_libcuda;
const int sparkshim_empty_libcuda = 1;
