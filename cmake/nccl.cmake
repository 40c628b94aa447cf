# SPDX-License-Identifier: Apache-2.0
# The target fssdp::nccl, where CUDA's runtime and NCCL are found.
set(FSSDP_WITH_NCCL AUTO CACHE STRING "Ranks that are devices, over NCCL: AUTO, ON or OFF")
set_property(CACHE FSSDP_WITH_NCCL PROPERTY STRINGS AUTO ON OFF)

include(cmake/find_nccl.cmake)
list(JOIN FSSDP_NCCL_LACKS ", " nccl_lacks)

if(NOT FSSDP_WITH_NCCL)
  message(STATUS "fssdp: NCCL: off")
elseif(NOT FSSDP_NCCL_LACKS)
  message(STATUS "fssdp: NCCL: found ${FSSDP_NCCL_LIBRARY}, ${FSSDP_CUDART_LIBRARY}")
  add_library(fssdp_nccl INTERFACE)
  add_library(fssdp::nccl ALIAS fssdp_nccl)
  set_target_properties(fssdp_nccl PROPERTIES EXPORT_NAME nccl)
  target_link_libraries(fssdp_nccl INTERFACE fssdp Threads::Threads
    "$<BUILD_INTERFACE:${FSSDP_NCCL_LIBRARIES}>")  # an installed one looks for its own
  target_include_directories(fssdp_nccl SYSTEM INTERFACE
    "$<BUILD_INTERFACE:${FSSDP_NCCL_INCLUDE_DIRS}>")
  # What kernels call: functions of the core that are constexpr, and so for the host.
  target_compile_options(fssdp_nccl INTERFACE
    $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--expt-relaxed-constexpr>)
  target_sources(fssdp_nccl INTERFACE
    FILE_SET HEADERS BASE_DIRS include FILES ${nccl_headers}
    FILE_SET kernels TYPE HEADERS BASE_DIRS include FILES ${kernel_headers})
  set_target_properties(fssdp_nccl PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  list(APPEND fssdp_components nccl)
elseif(FSSDP_WITH_NCCL STREQUAL "AUTO")
  message(STATUS "fssdp: NCCL: not found: ${nccl_lacks}")
else()
  message(FATAL_ERROR "FSSDP_WITH_NCCL=${FSSDP_WITH_NCCL}: not found: ${nccl_lacks}; "
    "CUDA_HOME and NCCL_HOME in the environment tell where they are.")
endif()
