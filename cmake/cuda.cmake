# SPDX-License-Identifier: Apache-2.0
# The target fssdp::cuda, tokens on a device, where Thrust and CUB are found.
set(FSSDP_WITH_CUDA AUTO CACHE STRING "Tokens on a device, with Thrust and CUB: AUTO, ON or OFF")
set_property(CACHE FSSDP_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)

find_program(FSSDP_CUDA_COMPILER NAMES nvcc
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin DOC "CUDA's compiler")
mark_as_advanced(FSSDP_CUDA_COMPILER)
include(cmake/find_cuda.cmake)
list(JOIN FSSDP_CUDA_LACKS ", " cuda_lacks)

if(NOT FSSDP_WITH_CUDA)
  message(STATUS "fssdp: CUDA: off")
elseif(NOT FSSDP_CUDA_LACKS)
  message(STATUS "fssdp: CUDA: found ${FSSDP_CUDA_INCLUDE_DIR}, ${FSSDP_CCCL_INCLUDE_DIR}")
  add_library(fssdp_cuda INTERFACE)
  add_library(fssdp::cuda ALIAS fssdp_cuda)
  set_target_properties(fssdp_cuda PROPERTIES EXPORT_NAME cuda)
  target_link_libraries(fssdp_cuda INTERFACE fssdp)
  target_include_directories(fssdp_cuda SYSTEM INTERFACE
    "$<BUILD_INTERFACE:${FSSDP_CUDA_INCLUDE_DIRS}>")  # an installed one looks for its own
  target_compile_options(fssdp_cuda INTERFACE
    $<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:--expt-relaxed-constexpr>)
  target_sources(fssdp_cuda INTERFACE FILE_SET HEADERS BASE_DIRS include FILES ${cuda_headers})
  list(APPEND fssdp_components cuda)
elseif(FSSDP_WITH_CUDA STREQUAL "AUTO")
  message(STATUS "fssdp: CUDA: not found: ${cuda_lacks}")
else()
  message(FATAL_ERROR "FSSDP_WITH_CUDA=${FSSDP_WITH_CUDA}: not found: ${cuda_lacks}; "
    "CUDA_HOME and CCCL_HOME in the environment tell where they are.")
endif()
