// SPDX-License-Identifier: Apache-2.0
/// The memory of one rank or of all, whatever its elements are: for baselines whose sources are
/// compiled apart.
#pragma once

#include <type_traits>

#include "fssdp/element/dtype.hpp"
#include "rank_memory.hpp"
#include "world_memory.hpp"

namespace perf {

/// An Of<T> whose T is an element type. It is not owned.
template <template <class> class Of>
class any_element {
 public:
  template <fssdp::element T>
  any_element(Of<T>& of) : kind_{fssdp::dtype_of<T>}, of_{&of} {}

  /// Calls use(of) with the Of<T>, and returns what it does.
  template <class Use>
  decltype(auto) visit(Use use) const {
    return fssdp::with_element(kind_, [&]<class T>(std::type_identity<T>) -> decltype(auto) {
      return use(*static_cast<Of<T>*>(of_));
    });
  }

 private:
  fssdp::dtype kind_;
  void* of_;
};

using any_rank_memory = any_element<rank_memory>;
using any_world_memory = any_element<world_memory>;

}  // namespace perf
