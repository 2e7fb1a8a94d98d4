/* image.h - does a GPU image load on this device? The table is that of facts/cuda_images.md. */
#ifndef GB10SIM_IMAGE_H
#define GB10SIM_IMAGE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* What was chosen: the names in it are known when it is an uncompressed cubin or PTX text. */
struct image {
  int arch; /* 120, 121, ... of the chosen image */
  bool ptx;
  const void *at; /* the chosen cubin or PTX text, inside the caller's data; NULL when it is compressed */
  size_t size;    /* 0 for PTX text that ends with NUL */
};

/* Judges a fatbin wrapper, fatbin, cubin or PTX text as the driver would. CUDA_SUCCESS, or the error it gives. */
CUresult image_choose(const void *data, struct image *ret);

/* Calls visit(kernel or variable name) for each name of the image; stops when it returns true. False: not found;
 * *ret_known tells whether the names could be read at all. */
bool image_names(const struct image *image, bool variables,
                 bool (*visit)(const char *name, size_t length, size_t size, void *arg), void *arg, bool *ret_known);

#endif
