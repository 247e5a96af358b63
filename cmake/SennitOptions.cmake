# Compile options on one INTERFACE target, so that no flag is set at directory scope.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(sennit_options INTERFACE)
target_compile_features(sennit_options INTERFACE cxx_std_20)
target_compile_options(
  sennit_options
  INTERFACE -Wall -Wextra -Wconversion -Wshadow -fvisibility=hidden -fvisibility-inlines-hidden
            # No product and sum in one operation, which would round once (types/rounded.hpp).
            -ffp-contract=off
            $<$<BOOL:${SENNIT_WERROR}>:-Werror>)
target_include_directories(
  sennit_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                           ${PROJECT_BINARY_DIR}/generated)
if(SENNIT_SANITIZE)
  target_compile_options(
    sennit_options INTERFACE -fsanitize=${SENNIT_SANITIZE} -fno-omit-frame-pointer
                             -fno-sanitize-recover=all)
  target_link_options(sennit_options INTERFACE -fsanitize=${SENNIT_SANITIZE})
endif()
if(SENNIT_LIBFUZZER)
  target_compile_options(sennit_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SENNIT_COVERAGE)
  # Ranks are threads in many tests. Counters that are not atomic may lose counts there, which the
  # report does without: it says whether a line ran. Atomic ones make these tests ten times slower.
  target_compile_options(sennit_options INTERFACE --coverage -fprofile-update=single)
  target_link_options(sennit_options INTERFACE --coverage)
endif()
