# SPDX-License-Identifier: Apache-2.0
# Finds xxHash 0.8 or newer, which has XXH3: xxHash_FOUND and the target xxHash::xxhash.
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
endif()
