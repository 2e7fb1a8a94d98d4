# Cross build on Debian or Ubuntu (gcc-aarch64-linux-gnu); tests run under qemu-user. The libraries that are not part
# of the cross compiler come from scripts/get-aarch64-libs; without them the program and the unit tests are left out.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

set(SPARKSHIM_AARCH64_ROOT $ENV{HOME}/.cache/sparkshim/aarch64-root)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${SPARKSHIM_AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH) # cuda.h is the same for both
set(ENV{PKG_CONFIG_LIBDIR} ${SPARKSHIM_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${SPARKSHIM_AARCH64_ROOT})
if(NOT EXISTS ${SPARKSHIM_AARCH64_ROOT}/complete)
  message(STATUS "the program: left out, no jansson for aarch64 (scripts/get-aarch64-libs)")
  set(SPARKSHIM_LAUNCHER OFF CACHE BOOL "" FORCE)
endif()
