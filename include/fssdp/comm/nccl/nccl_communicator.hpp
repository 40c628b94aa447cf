// SPDX-License-Identifier: Apache-2.0
/// A rank on a device, between devices: NCCL.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/cuda/cuda_call.hpp"
#include "fssdp/comm/cuda/cuda_work.hpp"
#include "fssdp/comm/nccl/nccl_agreement.hpp"
#include "fssdp/comm/nccl/nccl_batch.hpp"
#include "fssdp/comm/nccl/nccl_call.hpp"
#include "fssdp/comm/nccl/nccl_context.hpp"
#include "fssdp/comm/nccl/nccl_shrink.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

class nccl_communicator;
class nccl_registration;

/// A rank of a communicator of the caller, bound to a stream of the caller. All work is enqueued
/// there, in order, by one thread, and calls return at once; `synchronize` waits. Threads that call
/// it must have set the communicator's device as the current one.
///
/// The communicator belongs to the caller. After a failure, the call throws and `has_failed` is
/// true; kernels that wait for a peer stay on the stream until the caller aborts the communicator
/// (ncclCommAbort), or the nccl_ref does, if nccl_options::may_abort is set: `handle` is then null.
/// Only a nonblocking communicator
/// (blocking = 0) can be aborted in time, whatever it waits for.
///
/// Graphs: a plan must be warmed up before a capture (warm_up); other ranks may meanwhile wait for
/// their communicators. NCCL frees a communicator only after the graphs that contain it are
/// destroyed: destroy them before `close`, and before a communicator of yours. A communicator that
/// is aborted here is freed as soon as they are.
///
/// @cost per exchange: one group of NCCL, one event; no allocation if there has been a batch as
///       large before; no synchronization. The first message to a peer connects it, which takes
///       long: see warm_up. A few KiB of device memory for each rank; freeing them waits for the
///       device
class nccl_ref : public detail::cuda_work<nccl_ref> {
 public:
  using stream_type = cudaStream_t;
  using memory_space = device_memory;

  /// Loads the kernels, so it must be made while the device does not wait for other ranks.
  /// @pre communicator and stream outlive it, and are not used otherwise meanwhile
  /// @throws transport_error, out_of_memory; argument_error if the deadline is not positive
  nccl_ref(ncclComm_t comm, cudaStream_t stream, nccl_options const& options = {})
      : nccl_ref{comm, stream, rank_of(comm), size_of(comm), options} {}

