# SPDX-License-Identifier: Apache-2.0
# How programs have their kernels compiled where CMake's language CUDA is not enabled.
set(FSSDP_CUDA_ARCHITECTURES 80 90 100 CACHE STRING
  "The devices that the library's kernels are compiled for in programs; 90-virtual: as PTX, for the driver")
set(FSSDP_CUDA_FLAGS "" CACHE STRING "More arguments for nvcc")
set(FSSDP_CUDA_CODES "")  # what that means to nvcc
foreach(architecture IN LISTS FSSDP_CUDA_ARCHITECTURES)
  if(architecture MATCHES "^([0-9]+)-virtual$")
    list(APPEND FSSDP_CUDA_CODES -gencode arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
  else()
    list(APPEND FSSDP_CUDA_CODES -gencode arch=compute_${architecture},code=sm_${architecture})
  endif()
endforeach()

# compile_with_nvcc(<name> <source> <flag>...): a target that makes <name>.o in the current folder.
function(compile_with_nvcc name source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  set(strict "")
  if(CMAKE_COMPILE_WARNING_AS_ERROR)
    set(strict -Werror all-warnings)
  endif()
  add_custom_command(OUTPUT ${object}
    COMMAND ${FSSDP_CUDA_COMPILER} -std=c++20 --expt-relaxed-constexpr ${strict} ${FSSDP_CUDA_FLAGS} ${ARGN}
      -I ${PROJECT_SOURCE_DIR}/include -I ${CMAKE_CURRENT_SOURCE_DIR} -MD -MF ${object}.d
      -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    MAIN_DEPENDENCY ${source} DEPFILE ${object}.d VERBATIM
    COMMENT "Compiling ${source} with nvcc")
  add_custom_target(${name} ALL DEPENDS ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
