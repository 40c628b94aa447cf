// SPDX-License-Identifier: Apache-2.0
/// The BLAS that moe_gpt is built with: OpenBLAS, BLIS or MKL, or none, and then a loop of its own.
/// The reference BLAS is none of them: the loop is several times as fast.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "matrix.hpp"
#include "own_loop.hpp"

#if defined(MOE_GPT_OPENBLAS)
#include <cblas.h>
#elif defined(MOE_GPT_BLIS)
#include <blis.h>
#include <cblas.h>
#elif defined(MOE_GPT_MKL)
#include <mkl_cblas.h>
#include <mkl_service.h>
#endif

namespace moe_gpt {

/// Whether a product replaces what the result holds or is added to it.
enum class update { write, accumulate };

namespace detail {

enum class form { plain, transposed };

#if defined(MOE_GPT_OPENBLAS) || defined(MOE_GPT_BLIS) || defined(MOE_GPT_MKL)
inline constexpr bool has_blas = true;

/// c = op(a) * op(b), or added to c; `inner` is the dimension that is summed over.
template <class Real>
void multiply_by_blas(form form_a, matrix<Real const> a, form form_b, matrix<Real const> b,
                      std::size_t inner, matrix<Real> c, update how) {
  auto const transpose = [](form which) {
    return which == form::plain ? CblasNoTrans : CblasTrans;
  };
  auto const to_int = [](std::size_t n) { return static_cast<int>(n); };
  auto const keep = how == update::accumulate ? Real{1} : Real{0};
  if constexpr (std::is_same_v<Real, float>)
    cblas_sgemm(CblasRowMajor, transpose(form_a), transpose(form_b), to_int(c.rows),
                to_int(c.columns), to_int(inner), 1, a.data, to_int(a.stride), b.data,
                to_int(b.stride), keep, c.data, to_int(c.stride));
  else
    cblas_dgemm(CblasRowMajor, transpose(form_a), transpose(form_b), to_int(c.rows),
                to_int(c.columns), to_int(inner), 1, a.data, to_int(a.stride), b.data,
                to_int(b.stride), keep, c.data, to_int(c.stride));
}
#else
inline constexpr bool has_blas = false;

template <class Real>
void multiply_by_blas(form, matrix<Real const>, form, matrix<Real const>, std::size_t, matrix<Real>,
                      update) = delete;
#endif

}  // namespace detail

/// Every rank is a thread or a process beside others, so a product inside a rank must not start
/// more of them. Each rank calls it before its first product.
inline void single_threaded_blas() {
#if defined(MOE_GPT_OPENBLAS)
  openblas_set_num_threads(1);
#elif defined(MOE_GPT_BLIS)
  bli_thread_set_num_threads(1);
#elif defined(MOE_GPT_MKL)
  mkl_set_num_threads(1);
#endif
}

/// What does the matrix products, for the report: "OpenBLAS 0.3.21, 1 thread a rank".
[[nodiscard]] inline std::string products_by() {
#if defined(MOE_GPT_OPENBLAS)
  auto const all = std::string{openblas_get_config()};  // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
  auto const name = all.substr(0, all.find(' ', all.find(' ') + 1));
  return name + ", 1 thread a rank";
#elif defined(MOE_GPT_BLIS)
  return "BLIS " + std::string{bli_info_get_version_str()} + ", 1 thread a rank";
#elif defined(MOE_GPT_MKL)
  auto version = MKLVersion{};
  mkl_get_version(&version);
  return "MKL " + std::to_string(version.MajorVersion) + "." +
         std::to_string(version.MinorVersion) + ", 1 thread a rank";
#else
  return std::string{"own loop"} + (detail::has_avx2() ? " with AVX2" : "") +
         " (built without OpenBLAS, BLIS or MKL)";
#endif
}

}  // namespace moe_gpt
