# SPDX-License-Identifier: Apache-2.0
# add_fssdp_step(<name> [mpi] [cuda] [nccl]): the program, with the sources for those that are named
# and what refuses the others; the caller links them. With cuda or nccl it also has a source, or an
# object, with what device_math.hpp declares.
include_guard(GLOBAL)

# What needs none of these libraries, and is tested by itself.
add_library(fssdp_step_parts STATIC EXCLUDE_FROM_ALL
  ${CMAKE_CURRENT_LIST_DIR}/command_line.cpp ${CMAKE_CURRENT_LIST_DIR}/device_rank.cpp
  ${CMAKE_CURRENT_LIST_DIR}/iterations.cpp ${CMAKE_CURRENT_LIST_DIR}/thread_devices.cpp)
target_include_directories(fssdp_step_parts PUBLIC
  ${CMAKE_CURRENT_LIST_DIR}/.. ${CMAKE_CURRENT_LIST_DIR}/../../examples)
target_link_libraries(fssdp_step_parts PUBLIC
  fssdp::compiled CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)

function(add_fssdp_step name)
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set(mpi mpi_devices.cpp)
  set(cuda cuda.cpp cuda_device.cpp)
  set(nccl nccl.cpp)
  set(sources main.cpp)
  foreach(library mpi cuda nccl)
    if(library IN_LIST ARGN)
      list(APPEND sources ${${library}})
    else()
      list(APPEND sources without_${library}.cpp)
    endif()
  endforeach()
  list(TRANSFORM sources PREPEND ${folder}/)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE fssdp_step_parts)
endfunction()
