# Header-only libraries: from the system, or unpacked without root into .deps/ (see `make deps`).
set(SENNIT_DEPS_DIR "${PROJECT_SOURCE_DIR}/.deps" CACHE PATH "Where unpacked header packages lie")

function(sennit_find_header out header package)
  find_path(
    ${out} NAMES ${header}
    HINTS ${SENNIT_DEPS_DIR}/usr/include
    DOC "Folder of <${header}>, from the package ${package}")
  if(NOT ${out})
    message(
      FATAL_ERROR
        "Header <${header}> was not found in the system's include paths or in ${SENNIT_DEPS_DIR}. "
        "Run `make deps`, or install the package ${package}.")
  endif()
endfunction()

sennit_find_header(SENNIT_FMT_INCLUDE fmt/format.h libfmt-dev)
sennit_find_header(SENNIT_JSON_INCLUDE nlohmann/json.hpp nlohmann-json3-dev)
find_package(Threads REQUIRED)

# Rails (src/drivers/ucx). Without these headers there are none.
find_path(
  SENNIT_UCX_INCLUDE NAMES ucp/api/ucp.h
  HINTS ${SENNIT_DEPS_DIR}/usr/include
  DOC "Folder of <ucp/api/ucp.h>, from the package libucx-dev")

add_library(sennit_headers INTERFACE)
target_include_directories(sennit_headers SYSTEM INTERFACE ${SENNIT_FMT_INCLUDE}
                                                           ${SENNIT_JSON_INCLUDE})
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # What src/base/fmt.cpp does needs an option of g++; elsewhere each source compiles fmt itself.
  target_compile_definitions(sennit_headers INTERFACE FMT_HEADER_ONLY=1)
endif()
target_link_libraries(sennit_headers INTERFACE Threads::Threads)
