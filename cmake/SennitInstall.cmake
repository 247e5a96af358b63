# Installation: library, headers, pkg-config file, CMake package, programs of the bench. All find
# their neighbours relative to themselves, so that the tree may be moved; the Python package holds
# it.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sennit)
set(link_by_name "")
if(SKBUILD)
  set(link_by_name NAMELINK_SKIP)
endif()
install(
  TARGETS sennit
  EXPORT sennitTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${link_by_name})
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

# Licences of the libraries of which parts are compiled into ours. Debian's packages bring them
# with the headers.
function(sennit_install_licence name file)
  if(EXISTS "${file}")
    install(FILES "${file}" DESTINATION ${CMAKE_INSTALL_DATADIR}/sennit/licences
            RENAME ${name}.txt)
  endif()
endfunction()
sennit_install_licence(fmt ${SENNIT_FMT_INCLUDE}/../share/doc/libfmt-dev/copyright)
sennit_install_licence(nlohmann_json
                       ${SENNIT_JSON_INCLUDE}/../share/doc/nlohmann-json3-dev/copyright)
if(SENNIT_UCX_INCLUDE)
  sennit_install_licence(ucx ${SENNIT_UCX_INCLUDE}/../share/doc/libucx-dev/copyright)
endif()
if(SENNIT_BUILD_PYTHON)
  file(GLOB nanobind_licence ${nanobind_DIR}/../../nanobind-*.dist-info/licenses/LICENSE)
  sennit_install_licence(nanobind "${nanobind_licence}")
  # That of a library inside nanobind is the first comment of each of its files.
  file(READ ${nanobind_DIR}/../ext/robin_map/include/tsl/robin_map.h text LIMIT 2000)
  string(REGEX MATCH "^/[*]([^*]|[*][^/])*[*]/" text "${text}")
  file(WRITE ${PROJECT_BINARY_DIR}/robin_map.txt "${text}\n")
  sennit_install_licence(robin_map ${PROJECT_BINARY_DIR}/robin_map.txt)
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
  # Here the prefix is the Python package itself. A wheel holds no links, so the library is in it
  # once, by the name that programs load; the name that they are linked with is a linker script.
  set_property(TARGET sennit PROPERTY VERSION ${SENNIT_SOVERSION})
  file(WRITE ${PROJECT_BINARY_DIR}/linked/libsennit.so "INPUT(libsennit.so.${SENNIT_SOVERSION})\n")
  install(FILES ${PROJECT_BINARY_DIR}/linked/libsennit.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS sennit_python LIBRARY DESTINATION .)
endif()

# All that an installation needs, and no test.
add_custom_target(sennit_installation DEPENDS sennit sennit_nccl)
foreach(target IN ITEMS sennit_mpi sennit_mpi_front sennit-rank sennit-compare sennit_python)
  if(TARGET ${target})
    add_dependencies(sennit_installation ${target})
  endif()
endforeach()