  [[nodiscard]] rank_id rank() const { return context_->me(); }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] cudaStream_t stream() const { return context_->stream(); }
  /// The communicator of NCCL; null after it was aborted or closed.
  [[nodiscard]] ncclComm_t handle() const { return context_->comm(); }
  /// Whether an error has occurred: each later call throws.
  [[nodiscard]] bool has_failed() const { return context_->has_failed(); }

  /// @throws what `post` throws and argument_error, before anything is sent; poisoned_stream if an
  ///         earlier call has failed; transport_error
  template <class Post>
  void exchange(Post&& post) {
    context_->check();
    batch_.clear();
    post(batch_);
    context_->guarded([&] {
      auto& watch = context_->watch();
      watch.begin_exchange(stream());
      batch_.for_each_peer([&](rank_id peer) { watch.add_peer(peer); });
      detail::nccl_require(ncclGroupStart(), rank(), "ncclGroupStart");
      auto const named = batch_.name(context_->comm(), stream());
      auto const ended = ncclGroupEnd();  // in any case, as the group must not stay open
      detail::nccl_require(named, rank(), "ncclSend or ncclRecv");
      context_->settle(ended, "ncclGroupEnd");
      watch.end_exchange(stream());
    });
  }
  /// Runs the work at once, which enqueues everything.
  template <class Work>
  void submit(Work work) {
    work(*this);
  }
  /// Waits for the stream.
  /// @throws transport_error, also for earlier errors, on every call; deadline_exceeded without
  ///         progress: the text says what it waits for; ranks_disagree as agree
  void synchronize() {
    context_->synchronize([this] { agreement_.look(*context_); });
  }

  /// Begins to compare the plans of all ranks. The list may include plans that they have agreed on
  /// already.
  /// @cost one exchange of 512 bytes from each rank, for any number of plans; no synchronization,
  ///       except that the first one connects the ranks, and that it waits for an unfinished
  ///       earlier one
  /// @throws argument_error if a graph is captured; as agree
  void announce(std::span<std::uint64_t const> plans) {
    context_->check();
    detail::require(!detail::is_captured(stream(), rank()),
                    "plans are announced while a graph is captured; expected that before");
    if (!plans.empty()) context_->watch().begin_plan(plans.front());
    agreement_.begin(*context_, plans);
  }
  /// Whether all ranks are known to have a plan: then agree does not wait.
  /// @throws ranks_disagree, poisoned_stream
  [[nodiscard]] bool has_agreed(std::uint64_t plan) {
    context_->check();
    agreement_.look(*context_);
    return agreement_.knows(plan);
  }
  /// Checks that all ranks have the same plan. Plans that were checked recently (at least the last
  /// 256) cost nothing; for announced ones, it waits until the comparison has finished.
  /// @cost for a new plan: as announce, followed by a wait
  /// @throws ranks_disagree, which names the lowest rank with other plans, and from then on
  ///         poisoned_stream; deadline_exceeded, transport_error; argument_error for a new plan
  ///         while a graph is captured
  void agree(std::uint64_t plan) {
    context_->check();
    context_->watch().begin_plan(plan);
    agreement_.look(*context_);
    if (agreement_.knows(plan)) return;
    detail::require(!detail::is_captured(stream(), rank()),
                    "a new plan while a graph is captured; expected warm_up before");
    if (!agreement_.compares(plan)) announce({&plan, 1});
    agreement_.wait(*context_);
  }
  /// How often agree and announce have waited for other ranks.
  [[nodiscard]] std::uint64_t agreement_waits() const { return agreement_.waits(); }

  /// Connects this rank with its peers, each of which calls it with this rank, and waits for that.
  /// @throws as synchronize; argument_error
  void connect(std::span<rank_id const> peers) {
    auto const bytes = context_->staging();
    exchange([&](auto& batch) {
      for (auto const peer : peers) {
        batch.send(bytes.first(1), peer);
        batch.recv(bytes.subspan(staged_row * (1 + peer.index()), 1), peer);
      }
    });
    synchronize();
  }
  /// An all-gather of host values: mine [n] -> all [size, n] bytes. For counts, not for parameters:
  /// it copies them through a few KiB of device memory, and waits.
  /// @throws as synchronize
  void gather_values(std::span<std::byte const> mine, std::span<std::byte> all) {
    for (std::size_t first = 0; first < mine.size(); first += staged_row) {
      synchronize();
      auto const part = mine.subspan(first, std::min(staged_row, mine.size() - first));
      context_->guarded([&] { gather_part(part, all.subspan(first), mine.size()); });
    }
  }

  /// Another communicator between the same ranks, on the same stream or another one. Every rank
  /// makes the same duplicates in the same order. Waits for the stream, as NCCL requires.
  /// @throws as synchronize; deadline_exceeded
  [[nodiscard]] nccl_communicator duplicate();
  [[nodiscard]] nccl_communicator duplicate(cudaStream_t stream);

 protected:
  nccl_ref(ncclComm_t comm, cudaStream_t stream, rank_id me, int size, nccl_options const& options)
      : context_{std::make_unique<detail::nccl_context>(comm, stream, me, size,
                                                        detail::nccl_checked(options))},
        size_{size},
        batch_{me, size},
        agreement_{me} {
    detail::load_kernels(options.kernels, me);
  }

  /// Null if it was moved from.
  [[nodiscard]] detail::nccl_context* context() { return context_.get(); }

 private:
  friend nccl_registration;
  friend detail::cuda_work<nccl_ref>;
  static constexpr auto staged_row = detail::nccl_context::staged_row;

  [[nodiscard]] static rank_id rank_of(ncclComm_t comm) {
    auto rank = 0;
    detail::nccl_require(ncclCommUserRank(comm, &rank), {}, "ncclCommUserRank");
    return rank_id{rank};
  }
  [[nodiscard]] static int size_of(ncclComm_t comm) {
    auto size = 0;
    detail::nccl_require(ncclCommCount(comm, &size), {}, "ncclCommCount");
    return size;
  }
  [[nodiscard]] device_kernels const& kernels() const { return context_->options().kernels; }
  template <class Call>
  void guarded(Call call) {
    context_->guarded(call);
  }
  /// Allocates from CUDA's pool, which other devices of this process cannot read: where NCCL
  /// accesses peers' memory directly, pass scratch of your own (device_scratch).
  [[nodiscard]] cudaError_t request(void** memory, std::size_t bytes) const {
    return cudaMallocAsync(memory, bytes, stream());
  }

  void gather_part(std::span<std::byte const> mine, std::span<std::byte> all, std::size_t pitch) {
    auto* const staged = context_->staging().data();
    auto* const rows = staged + staged_row;
    auto const call = [&](cudaError_t code, char const* name) {
      detail::cuda_require(code, rank(), name);
    };
    call(cudaMemcpyAsync(staged, mine.data(), mine.size(), cudaMemcpyHostToDevice, stream()),
         "cudaMemcpyAsync");
    context_->gather_staged(mine.size());
    synchronize();  // a copy to memory that is not pinned would wait without a deadline
    call(cudaMemcpy2DAsync(all.data(), pitch, rows, mine.size(), mine.size(),
                           static_cast<std::size_t>(size_), cudaMemcpyDeviceToHost, stream()),
         "cudaMemcpy2DAsync");
    synchronize();
  }

  std::unique_ptr<detail::nccl_context> context_;
  int size_;
  detail::nccl_batch batch_;
  detail::nccl_agreement agreement_;
};

