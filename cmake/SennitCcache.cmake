# What was compiled before comes out of ccache, where that is installed (`make deps` installs it
# where it may). A launcher that the caller names, as a variable here or in the environment, stays
# as it is; `-DSENNIT_CCACHE=OFF` does without.
find_program(SENNIT_CCACHE ccache DOC "ccache, or OFF")
if(SENNIT_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the checkout are hashed as relative ones, so that another checkout finds what this
  # one compiled. Precompiled headers need the sloppiness: ccache cannot see which macros one
  # defines, nor whether it expands __TIME__, which no source here does.
  set(launcher
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${SENNIT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()
