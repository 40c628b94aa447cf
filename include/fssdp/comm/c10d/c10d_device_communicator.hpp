// SPDX-License-Identifier: Apache-2.0
/// A rank of a process group whose tensors are on a device: no kernels of our own.
#pragma once

#include "fssdp/comm/c10d/c10d_backend.hpp"  // ahead of torch's own headers

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/c10d/c10d_batch.hpp"
#include "fssdp/comm/c10d/c10d_options.hpp"
#include "fssdp/comm/c10d/c10d_transfers.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/device_conversion.hpp"
#include "fssdp/element/device_sum.hpp"
#include "fssdp/memory/torch_dtype.hpp"

namespace fssdp {

/// Torch's stream: what is enqueued on the one that is current runs in order.
struct torch_current_stream {};

/// A rank of a process group of PyTorch with a back end for tensors of a device: CUDA over NCCL, XPU
/// over XCCL; or the CPU over Gloo, for tests. Sums and conversions are torch's operators, memory
/// comes from torch's allocator, and all of it is enqueued on torch's current stream, which has to be
/// the same in all calls. Where this library's kernels are compiled, nccl_of_group is faster.
///
/// The bits are those of other communicators, but for fp64 in fewer than 32 bits, where torch rounds
/// twice, and what torch makes of numbers too large for fp8.
///
/// Ranks agree on each new plan before its messages, as NCCL takes no tags. When a rank does not
/// come, CUDA's back ends end the work by the timeout of the group, not by the deadline given here.
///
/// @cost per exchange: what the back end makes of its messages; per sum, an operator for each
///       operand; per new plan, an all-gather of its hash, which waits
class c10d_device_communicator {
 public:
  using stream_type = torch_current_stream;
  using memory_space = device_memory;

  /// @throws as c10d_communicator
  c10d_device_communicator(c10::intrusive_ptr<c10d::ProcessGroup> group, c10::Device device,
                           c10d_options options = {})
      : options_{std::move(options)},
        device_{device},
        transfers_{detail::c10d_backend_of(group, device.type())},
        rank_{transfers_.backend().getRank()},
        batch_{rank_, transfers_.backend().getSize()},
        group_{std::move(group)} {
    detail::check_deadline("c10d_device_communicator", options_.deadline);
  }
  c10d_device_communicator(c10d_device_communicator&&) = default;
  c10d_device_communicator& operator=(c10d_device_communicator&&) = default;
  ~c10d_device_communicator() = default;

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return transfers_.backend().getSize(); }
  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] bool has_failed() const { return failure_.has_failed(); }

  /// @throws what `post` throws and argument_error, before anything is sent; peer_failed,
  ///         deadline_exceeded; poisoned_stream if something has failed before
  template <class Post>
  void exchange(Post&& post) {
    failure_.check(rank_);
    batch_.clear();
    post(batch_);
    batch_.close(++sequence_);
    if (!batch_.in().empty() || !batch_.out().empty()) guarded([&] { exchange_all(); });
  }

  /// Everything that work does is enqueued: it runs at once.
  template <class Work>
  void submit(Work work) {
    work(*this);
  }
  /// Waits for the stream.
  /// @throws what has failed before, again and again; peer_failed with what the device reports
  void synchronize() {
    failure_.rethrow();
    if (is_host()) return;
    guarded([&] { c10::impl::VirtualGuardImpl{device_.type()}.getStream(device_).synchronize(); });
  }

  /// Makes sure that all ranks have come with the same plan. Known ones, the last 256, cost nothing.
  /// @throws ranks_disagree, which names the lowest rank with another plan; as exchange
  void agree(std::uint64_t plan);

  /// Values of the host from all ranks: mine [n] -> all [size, n] bytes. For counts: it waits.
  /// @throws as exchange
  void gather_values(std::span<std::byte const> mine, std::span<std::byte> all);

  /// @throws argument_error if this torch has not the type, or an operand is a payload; what torch
  ///         throws
  void sum(device_sum const& of);
  void convert(device_conversion const& of) {
    tensor(of.to, of.elements, scalar_type_of(of.to_type))
        .copy_(tensor(of.from, of.elements, scalar_type_of(of.from_type)));
  }
  void copy(std::span<std::byte> to, std::span<std::byte const> from) {
    tensor(to.data(), to.size(), c10::kByte).copy_(tensor(from.data(), from.size(), c10::kByte));
  }
  [[nodiscard]] std::span<std::byte> allocate(std::size_t bytes) {
    auto block = empty(bytes);
    auto* const memory = static_cast<std::byte*>(block.data_ptr());
    blocks_.insert_or_assign(memory, std::move(block));
    return {memory, bytes};
  }
  /// Torch gives it away only to what is enqueued behind all that has been.
  void free(std::span<std::byte> memory) noexcept { blocks_.erase(memory.data()); }

  /// Another communicator between the same ranks.
  /// @throws as c10d_communicator::duplicate
  [[nodiscard]] c10d_device_communicator duplicate() {
    return {detail::c10d_group_from(options_), device_, options_};
  }

 private:
  [[nodiscard]] bool is_host() const { return device_.is_cpu(); }
  [[nodiscard]] at::Tensor tensor(void const* data, std::size_t size, c10::ScalarType type) const {
    return at::for_blob(const_cast<void*>(data), {static_cast<std::int64_t>(size)})
        .options(c10::TensorOptions{type}.device(device_))
        .target_device(device_)
        .make_tensor();
  }
  [[nodiscard]] at::Tensor empty(std::size_t bytes) const {
    return at::empty({static_cast<std::int64_t>(bytes)},
                     c10::TensorOptions{c10::kByte}.device(device_));
  }
  [[nodiscard]] static std::span<std::byte> bytes_of_tensor(at::Tensor const& of) {
    return {static_cast<std::byte*>(of.data_ptr()), static_cast<std::size_t>(of.numel())};
  }

  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (...) {
      failure_.set(detail::c10d_failure(rank_, transfers_.peer(), batch_.name()));
      if (is_host())
        transfers_.give_up();
      else
        transfers_.clear();  // aborting them would abort the communicator, which is not ours
      failure_.rethrow();
    }
  }
  void exchange_all() {
    auto const tag = [&](detail::c10d_batch::message const& of) {
      return detail::c10d_tag(batch_.name(), of.index, of.bytes, transfers_.most_tag());
    };
    transfers_.together([&] {
      for (auto const& of : batch_.in())
        transfers_.recv(detail::c10d_bytes(of.data, of.bytes, device_), of.peer, tag(of));
      for (auto const& of : batch_.out())
        transfers_.send(detail::c10d_bytes(of.data, of.bytes, device_), of.peer, tag(of));
    });
    if (is_host())
      for (std::size_t i = 0; i < transfers_.size(); ++i) transfers_.wait(i, options_.deadline);
    else
      transfers_.enqueue_wait();
    transfers_.clear();
  }

  c10d_options options_;
  c10::Device device_;
  detail::c10d_transfers transfers_;
  rank_id rank_;
  detail::c10d_batch batch_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::uint64_t sequence_ = 0;
  std::unordered_map<std::byte*, at::Tensor> blocks_;
  std::array<std::uint64_t, 256> known_ = {};  // plans that all ranks agree on
  std::size_t next_known_ = 0;
  detail::failure_state failure_;
};

