# SPDX-License-Identifier: Apache-2.0
# add_fssdp_step(<name> [mpi] [cuda] [nccl]): the program, with the sources for those that are named
# and what refuses the others; the caller links them. With cuda or nccl it also has a source, or an
# object, with what device_math.hpp declares.
function(add_fssdp_step name)
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set(mpi mpi_devices.cpp)
  set(cuda cuda.cpp cuda_device.cpp)
  set(nccl nccl.cpp)
  set(sources main.cpp command_line.cpp device_rank.cpp iterations.cpp thread_devices.cpp)
  foreach(library mpi cuda nccl)
    if(library IN_LIST ARGN)
      list(APPEND sources ${${library}})
    else()
      list(APPEND sources without_${library}.cpp)
    endif()
  endforeach()
  list(TRANSFORM sources PREPEND ${folder}/)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${folder}/.. ${folder}/../../examples)
  target_link_libraries(${name} PRIVATE
    fssdp::compiled CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
endfunction()
