// SPDX-License-Identifier: Apache-2.0
/// A rank of a process group with device tensors; needs no kernels of this library.
#pragma once

#include "fssdp/comm/c10d/c10d_backend.hpp"  // ahead of torch's own headers

#include <ATen/ops/empty.h>
#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/c10d/c10d_batch.hpp"
#include "fssdp/comm/c10d/c10d_host_rows.hpp"
#include "fssdp/comm/c10d/c10d_options.hpp"
#include "fssdp/comm/c10d/c10d_transfers.hpp"
#include "fssdp/comm/c10d/torch_event.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/element/device_conversions.hpp"
#include "fssdp/element/device_sums.hpp"
#include "fssdp/memory/torch_dtype.hpp"
#include "fssdp/memory/torch_view.hpp"

namespace fssdp {

/// A rank of a process group of PyTorch with a back end for tensors of a device: CUDA over NCCL,
/// XPU over XCCL; or the CPU over Gloo, for tests. Sums and conversions are operators of torch,
/// memory comes from torch's allocator, and all work is enqueued on torch's current stream. If this
/// library's kernels are compiled, nccl_of_group is faster.
///
/// The bits are those of other communicators, except for fp64 rounded to fewer than 32 bits, which
/// torch rounds twice, and for torch's conversions of numbers too large for fp8.
///
/// Ranks agree on each new plan before its messages, as NCCL has no tags. If a rank does not come,
/// waits of the host end by this deadline; waits of a device by the timeout of the group.
///
/// @cost per exchange: what the back end makes of its messages; before the first one, an exchange
///       between all ranks that connects them; per sum, one operator for each operand
class c10d_device_communicator {
 public:
  using stream_type = torch_current_stream;
  using memory_space = device_memory;

