# SPDX-License-Identifier: Apache-2.0
# The target fssdp::compiled: the bodies of the library that are no templates, compiled once for a
# whole program, when something is linked to it that is built. They are two files, which take about as
# long, in FSSDP_COMPILED_FOLDER.
if(NOT TARGET fssdp_compiled)
  add_library(fssdp_compiled STATIC EXCLUDE_FROM_ALL
    ${FSSDP_COMPILED_FOLDER}/compiled_collectives.cpp ${FSSDP_COMPILED_FOLDER}/compiled_planning.cpp)
  add_library(fssdp::compiled ALIAS fssdp_compiled)
  set_target_properties(fssdp_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(fssdp_compiled PUBLIC fssdp::thread)
  target_compile_definitions(fssdp_compiled PUBLIC FSSDP_COMPILED=1)
  # Nobody replaces one of its functions at run time: calls between them may be inlined, as they are
  # where all of it is inline.
  target_compile_options(fssdp_compiled PRIVATE
    $<$<CXX_COMPILER_ID:GNU,Clang>:-fno-semantic-interposition>
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=500000>)  # 0.8 GB; a tenth of the time less
endif()
