# Installation: library, headers, pkg-config file, CMake package, programs of the bench. All find
# their neighbours relative to themselves, so that the tree may be moved; the Python package holds
# it.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
install(
  TARGETS sennit
  EXPORT sennitTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sennit_nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/nccl)
if(TARGET sennit_mpi)
  install(TARGETS sennit_mpi sennit_mpi_front LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/mpi)
endif()
install(EXPORT sennitTargets NAMESPACE sennit:: DESTINATION ${package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/sennitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/sennitConfig.cmake
              ${PROJECT_BINARY_DIR}/sennitConfigVersion.cmake DESTINATION ${package_dir})

install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/include/sennit
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def")

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir} OUTPUT_VARIABLE prefix_from_pc)
configure_file(${PROJECT_SOURCE_DIR}/cmake/sennit.pc.in ${PROJECT_BINARY_DIR}/sennit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sennit.pc DESTINATION ${pkgconfig_dir})

cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR
           BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE lib_from_bin)
if(TARGET sennit-rank)
  set_target_properties(sennit-rank PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  set_target_properties(sennit-rank-library PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS sennit-rank RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS sennit-rank-library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  # What `sennit bench --against` compiles with the rival's own compiler.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/bench/rivals DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit)
  # What `sennit bench ddp` runs.
  install(
    DIRECTORY ${PROJECT_SOURCE_DIR}/bench/ddp
    DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit
    FILES_MATCHING
    PATTERN "*.py")
endif()

if(TARGET sennit-compare)
  # What `sennit bench --executor cuda` runs.
  set_target_properties(sennit-compare PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS sennit-compare RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

if(SENNIT_BUILD_PYTHON)
  # What `import sennit.torch` compiles for the PyTorch that is there.
  install(
    DIRECTORY ${PROJECT_SOURCE_DIR}/frontends/torch
    DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit
    FILES_MATCHING
    PATTERN "*.[ch]pp")
endif()

if(SKBUILD)
  # Here the prefix is the Python package itself. A wheel holds no links: with a versioned name the
  # library would be in it three times.
  set_property(TARGET sennit PROPERTY VERSION)
  set_property(TARGET sennit PROPERTY SOVERSION)
  install(TARGETS sennit_python LIBRARY DESTINATION .)
endif()

# All that an installation needs, and no test.
add_custom_target(sennit_installation DEPENDS sennit sennit_nccl)
foreach(target IN ITEMS sennit_mpi sennit_mpi_front sennit-rank sennit-compare sennit_python)
  if(TARGET ${target})
    add_dependencies(sennit_installation ${target})
  endif()
endforeach()