/// A rank of its own, nonblocking communicator. If it is destroyed without `close`, it is aborted:
/// peers may then lose the last messages of this rank. After a failure it is aborted at once,
/// unless nccl_options::may_shrink keeps it for `without`.
class nccl_communicator : public nccl_ref {
 public:
  /// Collective.
  /// @param id  from ncclGetUniqueId on one rank; the caller sends it to the others
  /// @pre the device of this rank is the current one
  /// @throws transport_error, out_of_memory; deadline_exceeded if not all ranks come;
  ///         argument_error
  nccl_communicator(ncclUniqueId const& id, int ranks, rank_id rank, cudaStream_t stream,
                    nccl_options const& options = {})
      : nccl_communicator{made(id, ranks, rank, detail::nccl_checked(options)), ranks, rank, stream,
                          options} {}
  nccl_communicator(nccl_communicator&&) = default;
  nccl_communicator& operator=(nccl_communicator&&) = delete;
  ~nccl_communicator() {
    if (context() != nullptr) context()->abort();
  }

  /// Waits for the stream, and until all ranks have closed their communicators; frees the
  /// communicator. Does nothing if it is closed or has failed.
  /// @pre captured graphs are destroyed
  /// @throws as synchronize; deadline_exceeded if a rank does not come
  void close() {
    if (handle() == nullptr || has_failed()) return;
    synchronize();
    context()->guarded([&] {
      context()->settle(
          ncclCommFinalize(context()->comm()),
          context()->watch().has_captured()
              ? "ncclCommFinalize (graphs that were captured have to be destroyed before)"
              : "ncclCommFinalize");
      auto const code = ncclCommDestroy(context()->release());
      if (code != ncclInProgress) detail::nccl_require(code, rank(), "ncclCommDestroy");
    });
  }