  /// @param device without an index: the current one
  /// @throws as c10d_communicator; argument_error for a device over Gloo, which accesses host
  ///         memory only
  c10d_device_communicator(c10::intrusive_ptr<c10d::ProcessGroup> group, c10::Device device,
                           c10d_options options = {})
      : options_{std::move(options)},
        transfers_{detail::c10d_backend_of(group, device.type())},
        device_{numbered(device, transfers_)},
        rank_{transfers_.backend().getRank()},
        batch_{rank_, transfers_.backend().getSize()},
        group_{std::move(group)},
        values_{device_, rank_, size()},
        agreement_{device_, rank_, size()} {
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
  ///         deadline_exceeded; poisoned_stream if an earlier call has failed
  template <class Post>
  void exchange(Post&& post) {
    failure_.check(rank_);
    batch_.clear();
    post(batch_);
    batch_.close(++sequence_);
    connect_all();
    if (!batch_.in().empty() || !batch_.out().empty()) guarded([&] { exchange_all(batch_); });
  }

  /// Runs the work at once, which enqueues everything.
  template <class Work>
  void submit(Work work) {
    work(*this);
  }
  /// Waits for the stream.
  /// @throws the first error, on every call; peer_failed with what the device reports;
  ///         deadline_exceeded
  void synchronize() {
    failure_.rethrow();
    if (is_host()) return;
    auto all = detail::torch_event{device_};
    guarded([&] { all.record(detail::torch_stream_of(device_)); });
    wait_for(all, "synchronize");
  }

  /// Begins to compare the plans of all ranks.
  /// @cost one exchange of 512 bytes from each rank, for any number of plans. The host does not
  ///       wait for it, but does for an unfinished earlier one
  /// @throws as agree
  void announce(std::span<std::uint64_t const> plans) {
    end_agreement();
    agreement_.begin(plans, [this](auto own, auto all) { exchange_values(own, all); });
  }
  /// Whether all ranks are known to have a plan: then agree does not wait.
  /// @throws ranks_disagree, poisoned_stream
  [[nodiscard]] bool has_agreed(std::uint64_t plan) {
    failure_.check(rank_);
    if (agreement_.over().is_over()) end_agreement();
    return agreement_.knows(plan);
  }
  /// Checks that all ranks have the same plan. Plans that were checked recently (at least the last
  /// 256) cost nothing; for announced ones, it waits until the comparison has finished.
  /// @cost for a new plan: as announce, followed by a wait
  /// @throws ranks_disagree, which names the lowest rank with other plans, and from then on
  ///         poisoned_stream; as exchange
  void agree(std::uint64_t plan) {
    if (has_agreed(plan)) return;
    if (!agreement_.compares(plan)) announce({&plan, 1});
    end_agreement();
  }

  /// An all-gather of host values: mine [n] -> all [size, n] bytes. For counts, as it waits.
  /// @throws as exchange
  void gather_values(std::span<std::byte const> mine, std::span<std::byte> all) {
    failure_.check(rank_);
    values_.begin(mine, [this](auto own, auto rows) { exchange_values(own, rows); });
    wait_for(values_.have_come(), "gather_values");
    std::ranges::copy(values_.rows(), all.begin());
  }

  /// @throws argument_error if this torch does not have the type, or an operand is a payload;
  ///         exceptions of torch
  void sum(device_sums const& of);
  void convert(device_conversions const& of) {
    for (auto const& [from, to, elements] : std::span{of.conversions}.first(of.count))
      tensor(to, elements, scalar_type_of(of.to_type))
          .copy_(tensor(from, elements, scalar_type_of(of.from_type)));
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
  /// Torch reuses the memory only for work that is enqueued after all work so far.
  void free(std::span<std::byte> memory) noexcept { blocks_.erase(memory.data()); }

  /// Another communicator between the same ranks.
  /// @throws as c10d_communicator::duplicate
  [[nodiscard]] c10d_device_communicator duplicate() {
    return {detail::c10d_group_from(options_), device_, options_};
  }

 private:
  [[nodiscard]] static c10::Device numbered(c10::Device device,
                                            detail::c10d_transfers const& over) {
    detail::require(device.is_cpu() || !over.is_gloo(), "c10d_device_communicator: tensors on ",
                    device.str(), " over Gloo, which sends host tensors only; expected NCCL, say");
    if (device.is_cpu() || device.has_index()) return device;
    return c10::impl::VirtualGuardImpl{device.type()}.getDevice();
  }
  [[nodiscard]] bool is_host() const { return device_.is_cpu(); }
  [[nodiscard]] at::Tensor tensor(void const* data, std::size_t size, c10::ScalarType type) const {
    return detail::torch_view(data, size, type, device_);
  }
  [[nodiscard]] at::Tensor empty(std::size_t bytes) const {
    return at::empty({static_cast<std::int64_t>(bytes)},
                     c10::TensorOptions{c10::kByte}.device(device_));
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
        transfers_.clear();  // aborting them would abort the communicator, which is torch's
      failure_.rethrow();
    }
  }
  void exchange_all(detail::c10d_batch const& batch) {
    auto const tag = [&](detail::c10d_batch::message const& of) {
      return detail::c10d_tag(batch.name(), of.index, of.bytes, transfers_.most_tag());
    };
    transfers_.together([&] {
      for (auto const& of : batch.in())
        transfers_.recv(detail::c10d_bytes(of.data, of.bytes, device_), of.peer, tag(of));
      for (auto const& of : batch.out())
        transfers_.send(detail::c10d_bytes(of.data, of.bytes, device_), of.peer, tag(of));
    });
    if (is_host())
      for (std::size_t i = 0; i < transfers_.size(); ++i) transfers_.wait(i, options_.deadline);
    else
      transfers_.enqueue_wait();
    transfers_.clear();
  }
  /// NCCL creates its communicator in the first exchange, in which all ranks must take part, also
  /// those without messages.
  void connect_all() {
    if (std::exchange(is_connected_, true) || is_host() || size() == 1) return;
    auto const mine = empty(1);
    auto const all = empty(static_cast<std::size_t>(size()));
    auto first = detail::c10d_batch{rank_, size()};
    detail::name_values(first, rank_, size(), detail::bytes_of_tensor(mine),
                        detail::bytes_of_tensor(all));
    guarded([&] { exchange_all(first); });
  }
  void exchange_values(std::span<std::byte const> mine, std::span<std::byte> all) {
    exchange([&](auto& batch) { detail::name_values(batch, rank_, size(), mine, all); });
  }

  /// Waits on the host.
  void wait_for(detail::torch_event const& event, char const* call) {
    guarded([&] {
      auto pace = detail::wait_pace{};
      for (auto const until = detail::end_of(options_.deadline); !event.is_over(); pace.rest())
        if (std::chrono::steady_clock::now() >= until)
          throw detail::not_all_come(rank_, call, options_.deadline);
    });
  }
  /// Waits for the comparison of plans that is in progress.
  void end_agreement() {
    failure_.check(rank_);
    if (!agreement_.is_under_way()) return;
    wait_for(agreement_.over(), "agree");
    auto const error = agreement_.take_in();
    if (!error.has_value()) return;
    failure_.set(std::make_exception_ptr(*error));
    throw *error;
  }

  c10d_options options_;
  detail::c10d_transfers transfers_;
  c10::Device device_;
  rank_id rank_;
  detail::c10d_batch batch_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::uint64_t sequence_ = 0;
  bool is_connected_ = false;
  std::unordered_map<std::byte*, at::Tensor> blocks_;
  detail::c10d_host_rows values_;
  detail::c10d_agreement agreement_;
  detail::failure_state failure_;
};

/// Sums in the order of the operands, with the types and roundings of element/accumulate.hpp.
inline void c10d_device_communicator::sum(device_sums const& of) {
  detail::require(!of.decodes(), "c10d_device_communicator: payloads among the operands of a sum; ",
                  "expected elements, as torch has no operators for payloads");
  auto const sum_type = scalar_type_of(accumulator_of(of.partials));
  for (auto const& sum : std::span{of.sums}.first(of.count)) {
    auto const out = tensor(sum.out, sum.elements, scalar_type_of(of.results));
    auto total = at::Tensor{};
    for (auto i = sum.first; i < sum.first + sum.operands; ++i) {
      auto const is_sum = of.kinds[i] == device_sums::kind::sum;
      auto const next =
          tensor(of.operands[i], sum.elements, is_sum ? sum_type : scalar_type_of(of.partials));
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
}

static_assert(device_communicator<c10d_device_communicator>);
static_assert(gathering_communicator<c10d_device_communicator>);
static_assert(announcing_communicator<c10d_device_communicator>);
static_assert(duplicable_communicator<c10d_device_communicator>);

}  // namespace fssdp
