// SPDX-License-Identifier: Apache-2.0
/// A sum by the library's kernels, in the order of a communicator's stream.
#pragma once

#include <cstddef>
#include <span>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/element_work.hpp"

namespace perf {

/// out[i] = s0[i] + s1[i] + ..., where summands are of the type of `out`.
template <class Comm, class T>
void sum_elements(Comm& comm, std::span<fssdp::summand const> summands, std::span<T> out) {
  fssdp::detail::form_sums(fssdp::communicator_ref{comm}, [&](fssdp::detail::sum_batch& sums) {
    sums.add({fssdp::detail::make_sum<T, T>()}, summands,
             {reinterpret_cast<std::byte*>(out.data()), out.size(), sizeof(T)});
  });
}

}  // namespace perf
