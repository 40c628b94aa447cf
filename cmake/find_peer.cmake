# SPDX-License-Identifier: Apache-2.0
# Finds what the back end between devices of one process needs: FSSDP_CUDA_INCLUDE_DIR,
# FSSDP_CUDART_LIBRARY, and FSSDP_PEER_LACKS, the names of what is not found.
find_path(FSSDP_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include
  DOC "The folder of cuda_runtime_api.h")
find_library(FSSDP_CUDART_LIBRARY cudart
  HINTS ${FSSDP_CUDA_INCLUDE_DIR}/.. ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib
  DOC "CUDA's runtime")
mark_as_advanced(FSSDP_CUDA_INCLUDE_DIR FSSDP_CUDART_LIBRARY)

set(FSSDP_PEER_LACKS "")
if(NOT FSSDP_CUDA_INCLUDE_DIR)
  list(APPEND FSSDP_PEER_LACKS cuda_runtime_api.h)
endif()
if(NOT FSSDP_CUDART_LIBRARY)
  list(APPEND FSSDP_PEER_LACKS libcudart)
endif()
