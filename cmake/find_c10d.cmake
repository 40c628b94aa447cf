# SPDX-License-Identifier: Apache-2.0
# Finds what the back end over PyTorch's process groups needs: FSSDP_C10D_INCLUDE_DIRS,
# FSSDP_C10D_LIBRARIES, FSSDP_C10D_DEFINITIONS, and FSSDP_C10D_LACKS, the names of what is not found. Looks
# at the torch of the Python that is active, then where the system keeps it. Not by find_package(Torch),
# which ends the configuration where torch was built with CUDA and there is no nvcc.
if(NOT FSSDP_TORCH_INCLUDE_DIR OR NOT FSSDP_TORCH_CPU_LIBRARY OR NOT FSSDP_C10_LIBRARY)
  set(_fssdp_python ${Python3_EXECUTABLE} ${Python_EXECUTABLE})  # if the project has chosen one
  if(NOT _fssdp_python)
    find_program(FSSDP_PYTHON NAMES python3 python DOC "The Python whose torch is used")
    mark_as_advanced(FSSDP_PYTHON)
    set(_fssdp_python ${FSSDP_PYTHON})
  endif()
  set(_fssdp_torch "")
  if(_fssdp_python)
    list(GET _fssdp_python 0 _fssdp_python)
    execute_process(
      COMMAND ${_fssdp_python} -c
        "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE _fssdp_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
find_path(FSSDP_TORCH_INCLUDE_DIR torch/csrc/distributed/c10d/ProcessGroup.hpp
  HINTS ${_fssdp_torch}/include DOC "The folder of torch's headers")
find_library(FSSDP_TORCH_CPU_LIBRARY torch_cpu
  HINTS ${FSSDP_TORCH_INCLUDE_DIR}/../lib DOC "The library of torch for the host")
find_library(FSSDP_C10_LIBRARY c10
  HINTS ${FSSDP_TORCH_INCLUDE_DIR}/../lib DOC "The core library of torch")
mark_as_advanced(FSSDP_TORCH_INCLUDE_DIR FSSDP_TORCH_CPU_LIBRARY FSSDP_C10_LIBRARY)

set(FSSDP_C10D_INCLUDE_DIRS
  ${FSSDP_TORCH_INCLUDE_DIR} ${FSSDP_TORCH_INCLUDE_DIR}/torch/csrc/api/include)
set(FSSDP_C10D_LIBRARIES ${FSSDP_TORCH_CPU_LIBRARY} ${FSSDP_C10_LIBRARY})
# Wheels of torch 2.6 and older have the strings of before C++11, which libstdc++ still offers: all that is
# linked together with such a torch has to be compiled for them, too.
set(FSSDP_C10D_DEFINITIONS "")
if(FSSDP_C10_LIBRARY)
  file(STRINGS ${FSSDP_C10_LIBRARY} _fssdp_old_strings REGEX "^_ZNK3c106Device3strEv$" LIMIT_COUNT 1)
  if(_fssdp_old_strings)
    set(FSSDP_C10D_DEFINITIONS _GLIBCXX_USE_CXX11_ABI=0)
  endif()
endif()
set(FSSDP_C10D_LACKS "")
if(NOT FSSDP_TORCH_INCLUDE_DIR)
  list(APPEND FSSDP_C10D_LACKS torch/csrc/distributed/c10d/ProcessGroup.hpp)
endif()
if(NOT FSSDP_TORCH_CPU_LIBRARY)
  list(APPEND FSSDP_C10D_LACKS libtorch_cpu)
endif()
if(NOT FSSDP_C10_LIBRARY)
  list(APPEND FSSDP_C10D_LACKS libc10)
endif()
get_directory_property(_fssdp_definitions COMPILE_DEFINITIONS)
if(FSSDP_C10D_DEFINITIONS AND
   NOT "${CMAKE_CXX_FLAGS} ${_fssdp_definitions}" MATCHES "${FSSDP_C10D_DEFINITIONS}")
  list(APPEND FSSDP_C10D_LACKS
    "the definition ${FSSDP_C10D_DEFINITIONS} (add_compile_definitions), with which this torch was built")
endif()
