# SPDX-License-Identifier: Apache-2.0
# The target fssdp::compiled: the bodies of the library that are no templates, compiled once for a
# whole program, when something is linked to it that is built. fssdp::compiled_training has those of
# them that a training loop needs. They are files in FSSDP_COMPILED_FOLDER.
if(NOT TARGET fssdp_compiled)
  add_library(fssdp_compiled_training STATIC EXCLUDE_FROM_ALL
    ${FSSDP_COMPILED_FOLDER}/compiled_collectives.cpp ${FSSDP_COMPILED_FOLDER}/compiled_planning.cpp)
  target_link_libraries(fssdp_compiled_training PUBLIC fssdp::thread)
  target_compile_definitions(fssdp_compiled_training PUBLIC FSSDP_COMPILED=1)
  add_library(fssdp_compiled STATIC EXCLUDE_FROM_ALL
    ${FSSDP_COMPILED_FOLDER}/compiled_beside_training.cpp)
  target_link_libraries(fssdp_compiled PUBLIC fssdp_compiled_training)
  add_library(fssdp::compiled_training ALIAS fssdp_compiled_training)
  add_library(fssdp::compiled ALIAS fssdp_compiled)
  foreach(target fssdp_compiled_training fssdp_compiled)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    # Nobody replaces one of its functions at run time: calls between them may be inlined, as they are
    # where all of it is inline.
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU,Clang>:-fno-semantic-interposition>
      $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=500000>)  # 0.8 GB; a tenth of the time less
  endforeach()
endif()
