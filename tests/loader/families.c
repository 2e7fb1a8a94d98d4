/* Names of families.def: what belongs to one, and above all what does not. Linked with the library's own ledger.c. */
#include <stdio.h>
#include <string.h>

#include "ledger.h"
#include "shim.h"

__thread struct shim_thread shim_thread __attribute__((tls_model("initial-exec")));
void observe(struct fact *fact) { (void)fact; }

static int wrong;

static void expect(const char *what, const char *name, const char *found, const char *wanted) {
  const char *none = "none";
  if (!strcmp(found ? found : none, wanted ? wanted : none)) return;
  printf("%s %s: %s, not %s\n", what, name, found ? found : none, wanted ? wanted : none);
  wrong++;
}

int main(void) {
  static const char *const names[][2] = {{"libcuda.so.1", "cuda"},
                                         {"libcuda.so", "cuda"},
                                         {"libcuda.so.580.95.05", "cuda"},
                                         {"libcudart.so.12", "cudart"},
                                         {"libcudart.so.11.0", "cudart"},
                                         {"libcudart-0a1b2c3d.so.12", "cudart"},
                                         {"libcublas.so.13", "cublas"},
                                         {"libcublasLt.so.13", "cublas"},
                                         {"libcudnn.so.9", "cudnn"},
                                         {"libcudnn_ops_infer.so.8", "cudnn"},
                                         {"libcudnn_engines_precompiled.so.9", "cudnn"},
                                         {"libnccl.so.2", "nccl"},
                                         {"libnvrtc.so.12", "nvrtc"},
                                         {"libnvrtc-builtins.so.13.0", "nvrtc"},
                                         {"libnvidia-ml.so.1", "nvml"},
                                         {"libtorch.so", "torch"},
                                         {"libtorch_cpu.so", "torch"},
                                         {"libtorch_global_deps.so", "torch"},
                                         {"libc10.so", "torch"},
                                         {"libc10_cuda.so", "torch"},
                                         {"flash_attn_2_cuda.cpython-312-aarch64-linux-gnu.so", "flash_attn"},
                                         {"libbitsandbytes_cuda130.so", "bitsandbytes"},
                                         {"libtriton.so", "triton"},
                                         {"_vllm_fa2_C.abi3.so", "flash_attn"},
                                         {"libcurl.so.4", NULL},
                                         {"libcurses.so.6", NULL},
                                         {"libcups.so.2", NULL},
                                         {"libcuda", NULL},
                                         {"libcuda.so.", NULL},
                                         {"libcuda.so.1.old", NULL},
                                         {"libcuda.sox", NULL},
                                         {"libcudadebugger.so.1", NULL},
                                         {"libc.so.6", NULL},
                                         {"libc10d_helper.txt", NULL},
                                         {"libtorchvision.so", NULL},
                                         {"cuda", NULL},
                                         {"", NULL},
                                         {"libcudart_static.a", NULL},
                                         {"xlibcuda.so.1", NULL},
                                         {"libncclient.so", NULL},
                                         {"flash_attn.py", NULL}};
  static const char *const texts[][2] = {
      {"libcudart.so.12: cannot open shared object file: No such file or directory", "cudart"},
      {"/opt/ext.so: version `libcudart.so.12' not found (required by /opt/ext.so)", "cudart"},
      {"/a/b/libtorch_cuda.so: undefined symbol: x", "torch"},
      {"libcurl.so.4: cannot open shared object file: No such file or directory", NULL},
      {"/cuda/libz.so: undefined symbol: libcuda", NULL},
      {"", NULL}};
  for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
    expect("name", names[i][0], family_of(names[i][0]), names[i][1]);
  for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++)
    expect("text", texts[i][0], family_in_text(texts[i][0]), texts[i][1]);
  return wrong != 0;
}
