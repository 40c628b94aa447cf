# SPDX-License-Identifier: Apache-2.0
# The target fssdp::mpi, where MPI is found.
set(FSSDP_WITH_MPI AUTO CACHE STRING "Ranks that are processes, over MPI: AUTO, ON or OFF")
set_property(CACHE FSSDP_WITH_MPI PROPERTY STRINGS AUTO ON OFF)

if(FSSDP_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the old C++ bindings
  find_package(MPI QUIET COMPONENTS CXX)
endif()

if(NOT FSSDP_WITH_MPI)
  message(STATUS "fssdp: MPI: off")
elseif(TARGET MPI::MPI_CXX)
  message(STATUS "fssdp: MPI: found MPI ${MPI_CXX_VERSION}, ${MPI_CXX_COMPILER}")
  add_library(fssdp_mpi INTERFACE)
  add_library(fssdp::mpi ALIAS fssdp_mpi)
  set_target_properties(fssdp_mpi PROPERTIES EXPORT_NAME mpi)
  target_link_libraries(fssdp_mpi INTERFACE fssdp MPI::MPI_CXX Threads::Threads)
  target_sources(fssdp_mpi INTERFACE FILE_SET HEADERS BASE_DIRS include FILES ${mpi_headers})
  list(APPEND fssdp_components mpi)
elseif(FSSDP_WITH_MPI STREQUAL "AUTO")
  message(STATUS "fssdp: MPI: not found")
else()
  message(FATAL_ERROR "FSSDP_WITH_MPI=${FSSDP_WITH_MPI}: MPI is not found; "
    "MPI_CXX_COMPILER tells its compiler wrapper.")
endif()
