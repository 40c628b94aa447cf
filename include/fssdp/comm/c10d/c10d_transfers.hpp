// SPDX-License-Identifier: Apache-2.0
/// Concurrent sends and receives of a process group.
#pragma once

#include "fssdp/comm/c10d/c10d_backend.hpp"  // ahead of torch's own headers

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/comm/back_end.hpp"
#include "fssdp/comm/wait_pace.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/memory/torch_view.hpp"

namespace fssdp::detail {

/// Bytes as a tensor that does not own them.
[[nodiscard]] inline at::Tensor c10d_bytes(std::byte const* data, std::size_t size,
                                           c10::Device device) {
  return torch_view(data, size, c10::kByte, device);
}

/// Messages between this rank and others. Back ends that can start them together (NCCL) do so; for
/// others all receives are started, then all sends.
class c10d_transfers {
 public:
  explicit c10d_transfers(c10::intrusive_ptr<c10d_backend> backend)
      : backend_{std::move(backend)}, is_gloo_{backend_->getBackendName() == "gloo"} {}

  [[nodiscard]] c10d_backend& backend() const { return *backend_; }
  [[nodiscard]] bool is_gloo() const { return is_gloo_; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  /// The largest tag that every back end accepts; MPI guarantees only 32767.
  [[nodiscard]] std::uint64_t most_tag() const { return is_gloo_ ? 0x7fff'ffffU : 0x7fffU; }
  /// The peer of the message that was started last, or is waited for.
  [[nodiscard]] rank_id peer() const { return peer_; }

  /// @returns the index of the transfer
  std::size_t recv(at::Tensor bytes, rank_id from, int tag) {
    return add(std::move(bytes), from, [&](std::vector<at::Tensor>& list) {
      return backend_->recv(list, from.value(), tag);
    });
  }
  std::size_t send(at::Tensor bytes, rank_id to, int tag) {
    return add(std::move(bytes), to, [&](std::vector<at::Tensor>& list) {
      return backend_->send(list, to.value(), tag);
    });
  }
  /// Runs name(), which calls recv and send.
  template <class Name>
  void together(Name name) {
    auto const work = c10d_coalesced(*backend_, name);
    if (work == nullptr) return;
    for (auto& of : all_) of.work = work;
  }

  /// Waits for one transfer on the host.
  /// @throws exceptions of the back end; an error if it takes longer than the deadline
  void wait(std::size_t which, std::chrono::milliseconds deadline) {
    auto& [tensors, work, peer, done] = all_[which];
    peer_ = peer;
    if (done) return;
    if (is_gloo_) {  // whose work is complete only after a wait
      work->wait(countable(deadline));
    } else {
      auto pace = wait_pace{};
      for (auto const until = end_of(deadline); !work->isCompleted(); pace.rest())
        if (std::chrono::steady_clock::now() >= until)
          throw std::runtime_error{text("timed out after ", deadline.count(), " ms")};
      work->wait();
    }
    done = true;
  }
  /// The same for device work: the current stream waits, not the host.
  void enqueue_wait() {
    c10d::Work const* last = nullptr;  // transfers that were started together share a work
    for (auto& of : all_) {
      peer_ = of.peer;
      if (of.work != nullptr && of.work.get() != last) of.work->wait();
      last = of.work.get();
    }
  }

  /// To be called when all have ended.
  void clear() { all_.clear(); }
  /// To be called after a failure: ends the transfers in progress, so that they do not write to
  /// memory any more. Gloo then closes all connections of the group, as after any deadline, so
  /// ranks that wait for this one notice; other back ends do what their `abort` does.
  void give_up() noexcept {
    if (is_gloo_)
      close_connections();
    else
      abort_all();
    all_.clear();
  }

 private:
  struct transfer {
    std::vector<at::Tensor> tensors;  // one, as c10d takes lists; kept until it has ended
    c10::intrusive_ptr<c10d::Work> work;
    rank_id peer;
    bool done = false;
  };

  template <class Start>
  std::size_t add(at::Tensor bytes, rank_id peer, Start start) {
    peer_ = peer;
    auto& of = all_.emplace_back(transfer{{std::move(bytes)}, {}, peer});
    of.work = start(of.tensors);
    return all_.size() - 1;
  }
  void close_connections() noexcept {
    auto const soon = std::chrono::milliseconds{1};
    try {  // a receive that no rank sends to
      auto const other = rank_id{backend_->getRank() == 0 ? 1 : 0};
      if (backend_->getSize() > 1) wait(recv(at::empty({1}, at::kByte), other, 0), soon);
    } catch (...) {
    }
    for (std::size_t i = 0; i < all_.size(); ++i) try {
        if (all_[i].work != nullptr) wait(i, soon);
      } catch (...) {
      }
  }
  void abort_all() noexcept {
    for (auto& of : all_) try {
        if (!of.done && of.work != nullptr) of.work->abort();
      } catch (...) {
        keep_for_ever(of);
      }
  }
  /// With MPI, destroying work that has not completed ends the process.
  static void keep_for_ever(transfer& of) {
    for (auto& tensor : of.tensors) (void)tensor.unsafeReleaseTensorImpl();
    (void)of.work.release();
  }

  c10::intrusive_ptr<c10d_backend> backend_;
  bool is_gloo_;
  rank_id peer_;
  std::vector<transfer> all_;
};

/// The current exception as an error of this library. Torch's errors for deadlines are recognized
/// by their text.
/// @param during the exchange in progress
[[nodiscard]] inline std::exception_ptr c10d_failure(rank_id me, rank_id peer,
                                                     exchange_name const& during) {
  try {
    throw;
  } catch (error const&) {
    return std::current_exception();
  } catch (std::exception const& error) {
    auto const said = c10d_text(error);
    auto const what =
        text("rank ", me, " waits for rank ", peer, " in exchange ", during.sequence, ", round ",
             during.label.round, " of plan ", hexadecimal{during.label.plan}, ": ", said);
    auto const says = [&](char const* words) { return said.find(words) != std::string::npos; };
    if (says("imed out") || says("imeout"))
      return std::make_exception_ptr(deadline_exceeded{peer, what});
    return std::make_exception_ptr(peer_failed{peer, what});
  }
}

}  // namespace fssdp::detail
