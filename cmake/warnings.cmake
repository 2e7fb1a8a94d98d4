# The warnings of every target, and the flags of code that runs inside a foreign process.
add_library(sparkshim_warnings INTERFACE)
target_compile_options(sparkshim_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wconversion>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${SPARKSHIM_WERROR}>>:-Werror>)

# The processor, and what every object of the preloaded library needs there: landing pads for indirect jumps (a
# library marked for them must not have one function without), and no helpers of libgcc, which have none.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(SPARKSHIM_CPU x86_64)
  set(SPARKSHIM_CPU_FLAGS -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(SPARKSHIM_CPU aarch64)
  set(SPARKSHIM_CPU_FLAGS -mbranch-protection=standard -mno-outline-atomics)
else()
  message(FATAL_ERROR "sparkshim supports x86_64 and aarch64, not ${CMAKE_SYSTEM_PROCESSOR}")
endif()

# For shim/, facts/, detectors/ and probe/core/: linked into the preloaded library, the program and the tests.
add_library(sparkshim_freestanding INTERFACE)
target_compile_options(sparkshim_freestanding INTERFACE ${SPARKSHIM_CPU_FLAGS} -U_FORTIFY_SOURCE
  $<$<COMPILE_LANGUAGE:C>:-ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector>)

if(SPARKSHIM_SANITIZE)
  add_compile_options(-fsanitize=${SPARKSHIM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SPARKSHIM_SANITIZE})
endif()
