// SPDX-License-Identifier: Apache-2.0
/// The copies of one exchange between devices of one process.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_kernels.hpp"
#include "fssdp/element/device_copies.hpp"

namespace fssdp::detail {

/// Copies in the form of CUDA's batch call.
class copy_list {
 public:
  void clear() {
    to_.clear();
    from_.clear();
    bytes_.clear();
  }
  void add(std::span<std::byte> to, std::span<std::byte const> from) {
    to_.push_back(to.data());
    from_.push_back(from.data());
    bytes_.push_back(from.size());
  }
  void append(copy_list const& other) {
    to_.insert(to_.end(), other.to_.begin(), other.to_.end());
    from_.insert(from_.end(), other.from_.begin(), other.from_.end());
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
  }
  [[nodiscard]] std::size_t count() const { return bytes_.size(); }
  [[nodiscard]] bool has_large() const {
    return std::ranges::any_of(bytes_, [](std::size_t bytes) { return bytes > part_bytes / 4; });
  }
  void put_equal_sources_together() {
    if (!has_large()) return;
    parts_.clear();
    for (std::size_t i = 0; i < count(); ++i)
      for (std::size_t first = 0; first < bytes_[i]; first += part_bytes)
        parts_.push_back({static_cast<std::byte*>(to_[i]) + first,
                          static_cast<std::byte const*>(from_[i]) + first,
                          std::min(part_bytes, bytes_[i] - first)});
    std::ranges::sort(parts_, std::less<>{}, &device_copies::copy::from);
    clear();
    for (auto const& part : parts_) add({part.to, part.bytes}, {part.from, part.bytes});
  }
  [[nodiscard]] device_copies::copy operator[](std::size_t i) const {
    return {static_cast<std::byte*>(to_[i]), static_cast<std::byte const*>(from_[i]), bytes_[i]};
  }

  /// @cost a call for each copy
  /// @throws transport_error
  void enqueue_one_by_one(cudaStream_t stream, rank_id me) const {
    for (std::size_t i = 0; i < count(); ++i)
      cuda_require(cudaMemcpyAsync(to_[i], from_[i], bytes_[i], cudaMemcpyDefault, stream), me,
                   "cudaMemcpyAsync");
  }
#if CUDART_VERSION >= 13000
  /// @pre not on a default stream, for which CUDA has no batches
  /// @throws transport_error
  void enqueue_at_once(cudaStream_t stream, rank_id me, cudaMemcpyFlags flags) {
    if (bytes_.empty()) return;
    auto attributes = cudaMemcpyAttributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = static_cast<unsigned>(flags);
    auto of_all = std::size_t{0};  // the index of the first copy with these attributes
    cuda_require(cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), bytes_.size(),
                                      &attributes, &of_all, 1, stream),
                 me, "cudaMemcpyBatchAsync");
  }
#endif

 private:
  static constexpr auto part_bytes = std::size_t{4} << 20U;  // some of them fit into the cache

  std::vector<void*> to_;
  std::vector<void const*> from_;
  std::vector<std::size_t> bytes_;
  std::vector<device_copies::copy> parts_;
};

/// Whether both ends of a copy are on one device.
enum class copy_way { within_device, between_devices };

/// A list of copies that is filled, enqueued as a whole, and reused.
/// @cost no allocation if there have been as many copies before
class peer_copies {
 public:
  void clear() {
    within_.clear();
    between_.clear();
  }
  void add(copy_way way, std::span<std::byte> to, std::span<std::byte const> from) {
    if (!from.empty()) (way == copy_way::within_device ? within_ : between_).add(to, from);
  }

  void append(peer_copies const& other) {
    within_.append(other.within_);
    between_.append(other.between_);
  }

  /// Whether it pays to put equal sources together.
  [[nodiscard]] bool has_large() const { return within_.has_large(); }
  /// Splits large copies within a device, and makes the parts with the same source bytes adjacent,
  /// so that all but the first find them in the cache.
  void put_equal_sources_together() { within_.put_equal_sources_together(); }

  /// Asks for copy engines between devices, which leaves multiprocessors to other work. Within a
  /// device engines reach only a fraction of its bandwidth, and CUDA, from 13.1 on, uses them if
  /// asked: there CUDA may choose.
  /// @cost one call for each of the two kinds; one for each copy before CUDA 13, and on a default
  ///       stream. CUDA makes the copies within a device one by one in any case (NVIDIA/nccl#1932)
  void enqueue_on_engines(cudaStream_t stream, rank_id me) {
#if CUDART_VERSION >= 13000
    if (stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread) {
      within_.enqueue_at_once(stream, me, cudaMemcpyFlagDefault);
      between_.enqueue_at_once(stream, me, cudaMemcpyFlagPreferOverlapWithCompute);
      return;
    }
#endif
    within_.enqueue_one_by_one(stream, me);
    between_.enqueue_one_by_one(stream, me);
  }

  /// Calls visit(device_copies::copy const&) for each copy.
  template <class Visit>
  void for_each(Visit visit) const {
    for (auto const* const copies : {&within_, &between_})
      for (std::size_t i = 0; i < copies->count(); ++i) visit((*copies)[i]);
  }

 private:
  copy_list within_;
  copy_list between_;
};

/// Makes copies by kernels: one launch for every device_copies::most of them.
class copy_launches {
 public:
  /// @param most_blocks of threads; 0: as many as fill the device
  copy_launches(cudaStream_t stream, rank_id me, device_kernels const& kernels,
                std::size_t most_blocks)
      : stream_{stream}, me_{me}, kernels_{kernels} {
    next_.most_blocks = most_blocks;
  }
  /// @throws transport_error
  void add(peer_copies const& copies) {
    copies.for_each([&](device_copies::copy const& copy) {
      next_.copies[next_.count++] = copy;
      if (next_.count == device_copies::most) end();
    });
  }
  /// To be called after the last copy.
  /// @throws transport_error
  void end() {
    if (next_.count != 0) cuda_require(kernels_.copy(stream_, next_), me_, "a kernel that copies");
    next_.count = 0;
  }

 private:
  cudaStream_t stream_;
  rank_id me_;
  device_kernels const& kernels_;
  device_copies next_;
};

}  // namespace fssdp::detail
