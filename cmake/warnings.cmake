# The warnings of every target, and the flags of code that runs inside a foreign process.
add_library(sparkshim_warnings INTERFACE)
target_compile_options(sparkshim_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wconversion>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${SPARKSHIM_WERROR}>>:-Werror>)

# For facts/, detectors/ and probe/core/: linked into the preloaded library, the program and the tests.
add_library(sparkshim_freestanding INTERFACE)
target_compile_options(sparkshim_freestanding INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector>)

if(SPARKSHIM_SANITIZE)
  add_compile_options(-fsanitize=${SPARKSHIM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SPARKSHIM_SANITIZE})
endif()
