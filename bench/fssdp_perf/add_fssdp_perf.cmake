# SPDX-License-Identifier: Apache-2.0
# add_fssdp_perf(<name> [gloo] [mpi] [cuda] [nccl]): the program, with the sources for those that are
# named and what refuses the others; the caller links them. With cuda or nccl it also has a source,
# or an object, with perf::device_kernels.
function(add_fssdp_perf name)
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set(gloo gloo.cpp)
  set(mpi mpi_team.cpp mpi_contestant.cpp)
  set(cuda cuda.cpp)
  set(nccl nccl.cpp)
  set(sources main.cpp command_line.cpp measure.cpp measure_processes.cpp)
  foreach(library gloo mpi cuda nccl)
    if(library IN_LIST ARGN)
      list(APPEND sources ${${library}})
    else()
      list(APPEND sources without_${library}.cpp)
    endif()
  endforeach()
  list(TRANSFORM sources PREPEND ${folder}/)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${folder} ${folder}/../../examples)  # cases/, program/
  target_link_libraries(${name} PRIVATE
    fssdp::thread CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
endfunction()
