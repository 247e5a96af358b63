# Whether kernels are compiled. AUTO spares machines without a GPU the minutes that they take.
set(SENNIT_CUDA_ON OFF)
set(SENNIT_CUDA_WHY_OFF "SENNIT_CUDA is OFF")
if(NOT SENNIT_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(SENNIT_CUDA STREQUAL "ON" AND NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "SENNIT_CUDA is ON, but nvcc was not found. Set CMAKE_CUDA_COMPILER.")
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(SENNIT_CUDA_WHY_OFF "nvcc was not found")
  elseif(SENNIT_CUDA STREQUAL "AUTO" AND NOT EXISTS /dev/nvidiactl)
    set(SENNIT_CUDA_WHY_OFF "no NVIDIA GPU here; -DSENNIT_CUDA=ON compiles all the same")
  else()
    set(SENNIT_CUDA_ON ON)
  endif()
endif()
if(SENNIT_CUDA_ON)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()

# What CI compiles with nvcc where nothing of it runs, and minutes count: of a target, the objects
# whose paths match. Nothing is linked.
function(sennit_cuda_check target paths)
  set_property(GLOBAL APPEND PROPERTY SENNIT_CUDA_CHECKED
                                      $<FILTER:$<TARGET_OBJECTS:${target}>,INCLUDE,${paths}>)
endfunction()

# After the last sennit_cuda_check().
function(sennit_add_cuda_compile_check)
  get_property(objects GLOBAL PROPERTY SENNIT_CUDA_CHECKED)
  set(stamp ${PROJECT_BINARY_DIR}/cuda_compile_check)
  add_custom_command(OUTPUT ${stamp} COMMAND ${CMAKE_COMMAND} -E touch ${stamp} DEPENDS ${objects})
  add_custom_target(sennit_cuda_compile_check DEPENDS ${stamp})
endfunction()
