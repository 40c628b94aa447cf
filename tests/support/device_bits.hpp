// SPDX-License-Identifier: Apache-2.0
/// The bits that gathers and reductions leave on a rank whose buffers are on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <utility>
#include <vector>

#include "fssdp/collective/materialized_experts.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/cuda/cuda_mirror.hpp"
#include "fssdp/layout/make_shard.hpp"
#include "support/any_buffer.hpp"
#include "support/float_data.hpp"
#include "support/random_instance.hpp"

namespace support {

/// A buffer of the host's that is on a device as long as this lives, and comes back in the end.
template <class T>
class on_device : public fssdp::cuda_mirror<T> {
 public:
  template <class Comm>
  on_device(Comm const& comm, fssdp::expert_buffer<T>& buffer)
      : fssdp::cuda_mirror<T>{std::move(buffer), comm.stream()}, home_{&buffer} {}
  on_device(on_device const&) = delete;
  on_device& operator=(on_device const&) = delete;
  /// @pre what is on the stream has run
  ~on_device() {
    this->synchronize_to_host();
    *home_ = std::move(this->host());
  }

 private:
  fssdp::expert_buffer<T>* home_;
};
template <class Comm, class T>
on_device(Comm const&, fssdp::expert_buffer<T>&) -> on_device<T>;

/// The same of a dtype that is a value.
class any_on_device {
 public:
  template <class Comm>
  any_on_device(Comm const& comm, any_buffer& buffer)
      : bytes_{comm, buffer.bytes()}, type_{buffer.type()} {}

  [[nodiscard]] std::vector<fssdp::any_tensor> tensors() {
    return as_elements(bytes_.tensors(), type_);
  }

 private:
  on_device<std::byte> bytes_;
  fssdp::dtype type_;
};

/// What collective_bits gives, of buffers on a device.
/// @param owned where parameters and gradients of owners lie instead, if they do
template <class Comm>
[[nodiscard]] std::vector<std::uint64_t> device_bits(Comm& comm, random_instance const& of,
                                                     std::pmr::memory_resource* owned = nullptr) {
  auto const me = comm.rank();
  auto const home = owned != nullptr ? owned : std::pmr::new_delete_resource();
  auto result = std::vector<std::uint64_t>{};
  auto shard = fssdp::make_shard<float>(of.layout, me, of.elements, home);
  auto partials = fssdp::make_partials<fssdp::bf16>(of.plan, me, of.elements);
  for (std::size_t turn = 0; turn < 2; ++turn) {
    fill_roughly(shard, 2 * me.index() + turn + 1);
    fill_roughly(partials, 2 * me.index() + turn + 1);
    auto replicas = fssdp::make_replicas<float>(of.plan, me, of.elements);
    auto converted = fssdp::make_partials<fssdp::bf16>(of.plan, me, of.elements);
    auto gradients = fssdp::make_shard<float>(of.layout, me, of.elements, home);
    auto const gather_and_reduce = [&](auto const& from, auto& reduced) {
      auto const sums = on_device{comm, partials};
      auto to = on_device{comm, replicas};
      auto other_type = on_device{comm, converted};
      fssdp::sparse_all_gather(comm, of.plan, from, to);
      fssdp::sparse_reduce_scatter(comm, of.plan, sums, reduced);
      fssdp::sparse_all_gather(comm, of.plan, from, other_type);
      fssdp::synchronize(comm);
    };
    if (owned != nullptr) {
      gather_and_reduce(shard, gradients);
    } else {
      auto const from = on_device{comm, shard};
      auto reduced = on_device{comm, gradients};
      gather_and_reduce(from, reduced);
    }
    for (auto const& part : {bits(replicas), bits(converted), bits(gradients)})
      result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

}  // namespace support
