// SPDX-License-Identifier: Apache-2.0
/// Copies device gradients and parameters to the host for exchanges that work in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/memory/copy_bytes.hpp"
#include "fssdp/memory/device_staging.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/memory/expert_tensor.hpp"
#include "fssdp/memory/staged_copies.hpp"

namespace fssdp {

/// A copy of a device shard in host memory: compressors work there, and data for slow links between
/// hosts passes through it in any case.
///
///     auto staging = fssdp::cuda_staging{stream};
///     auto shard = fssdp::staged_shard{staging};
///     exchange.average(layer, shard.read(gradients));    // after the work on the stream
///     exchange.synchronize();
///     shard.write(gradients);
///
/// With asynchronous exchanges, each layer in progress needs its own staged_shard.
/// @cost memory for the largest shard; each byte is copied once by the device and once by the host,
///       in each direction
class staged_shard {
 public:
  /// @param by outlives this; other staged_shards may use it, in the same thread
  explicit staged_shard(device_staging& by) : by_{&by} {}

  /// Copies the shard of a layer to the host, and waits for that.
  /// @param tensors [owned, elements] each, floats in device memory
  /// @return the same in host memory, valid until the next `read`
  /// @throws exceptions of the staging
  template <tensor_memory Tensors>
  [[nodiscard]] std::span<expert_tensor<float> const> read(Tensors const& tensors) {
    resize(tensors);
    pieces_.clear();
    blocks_.clear();
    for_each_piece(tensors, [&](auto device, std::span<float> host) {
      pieces_.push_back(host);
      blocks_.push_back({std::as_bytes(device), by_});
    });
    auto at = std::size_t{0};
    detail::staged_blocks{*by_, blocks_}.for_each(
        [&](std::span<std::byte const> bytes) {
          copy_bytes(std::as_writable_bytes(pieces_[at++]), bytes);
        },
        [] {});
    return host_.tensors();
  }
  /// Copies the changed shard back, and waits for that.
  /// @pre tensors have the shape of the last `read`
  /// @throws exceptions of the staging
  template <tensor_memory Tensors>
  void write(Tensors&& tensors) {
    auto target = detail::staged_target{by_};
    for_each_piece(tensors, [&](auto device, std::span<float> host) {
      auto const to = std::as_writable_bytes(device);
      copy_bytes(target.room_for(to), std::as_bytes(host));
      target.filled(to);
    });
    target.finish();
  }

 private:
  template <class Tensors>
  void resize(Tensors const& tensors) {
    sizes_.clear();
    auto slots = std::size_t{0};
    for (auto const& tensor : tensors_of(tensors)) {
      sizes_.push_back(tensor.elements);
      slots = tensor.slots;
    }
    auto const is_alike = std::ranges::equal(sizes_, host_.tensors(), {}, {},
                                             [](auto const& of) { return of.elements; });
    if (!is_alike) host_ = expert_buffer<float>{slots, sizes_};
    host_.resize(slots);
  }
  /// Calls visit(device, host) for parts of all tensors that fit into a buffer.
  template <class Tensors, class Visit>
  void for_each_piece(Tensors&& tensors, Visit visit) {
    auto const most = std::max<std::size_t>(1, by_->buffer(0).size() / sizeof(float));
    for (std::size_t k = 0; auto const& tensor : tensors_of(tensors)) {
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        for (std::size_t first = 0; first < tensor.elements; first += most) {
          auto const count = std::min(most, tensor.elements - first);
          visit(tensor[slot].subspan(first, count), host_.tensors()[k][slot].subspan(first, count));
        }
      ++k;
    }
  }

  device_staging* by_;
  expert_buffer<float> host_;
  std::vector<std::size_t> sizes_;
  std::vector<std::span<float>> pieces_;
  std::vector<detail::source_block> blocks_;
};

}  // namespace fssdp