  /// A communicator between the remaining ranks when some are lost, on the same stream, renumbered
  /// in the same order. Collective among the remaining ranks; the lost ones do not call it, and may
  /// have ended. The caller must find the lost ranks: failed_rank() of an error is only what one
  /// rank has seen.
  ///
  /// If this communicator has failed, or its work on the stream fails, which is waited for, all
  /// work in progress ends: the parameters and gradients that it would have written are
  /// unspecified, and this communicator can only be destroyed. Otherwise it stays usable, between
  /// all its ranks. Requires NCCL 2.27 or later; a communicator that has reported an error of NCCL,
  /// or was not connected yet, may fail to shrink.
  /// @pre every remaining rank passes the same list; captured graphs are not launched
  /// @throws argument_error if the list is empty, a rank does not exist or is this one, no rank
  ///         remains, or NCCL is older; poisoned_stream if this communicator was closed, or aborted
  ///         when it failed; deadline_exceeded if a remaining rank does not come, transport_error,
  ///         out_of_memory: then this communicator is aborted
  [[nodiscard]] nccl_communicator without(std::span<rank_id const> lost) {
    auto ranks = detail::checked_numbers(lost, rank(), size());
    try {
      if (!has_failed()) synchronize();
    } catch (transport_error const&) {  // work in progress is given up
    }
    if (handle() == nullptr)
      throw poisoned_stream{detail::text(
          "rank ", rank(), ": without: this communicator has been ",
          has_failed() ? "aborted when it failed; expected nccl_options::may_shrink" : "closed")};
    auto const before = std::ranges::lower_bound(ranks, rank().value()) - ranks.begin();
    auto const me = rank_id{rank().value() - static_cast<int>(before)};
    auto const left = size() - static_cast<int>(ranks.size());
    auto const& options = context()->options();
    try {
      auto* const child = detail::nccl_shrunk(*context(), std::move(ranks), without_blocking());
      settle(child, ncclInProgress, rank(), "ncclCommShrink", options);
      return {child, left, me, stream(), options};
    } catch (...) {
      context()->abort(std::current_exception());
      throw;
    }
  }

 private:
  friend nccl_ref;
  /// Takes ownership of the communicator, also if it throws.
  nccl_communicator(ncclComm_t comm, int ranks, rank_id rank, cudaStream_t stream,
                    nccl_options const& options) try
      : nccl_ref{comm, stream, rank, ranks, allowed_to_abort(options)} {
  } catch (...) {
    ncclCommAbort(comm);
  }

  [[nodiscard]] static nccl_options allowed_to_abort(nccl_options options) {
    options.may_abort = !options.may_shrink;
    return options;
  }

  [[nodiscard]] static ncclConfig_t without_blocking() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }
  /// Waits until the communicator is made, or aborts it.
  static void settle(ncclComm_t comm, ncclResult_t code, rank_id me, char const* call,
                     nccl_options const& options) {
    try {
      auto const ended = detail::nccl_settled(comm, code, me, options.deadline, [&] {
        throw detail::not_all_come(me, call, options.deadline);
      });
      detail::nccl_require(ended, me, call);
    } catch (...) {
      if (comm != nullptr) ncclCommAbort(comm);
      throw;
    }
  }
  [[nodiscard]] static ncclComm_t made(ncclUniqueId const& id, int ranks, rank_id rank,
                                       nccl_options const& options) {
    detail::require(rank.value() >= 0 && rank.value() < ranks, "nccl_communicator: rank ", rank,
                    " of ", ranks, " ranks; expected one from 0 to ", ranks - 1);
    auto config = without_blocking();
    auto comm = ncclComm_t{};
    auto const code = ncclCommInitRankConfig(&comm, ranks, id, rank.value(), &config);
    settle(comm, code, rank, "ncclCommInitRankConfig", options);
    return comm;
  }
};

inline nccl_communicator nccl_ref::duplicate() { return duplicate(stream()); }
inline nccl_communicator nccl_ref::duplicate(cudaStream_t stream) {
  synchronize();
  auto child = ncclComm_t{};
  try {
    context_->guarded([&] {
      auto config = nccl_communicator::without_blocking();
      context_->settle(ncclCommSplit(handle(), 0, rank().value(), &child, &config),
                       "ncclCommSplit");
    });
  } catch (...) {
    if (child != nullptr) ncclCommAbort(child);
    throw;
  }
  nccl_communicator::settle(child, ncclInProgress, rank(), "ncclCommSplit", context_->options());
  return {child, size_, rank(), stream, context_->options()};
}

static_assert(device_communicator<nccl_ref>);
static_assert(device_communicator<nccl_communicator>);

}  // namespace fssdp
