# SPDX-License-Identifier: Apache-2.0
# Finds what the back end over NCCL needs: FSSDP_NCCL_INCLUDE_DIRS, FSSDP_NCCL_LIBRARIES, and
# FSSDP_NCCL_LACKS, the names of what is not found.
find_path(FSSDP_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include
  DOC "The folder of cuda_runtime_api.h")
find_library(FSSDP_CUDART_LIBRARY cudart
  HINTS ${FSSDP_CUDA_INCLUDE_DIR}/.. ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib
  DOC "CUDA's runtime")
find_path(FSSDP_NCCL_INCLUDE_DIR nccl.h
  HINTS ENV NCCL_HOME ${FSSDP_CUDA_INCLUDE_DIR} PATH_SUFFIXES include DOC "The folder of nccl.h")
find_library(FSSDP_NCCL_LIBRARY
  NAMES nccl libnccl.so.2 NAMES_PER_DIR  # the latter is alone in Python's packages
  HINTS ENV NCCL_HOME ${FSSDP_NCCL_INCLUDE_DIR}/.. PATH_SUFFIXES lib64 lib DOC "The library of NCCL")
mark_as_advanced(
  FSSDP_CUDA_INCLUDE_DIR FSSDP_CUDART_LIBRARY FSSDP_NCCL_INCLUDE_DIR FSSDP_NCCL_LIBRARY)

set(FSSDP_NCCL_INCLUDE_DIRS ${FSSDP_CUDA_INCLUDE_DIR} ${FSSDP_NCCL_INCLUDE_DIR})
list(REMOVE_DUPLICATES FSSDP_NCCL_INCLUDE_DIRS)
set(FSSDP_NCCL_LIBRARIES ${FSSDP_NCCL_LIBRARY} ${FSSDP_CUDART_LIBRARY})
set(FSSDP_NCCL_LACKS "")
if(NOT FSSDP_CUDA_INCLUDE_DIR)
  list(APPEND FSSDP_NCCL_LACKS cuda_runtime_api.h)
endif()
if(NOT FSSDP_CUDART_LIBRARY)
  list(APPEND FSSDP_NCCL_LACKS libcudart)
endif()
if(NOT FSSDP_NCCL_INCLUDE_DIR)
  list(APPEND FSSDP_NCCL_LACKS nccl.h)
endif()
if(NOT FSSDP_NCCL_LIBRARY)
  list(APPEND FSSDP_NCCL_LACKS libnccl)
endif()
