# SPDX-License-Identifier: Apache-2.0
# Installs the headers and the CMake package, one set of targets per component; the build tree can
# be used as a package too.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/fssdp)

configure_package_config_file(cmake/fssdpConfig.cmake.in ${PROJECT_BINARY_DIR}/fssdpConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fssdpConfigVersion.cmake
  COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
foreach(module FindxxHash compiled find_c10d find_cuda find_nccl find_peer)
  configure_file(cmake/${module}.cmake ${PROJECT_BINARY_DIR}/${module}.cmake COPYONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${module}.cmake DESTINATION ${package_dir})
endforeach()
foreach(source compiled compiled_beside_training compiled_collectives compiled_planning)
  configure_file(src/${source}.cpp ${PROJECT_BINARY_DIR}/${source}.cpp COPYONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${source}.cpp DESTINATION ${package_dir})
endforeach()
install(FILES
  ${PROJECT_BINARY_DIR}/fssdpConfig.cmake ${PROJECT_BINARY_DIR}/fssdpConfigVersion.cmake
  DESTINATION ${package_dir})

install(TARGETS fssdp EXPORT fssdp FILE_SET HEADERS)
foreach(component IN LISTS fssdp_components)
  set(kernels "")
  if(component MATCHES "^(nccl|peer)$")
    set(kernels FILE_SET kernels)
  endif()
  install(TARGETS fssdp_${component} EXPORT fssdp-${component} FILE_SET HEADERS ${kernels})
endforeach()
foreach(set fssdp ${fssdp_components})
  if(NOT set STREQUAL "fssdp")
    string(PREPEND set "fssdp-")
  endif()
  install(EXPORT ${set} NAMESPACE fssdp:: FILE ${set}-targets.cmake DESTINATION ${package_dir})
  export(EXPORT ${set} NAMESPACE fssdp:: FILE ${PROJECT_BINARY_DIR}/${set}-targets.cmake)
endforeach()
