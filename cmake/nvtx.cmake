# SPDX-License-Identifier: Apache-2.0
# The target fssdp::nvtx, where the headers of NVTX 3 are found (CUDA's toolkit has them).
set(FSSDP_WITH_NVTX AUTO CACHE STRING "Traces that profilers show, through NVTX 3: AUTO, ON or OFF")
set_property(CACHE FSSDP_WITH_NVTX PROPERTY STRINGS AUTO ON OFF)

find_path(FSSDP_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
  HINTS ${FSSDP_CUDA_INCLUDE_DIR} ENV CUDA_HOME PATH_SUFFIXES include
  DOC "The folder of nvtx3/nvToolsExt.h")
mark_as_advanced(FSSDP_NVTX_INCLUDE_DIR)

if(NOT FSSDP_WITH_NVTX)
  message(STATUS "fssdp: NVTX: off")
elseif(FSSDP_NVTX_INCLUDE_DIR)
  message(STATUS "fssdp: NVTX: found ${FSSDP_NVTX_INCLUDE_DIR}/nvtx3")
  add_library(fssdp_nvtx INTERFACE)
  add_library(fssdp::nvtx ALIAS fssdp_nvtx)
  set_target_properties(fssdp_nvtx PROPERTIES EXPORT_NAME nvtx)
  target_link_libraries(fssdp_nvtx INTERFACE fssdp ${CMAKE_DL_LIBS})
  target_include_directories(fssdp_nvtx SYSTEM INTERFACE
    $<BUILD_INTERFACE:${FSSDP_NVTX_INCLUDE_DIR}>)  # an installed one looks for its own
  target_sources(fssdp_nvtx INTERFACE FILE_SET HEADERS BASE_DIRS include FILES ${nvtx_headers})
  list(APPEND fssdp_components nvtx)
elseif(FSSDP_WITH_NVTX STREQUAL "AUTO")
  message(STATUS "fssdp: NVTX: not found")
else()
  message(FATAL_ERROR "FSSDP_WITH_NVTX=${FSSDP_WITH_NVTX}: nvtx3/nvToolsExt.h is not found; "
    "FSSDP_NVTX_INCLUDE_DIR tells its folder.")
endif()