inline void c10d_device_communicator::agree(std::uint64_t plan) {
  failure_.check(rank_);
  auto const known = std::span{known_}.first(std::min(next_known_, known_.size()));
  if (std::ranges::find(known, plan) != known.end()) return;
  auto all = std::vector<std::uint64_t>(static_cast<std::size_t>(size()));
  gather_values(std::as_bytes(std::span{&plan, 1}), std::as_writable_bytes(std::span{all}));
  for (auto const peer : first_n<rank_id>(size()))
    if (all[peer.index()] != plan)
      throw detail::disagreement(rank_, peer, "plans ", detail::hexadecimal{plan}, " and ",
                                 detail::hexadecimal{all[peer.index()]});
  known_[next_known_++ % known_.size()] = plan;
}

inline void c10d_device_communicator::gather_values(std::span<std::byte const> mine,
                                                    std::span<std::byte> all) {
  auto const on_host = [](std::byte const* data, std::size_t size) {
    return detail::c10d_bytes(data, size, c10::kCPU);
  };
  auto const staged = empty(mine.size());
  auto const rows = empty(all.size());
  staged.copy_(on_host(mine.data(), mine.size()));
  exchange([&](auto& batch) {
    detail::name_values(batch, rank_, size(), bytes_of_tensor(staged), bytes_of_tensor(rows));
  });
  guarded([&] { on_host(all.data(), all.size()).copy_(rows); });
  std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(rank_.index() * mine.size()));
}

/// In the order of the operands, in the types and with the roundings of element/accumulate.hpp.
inline void c10d_device_communicator::sum(device_sum const& of) {
  detail::require(!of.decodes(), "c10d_device_communicator: payloads among the operands of a sum; ",
                  "expected elements, as torch has no operators for payloads");
  auto const sum_type = scalar_type_of(accumulator_of(of.partials));
  auto const out = tensor(of.out, of.elements, scalar_type_of(of.results));
  auto total = at::Tensor{};
  for (auto const& [data, is_sum] : std::span{of.operands}.first(of.count)) {
    auto const next = tensor(data, of.elements, is_sum ? sum_type : scalar_type_of(of.partials));
    if (!total.defined())
      total = next.to(sum_type, false, true);
    else
      total.add_(next.to(sum_type));
  }
  if (of.scale != 1) total.mul_(of.scale);
  if (of.how == write_mode::accumulate) {
    auto const wider = of.results == dtype::fp64 ? c10::ScalarType::Double : sum_type;
    total = out.to(wider).add_(total);
  }
  out.copy_(total);
}

static_assert(device_communicator<c10d_device_communicator>);
static_assert(gathering_communicator<c10d_device_communicator>);
static_assert(agreeing_communicator<c10d_device_communicator>);
static_assert(duplicable_communicator<c10d_device_communicator>);

}  // namespace fssdp
