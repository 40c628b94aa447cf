# SPDX-License-Identifier: Apache-2.0
# Finds a fast BLAS for moe_gpt: OpenBLAS, BLIS or MKL, each by a header that only it has and by its
# own library. What the system calls cblas.h and libblas may be the reference BLAS, which is slower
# than a plain loop. Nothing is kept for the next configuration: one that is installed later is found.

# fssdp_find_blas(<choice>)
# Sets FSSDP_BLAS to OpenBLAS, BLIS or MKL, FSSDP_BLAS_HEADERS to the folder of its headers and
# FSSDP_BLAS_LIBRARY to its library. FSSDP_BLAS is empty where there is none, or only half of one.
# The choice is AUTO (the first that is found), NONE, or the name of one, which is then required.
function(fssdp_find_blas choice)
  set(names OpenBLAS BLIS MKL)
  set(OpenBLAS_header openblas_config.h)
  set(OpenBLAS_libraries openblas openblasp)
  set(OpenBLAS_folders openblas openblas-pthread openblas-serial openblas-openmp)
  set(BLIS_header blis.h)
  set(BLIS_libraries blis)
  set(BLIS_folders blis blis-pthread blis-serial blis-openmp)
  set(MKL_header mkl_cblas.h)
  set(MKL_libraries mkl_rt)
  set(MKL_folders mkl lib/intel64)

  if(NOT choice IN_LIST names AND NOT choice MATCHES "^(AUTO|NONE)$")
    message(FATAL_ERROR "there is no BLAS called ${choice}; expected AUTO, OpenBLAS, BLIS, MKL or NONE")
  endif()
  set(FSSDP_BLAS "" PARENT_SCOPE)
  foreach(name IN LISTS names)
    if(NOT choice STREQUAL "AUTO" AND NOT choice STREQUAL name)
      continue()
    endif()
    set(headers headers-NOTFOUND)
    set(library library-NOTFOUND)
    find_path(headers ${${name}_header} PATH_SUFFIXES ${${name}_folders} NO_CACHE)
    find_library(library NAMES ${${name}_libraries} PATH_SUFFIXES ${${name}_folders} NO_CACHE)
    set(works FALSE)
    if(headers AND library)
      string(TOUPPER MOE_GPT_${name} chosen)
      try_compile(works
        SOURCE_FROM_CONTENT try_blas.cpp "#include \"moe_gpt/blas.hpp\"
          int main() {
            auto x = 1.0F;
            auto const one = moe_gpt::matrix<float>{&x, 1, 1, 1};
            using enum moe_gpt::detail::form;
            moe_gpt::single_threaded_blas();
            moe_gpt::detail::multiply_by_blas<float>(plain, one, plain, one, 1, one,
                                                     moe_gpt::update::write);
            return moe_gpt::products_by().empty() ? 1 : 0;
          }"
        COMPILE_DEFINITIONS -D${chosen}=1
        CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${headers};${PROJECT_SOURCE_DIR}/examples"
        LINK_LIBRARIES ${library}
        CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
        NO_CACHE)
    endif()
    if(works)
      set(FSSDP_BLAS ${name} PARENT_SCOPE)
      set(FSSDP_BLAS_HEADERS ${headers} PARENT_SCOPE)
      set(FSSDP_BLAS_LIBRARY ${library} PARENT_SCOPE)
      return()
    elseif(choice STREQUAL name)
      message(FATAL_ERROR "${name} cannot be used: ${${name}_header} is in ${headers}, the library is "
        "${library}; expected both, and cblas functions in them. CMAKE_PREFIX_PATH says where to look")
    endif()
  endforeach()
endfunction()
