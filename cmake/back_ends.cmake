# SPDX-License-Identifier: Apache-2.0
# Looks for the vendors' libraries and says, for each, what was found and what becomes of it.

function(fssdp_back_end name found)
  set(FSSDP_WITH_${name} AUTO CACHE STRING "The ${name} back end: AUTO, ON or OFF")
  set_property(CACHE FSSDP_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  set(wish "${FSSDP_WITH_${name}}")
  if(wish STREQUAL "AUTO")
    if(found)
      message(STATUS "fssdp: ${name}: found ${found}; this version has no ${name} back end yet")
    else()
      message(STATUS "fssdp: ${name}: not found; this version has no ${name} back end yet")
    endif()
  elseif(wish)
    list(JOIN fssdp_components ", " there)
    message(FATAL_ERROR
      "FSSDP_WITH_${name}=${wish}: fssdp ${PROJECT_VERSION} has no ${name} back end; "
      "its back ends are: ${there}.")
  else()
    message(STATUS "fssdp: ${name}: off")
  endif()
endfunction()

find_program(FSSDP_CUDA_COMPILER NAMES nvcc
  HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin DOC "CUDA's compiler")
cmake_path(GET FSSDP_CUDA_COMPILER PARENT_PATH cuda_bin)
mark_as_advanced(FSSDP_CUDA_COMPILER)

fssdp_back_end(CUDA "${FSSDP_CUDA_COMPILER}")
