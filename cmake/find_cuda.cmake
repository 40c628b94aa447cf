# SPDX-License-Identifier: Apache-2.0
# Finds what work on a device needs, Thrust and CUB: FSSDP_CUDA_INCLUDE_DIRS, and FSSDP_CUDA_LACKS,
# the names of what is not found.
find_path(FSSDP_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include
  DOC "The folder of cuda_runtime_api.h")
find_path(FSSDP_CCCL_INCLUDE_DIR thrust/version.h
  HINTS ENV CCCL_HOME ${FSSDP_CUDA_INCLUDE_DIR} PATH_SUFFIXES cccl include
  DOC "The folder of thrust/version.h")
mark_as_advanced(FSSDP_CUDA_INCLUDE_DIR FSSDP_CCCL_INCLUDE_DIR)

set(FSSDP_CUDA_INCLUDE_DIRS ${FSSDP_CCCL_INCLUDE_DIR} ${FSSDP_CUDA_INCLUDE_DIR})
list(REMOVE_DUPLICATES FSSDP_CUDA_INCLUDE_DIRS)
set(FSSDP_CUDA_LACKS "")
if(NOT FSSDP_CUDA_INCLUDE_DIR)
  list(APPEND FSSDP_CUDA_LACKS cuda_runtime_api.h)
endif()
if(NOT FSSDP_CCCL_INCLUDE_DIR)
  list(APPEND FSSDP_CUDA_LACKS thrust/version.h)
endif()
