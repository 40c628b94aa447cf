# SPDX-License-Identifier: Apache-2.0
# The target fssdp::peer, where CUDA's runtime is found.
set(FSSDP_WITH_PEER AUTO CACHE STRING "Ranks that are devices of one process: AUTO, ON or OFF")
set_property(CACHE FSSDP_WITH_PEER PROPERTY STRINGS AUTO ON OFF)

include(cmake/find_peer.cmake)
list(JOIN FSSDP_PEER_LACKS ", " peer_lacks)

if(NOT FSSDP_WITH_PEER)
  message(STATUS "fssdp: peer: off")
elseif(NOT FSSDP_PEER_LACKS)
  message(STATUS "fssdp: peer: found ${FSSDP_CUDART_LIBRARY}")
  add_library(fssdp_peer INTERFACE)
  add_library(fssdp::peer ALIAS fssdp_peer)
  set_target_properties(fssdp_peer PROPERTIES EXPORT_NAME peer)
  target_link_libraries(fssdp_peer INTERFACE fssdp_thread
    "$<BUILD_INTERFACE:${FSSDP_CUDART_LIBRARY}>")  # an installed one looks for its own
  target_include_directories(fssdp_peer SYSTEM INTERFACE
    "$<BUILD_INTERFACE:${FSSDP_CUDA_INCLUDE_DIR}>")
  # What kernels call: functions of the core that are constexpr, and so for the host.
  target_compile_options(fssdp_peer INTERFACE
    $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--expt-relaxed-constexpr>)
  target_sources(fssdp_peer INTERFACE
    FILE_SET HEADERS BASE_DIRS include FILES ${peer_headers}
    FILE_SET kernels TYPE HEADERS BASE_DIRS include FILES ${kernel_headers})
  set_target_properties(fssdp_peer PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  list(APPEND fssdp_components peer)
elseif(FSSDP_WITH_PEER STREQUAL "AUTO")
  message(STATUS "fssdp: peer: not found: ${peer_lacks}")
else()
  message(FATAL_ERROR "FSSDP_WITH_PEER=${FSSDP_WITH_PEER}: not found: ${peer_lacks}; "
    "CUDA_HOME in the environment tells where they are.")
endif()
