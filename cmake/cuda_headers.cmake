# Finds cuda.h: SPARKSHIM_CUDA_INCLUDE, CUDA_HOME, CUDA_PATH, /usr/local/cuda, or the folder that
# scripts/get-cuda-headers fills from NVIDIA's packages on the Python package index.
set(SPARKSHIM_CUDA_INCLUDE "" CACHE PATH "Folder that holds cuda.h")
find_path(SPARKSHIM_CUDA_H cuda.h
  HINTS ${SPARKSHIM_CUDA_INCLUDE} $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
        /usr/local/cuda/include /usr/local/cuda-13/include /usr/local/cuda-13.0/include
        ${CMAKE_SOURCE_DIR}/build/cuda-headers/include $ENV{HOME}/.cache/sparkshim/cuda-headers/include
  NO_DEFAULT_PATH)
if(NOT SPARKSHIM_CUDA_H)
  message(FATAL_ERROR "cuda.h not found. Get NVIDIA's headers (no GPU or toolkit needed) with "
    "scripts/get-cuda-headers, or name their folder: -DSPARKSHIM_CUDA_INCLUDE=/path/include")
endif()
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${SPARKSHIM_CUDA_H})
