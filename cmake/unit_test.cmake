# sparkshim_unit_test(NAME [TSAN] SOURCES file... [LIBS target...] [DEFS definition...] [DATA folder])
#
# A cmocka program build/bin/unit_NAME, registered as the ctest `unit.NAME`. LIBS may be object libraries
# (facts, detectors, probe_core). TSAN marks tests that are also worth running under ThreadSanitizer: in
# that build the others are left out. $SPARKSHIM_TEST_DATA is DATA (default
# tests/data) and $SPARKSHIM_SOURCE the source tree.
find_path(CMOCKA_INCLUDE cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
if(NOT CMOCKA_INCLUDE OR NOT CMOCKA_LIBRARY)
  if(CMAKE_CROSSCOMPILING)
    message(STATUS "unit tests: left out, no cmocka for ${CMAKE_SYSTEM_PROCESSOR} (scripts/get-aarch64-libs)")
  else()
    message(FATAL_ERROR "cmocka not found: run scripts/install-deps, or configure with -DSPARKSHIM_TESTS=OFF")
  endif()
endif()

function(sparkshim_unit_test name)
  cmake_parse_arguments(arg "TSAN" "DATA" "SOURCES;LIBS;DEFS" ${ARGN})
  if(NOT CMOCKA_LIBRARY OR (SPARKSHIM_SANITIZE STREQUAL "thread" AND NOT arg_TSAN))
    return()
  endif()
  add_executable(unit_${name} ${arg_SOURCES})
  target_link_libraries(unit_${name} PRIVATE sparkshim_warnings ${arg_LIBS} ${CMOCKA_LIBRARY} Threads::Threads)
  target_include_directories(unit_${name} SYSTEM PRIVATE ${CMOCKA_INCLUDE})
  target_compile_definitions(unit_${name} PRIVATE ${arg_DEFS})
  if(NOT arg_DATA)
    set(arg_DATA ${PROJECT_SOURCE_DIR}/tests/data)
  endif()
  add_test(NAME unit.${name} COMMAND unit_${name})
  set_tests_properties(unit.${name} PROPERTIES TIMEOUT 120
    ENVIRONMENT "SPARKSHIM_TEST_DATA=${arg_DATA};SPARKSHIM_SOURCE=${PROJECT_SOURCE_DIR}")
endfunction()
