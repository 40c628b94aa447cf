# SPDX-License-Identifier: Apache-2.0
# Finds xxHash 0.8 or newer, which has XXH3: xxHash_FOUND and the target xxHash::xxhash.
#
# Some builds of it choose AVX2 or AVX-512 when a program runs, two to three times as fast as SSE2:
# FSSDP_XXHASH_DISPATCHES is defined where this is one.
include(CheckCXXSymbolExists)
include(CMakePushCheckState)
include(FindPackageHandleStandardArgs)

find_path(xxHash_INCLUDE_DIR xxhash.h)
find_library(xxHash_LIBRARY NAMES xxhash)
mark_as_advanced(xxHash_INCLUDE_DIR xxHash_LIBRARY)
if(xxHash_INCLUDE_DIR)
  foreach(part MAJOR MINOR RELEASE)
    file(STRINGS ${xxHash_INCLUDE_DIR}/xxhash.h line REGEX "define XXH_VERSION_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+" xxHash_${part} "${line}")
  endforeach()
  set(xxHash_VERSION ${xxHash_MAJOR}.${xxHash_MINOR}.${xxHash_RELEASE})
endif()
if(NOT xxHash_FIND_VERSION)
  set(xxHash_FIND_VERSION 0.8)
endif()
find_package_handle_standard_args(xxHash
  REQUIRED_VARS xxHash_LIBRARY xxHash_INCLUDE_DIR VERSION_VAR xxHash_VERSION)

if(xxHash_FOUND AND NOT TARGET xxHash::xxhash)
  add_library(xxHash::xxhash UNKNOWN IMPORTED)
  set_target_properties(xxHash::xxhash PROPERTIES
    IMPORTED_LOCATION ${xxHash_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${xxHash_INCLUDE_DIR})
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_LIBRARIES xxHash::xxhash)
  check_cxx_symbol_exists(XXH3_64bits_dispatch xxh_x86dispatch.h xxHash_DISPATCHES)
  cmake_pop_check_state()
  if(xxHash_DISPATCHES)
    target_compile_definitions(xxHash::xxhash INTERFACE FSSDP_XXHASH_DISPATCHES)
  endif()
endif()
