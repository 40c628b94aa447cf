# SPDX-License-Identifier: Apache-2.0
# The target fssdp::c10d, where torch is found.
set(FSSDP_WITH_C10D AUTO CACHE STRING "Ranks of PyTorch's process groups: AUTO, ON or OFF")
set_property(CACHE FSSDP_WITH_C10D PROPERTY STRINGS AUTO ON OFF)

if(FSSDP_WITH_C10D)
  include(cmake/find_c10d.cmake)
  list(JOIN FSSDP_C10D_LACKS ", " c10d_lacks)
endif()

if(NOT FSSDP_WITH_C10D)
  message(STATUS "fssdp: c10d: off")
elseif(NOT FSSDP_C10D_LACKS)
  message(STATUS "fssdp: c10d: found ${FSSDP_TORCH_CPU_LIBRARY}")
  add_library(fssdp_c10d INTERFACE)
  add_library(fssdp::c10d ALIAS fssdp_c10d)
  set_target_properties(fssdp_c10d PROPERTIES EXPORT_NAME c10d)
  target_link_libraries(fssdp_c10d INTERFACE fssdp Threads::Threads
    "$<BUILD_INTERFACE:${FSSDP_C10D_LIBRARIES}>")  # an installed one looks for its own
  target_include_directories(fssdp_c10d SYSTEM INTERFACE
    "$<BUILD_INTERFACE:${FSSDP_C10D_INCLUDE_DIRS}>")
  target_sources(fssdp_c10d INTERFACE FILE_SET HEADERS BASE_DIRS include FILES ${c10d_headers})
  list(APPEND fssdp_components c10d)
elseif(FSSDP_WITH_C10D STREQUAL "AUTO")
  message(STATUS "fssdp: c10d: not found: ${c10d_lacks}")
else()
  message(FATAL_ERROR "FSSDP_WITH_C10D=${FSSDP_WITH_C10D}: not found: ${c10d_lacks}; "
    "expected a torch in the active Python, libtorch-dev, or FSSDP_TORCH_INCLUDE_DIR.")
endif()
