// SPDX-License-Identifier: Apache-2.0
/// An all-gather of host values through a device, and the comparison of plans that uses it.
#pragma once

#include "fssdp/memory/torch_tensor.hpp"  // ahead of torch's own headers

#include <ATen/ops/empty.h>
#include <c10/core/Device.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "fssdp/comm/c10d/torch_event.hpp"
#include "fssdp/comm/plans_summary.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"

namespace fssdp::detail {

[[nodiscard]] inline std::span<std::byte> bytes_of_tensor(at::Tensor const& of) {
  return {static_cast<std::byte*>(of.data_ptr()), static_cast<std::size_t>(of.numel())};
}

/// mine [n] -> rows [ranks, n]: everything is enqueued on the current stream; the host reads the
/// rows when they have arrived.
class c10d_host_rows {
 public:
  c10d_host_rows(c10::Device device, rank_id me, int ranks)
      : device_{device}, me_{me}, ranks_{ranks}, have_come_{device} {}

  /// @param exchange(mine, rows) sends and receives device bytes
  /// @pre the rows before these have arrived
  template <class Exchange>
  void begin(std::span<std::byte const> mine, Exchange exchange) {
    bytes_ = mine.size();
    reserve(bytes_ * static_cast<std::size_t>(ranks_));
    auto const own = row_in(on_host_);
    std::memcpy(own.data_ptr(), mine.data(), mine.size());
    row_in(on_device_).copy_(own, true);
    exchange(bytes_of_tensor(row_in(on_device_)), rows_in(on_device_));
    on_host_.copy_(on_device_, true);
    have_come_.record(torch_stream_of(device_));
  }
  [[nodiscard]] torch_event const& have_come() const { return have_come_; }
  /// @pre they have arrived
  [[nodiscard]] std::span<std::byte const> rows() const { return rows_in(on_host_); }

 private:
  void reserve(std::size_t bytes) {
    if (on_host_.defined() && static_cast<std::size_t>(on_host_.numel()) >= bytes) return;
    auto const size = static_cast<std::int64_t>(bytes);
    auto const of = c10::TensorOptions{c10::kByte};
    on_device_ = at::empty({size}, of.device(device_));
    on_host_ = at::empty({size}, of.pinned_memory(!device_.is_cpu()));
  }
  [[nodiscard]] at::Tensor row_in(at::Tensor const& all) const {
    auto const bytes = static_cast<std::int64_t>(bytes_);
    return all.narrow(0, me_.value() * bytes, bytes);
  }
  [[nodiscard]] std::span<std::byte> rows_in(at::Tensor const& all) const {
    return bytes_of_tensor(all).first(bytes_ * static_cast<std::size_t>(ranks_));
  }

  c10::Device device_;
  rank_id me_;
  int ranks_;
  std::size_t bytes_ = 0;  // per row
  at::Tensor on_device_;
  at::Tensor on_host_;  // pinned memory
  torch_event have_come_;
};

/// Compares plans, one list at a time. The result is read when one of these plans is needed.
class c10d_agreement {
 public:
  c10d_agreement(c10::Device device, rank_id me, int ranks) : me_{me}, rows_{device, me, ranks} {}

  /// Whether all ranks have a plan, as far as this rank knows.
  [[nodiscard]] bool knows(std::uint64_t plan) const { return known_.contain(plan); }
  /// Whether a plan is being compared.
  [[nodiscard]] bool compares(std::uint64_t plan) const {
    return is_under_way_ && std::ranges::find(plans_, plan) != plans_.end();
  }
  [[nodiscard]] bool is_under_way() const { return is_under_way_; }
  [[nodiscard]] torch_event const& over() const { return rows_.have_come(); }

  /// Enqueues a comparison.
  /// @param exchange as for c10d_host_rows::begin
  /// @pre no comparison is in progress
  template <class Exchange>
  void begin(std::span<std::uint64_t const> plans, Exchange exchange) {
    plans_.assign(plans.begin(), plans.end());
    mine_ = summary_of(plans, ++comparisons_);
    rows_.begin(std::as_bytes(std::span{&mine_, 1}), exchange);
    is_under_way_ = true;
  }
  /// Reads the result of the comparison.
  /// @pre it has finished
  /// @returns the error if ranks have different plans
  [[nodiscard]] std::optional<ranks_disagree> take_in() {
    is_under_way_ = false;
    auto error = disagreement_in(rows_.rows(), me_, mine_);
    if (!error.has_value()) known_.add(plans_);
    return error;
  }

 private:
  rank_id me_;
  c10d_host_rows rows_;
  bool is_under_way_ = false;
  plans_summary mine_;
  std::vector<std::uint64_t> plans_;  // being compared
  common_plans known_;
  std::uint64_t comparisons_ = 0;
};

}  // namespace fssdp::detail
