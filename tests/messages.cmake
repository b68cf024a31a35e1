grapevine_test(messages SOURCES messages_codec_test.cpp USES grapevine_messages)
grapevine_benchmark(codec SOURCES bench/codec_bench.cpp USES grapevine_messages)

# The fuzz target needs clang's libFuzzer, so it is compiled by clang++ beside a build that g++
# makes: the codec, the generated schema and the harness in one command. `ninja codec_fuzz
# codec_seeds` builds it, `./test fuzz` runs it.
find_program(GRAPEVINE_CLANGXX NAMES clang++ clang++-14)
set(codec_fuzz_flags -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined
  -fno-sanitize-recover=all -Wno-overloaded-shift-op-parentheses)  # GV_CHECK is such a shift
if(GRAPEVINE_CLANGXX AND NOT DEFINED GRAPEVINE_LIBFUZZER)
  set(probe ${CMAKE_BINARY_DIR}/libfuzzer_probe.cpp)
  file(WRITE ${probe} "#include <cstddef>\n#include <cstdint>\n"
    "extern \"C\" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }\n")
  execute_process(
    COMMAND ${GRAPEVINE_CLANGXX} ${codec_fuzz_flags} ${probe} -o ${probe}.out
    RESULT_VARIABLE probe_status OUTPUT_QUIET ERROR_QUIET)
  if(probe_status EQUAL 0)
    set(GRAPEVINE_LIBFUZZER ON CACHE INTERNAL "")
  endif()
endif()
if(GRAPEVINE_LIBFUZZER)
  add_executable(codec_seeds EXCLUDE_FROM_ALL fuzz/codec_seeds.cpp)
  target_link_libraries(codec_seeds PRIVATE grapevine_messages grapevine_options)
  set(codec_fuzz ${CMAKE_BINARY_DIR}/bin/codec_fuzz)
  set(generated ${CMAKE_BINARY_DIR}/generated)
  set(codec_fuzz_sources ${CMAKE_CURRENT_LIST_DIR}/fuzz/codec_fuzz.cpp
    ${PROJECT_SOURCE_DIR}/messages/codec.cpp ${generated}/messages/wire.capnp.c++)
  add_custom_command(OUTPUT ${codec_fuzz}
    COMMAND ${GRAPEVINE_CLANGXX} ${codec_fuzz_flags} -I${PROJECT_SOURCE_DIR} -isystem ${generated}
      ${codec_fuzz_sources} -lcapnp -lkj -o ${codec_fuzz}
    # The library stands for the generated schema, which it is compiled from.
    DEPENDS grapevine_messages ${CMAKE_CURRENT_LIST_DIR}/fuzz/codec_fuzz.cpp
      ${PROJECT_SOURCE_DIR}/messages/codec.cpp ${PROJECT_SOURCE_DIR}/messages/codec.hpp
      ${PROJECT_SOURCE_DIR}/messages/frame.hpp
    VERBATIM)
  add_custom_target(codec_fuzz DEPENDS ${codec_fuzz})
endif()
grapevine_found(libFuzzer "${GRAPEVINE_LIBFUZZER}" "no fuzz target")
