/* gpu_model.h - which GPU the machine has, from the driver's files: no NVML, no CUDA. */
#ifndef SPARKSHIM_GPU_MODEL_H
#define SPARKSHIM_GPU_MODEL_H

#include <stddef.h>

/* Finds "Model: NVIDIA GB10" in the text of a .../information file and copies what stands behind the colon, without
 * the spaces around it, into out[size]. 0; -2 (ENOENT) when there is no such line. */
int gpu_model_parse(const char *text, char *out, size_t size);

/* The model of the first GPU in /proc/driver/nvidia/gpus, below `root` when that is not NULL and has the folder.
 * 0 or negative errno; out is untouched on failure. Freestanding, raw system calls, any thread. */
int gpu_model_read(const char *root, char *out, size_t size);

#endif
