# The last lines of a configure: what will be built, and for each part that is off, why.
function(sennit_summarize name wanted why_off)
  if(wanted)
    message(STATUS "  ${name}: on")
  else()
    message(STATUS "  ${name}: off (${why_off})")
  endif()
endfunction()

message(STATUS "Sennit ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, "
               "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
sennit_summarize("C++ tests" "${SENNIT_BUILD_TESTS}" "SENNIT_BUILD_TESTS is OFF")
sennit_summarize("Python module" "${SENNIT_BUILD_PYTHON}" "SENNIT_BUILD_PYTHON is OFF")
sennit_summarize("MPI front end" "${SENNIT_MPI_ON}" "its entries are in assembly, for x86-64 alone")
sennit_summarize("GPU ranks (CUDA)" "${SENNIT_CUDA_ON}" "${SENNIT_CUDA_WHY_OFF}")
sennit_summarize("rails (UCX)" "${SENNIT_UCX_INCLUDE}" "libucx-dev is missing; make deps")
sennit_summarize("warnings as errors" "${SENNIT_WERROR}" "SENNIT_WERROR is OFF")
sennit_summarize("sanitizers ${SENNIT_SANITIZE}" "${SENNIT_SANITIZE}" "SENNIT_SANITIZE is empty")
sennit_summarize("coverage" "${SENNIT_COVERAGE}" "SENNIT_COVERAGE is OFF")
