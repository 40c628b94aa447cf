# SPDX-License-Identifier: Apache-2.0
# The target fssdp::checkpoint, where nlohmann_json and xxHash are found.
set(FSSDP_WITH_CHECKPOINT AUTO CACHE STRING "Experts in files: AUTO, ON or OFF")
set_property(CACHE FSSDP_WITH_CHECKPOINT PROPERTY STRINGS AUTO ON OFF)

if(FSSDP_WITH_CHECKPOINT)
  list(APPEND CMAKE_MODULE_PATH ${PROJECT_SOURCE_DIR}/cmake)
  find_package(nlohmann_json QUIET)
  find_package(xxHash QUIET)
endif()

if(NOT FSSDP_WITH_CHECKPOINT)
  message(STATUS "fssdp: checkpoints: off")
elseif(TARGET nlohmann_json::nlohmann_json AND TARGET xxHash::xxhash)
  message(STATUS "fssdp: checkpoints: found nlohmann_json ${nlohmann_json_VERSION}, ${xxHash_LIBRARY}")
  add_library(fssdp_checkpoint INTERFACE)
  add_library(fssdp::checkpoint ALIAS fssdp_checkpoint)
  set_target_properties(fssdp_checkpoint PROPERTIES EXPORT_NAME checkpoint)
  target_link_libraries(fssdp_checkpoint INTERFACE
    fssdp nlohmann_json::nlohmann_json xxHash::xxhash)
  target_sources(fssdp_checkpoint INTERFACE
    FILE_SET HEADERS BASE_DIRS include FILES ${checkpoint_headers})
  list(APPEND fssdp_components checkpoint)
elseif(FSSDP_WITH_CHECKPOINT STREQUAL "AUTO")
  message(STATUS "fssdp: checkpoints: nlohmann_json or xxHash not found")
else()
  message(FATAL_ERROR "FSSDP_WITH_CHECKPOINT=${FSSDP_WITH_CHECKPOINT}: nlohmann_json or xxHash is "
    "not found; expected nlohmann-json3-dev and libxxhash-dev.")
endif()
