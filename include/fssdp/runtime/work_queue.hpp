// SPDX-License-Identifier: Apache-2.0
/// A communicator and the stream that its work is enqueued on, as one type.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/comm/communicator.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/function_ref.hpp"
#include "fssdp/stream/stream_event.hpp"

namespace fssdp {

/// The communicators that a materializer accepts: any of host memory; between devices, one that
/// works on a side stream of the stream that computes: on_side_stream(comm, stream).
template <class Comm>
concept materializing_communicator = communicator<Comm> &&
    (std::same_as<memory_space_of<Comm>, host_memory> || side_stream_communicator<Comm>);

}  // namespace fssdp

namespace fssdp::detail {

/// A reference to a communicator, to which work is submitted in order. Where its memory is device
/// memory, it is a side_stream_communicator: the caller computes on another stream.
class work_queue {
 public:
  /// The type of work: run(of, comm) gets the communicator without its stream.
  using function = void (*)(void* of, communicator_ref const& comm);

  template <materializing_communicator Comm>
  explicit work_queue(Comm& comm)
      : comm_{&comm}, call_{functions_of<Comm>}, rank_{comm.rank()}, size_{comm.size()} {
    if (!in_host_memory())
      ask([this](communicator_ref const& inner) { announces_ = inner.announces(); });
  }

  [[nodiscard]] rank_id rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool in_host_memory() const { return call_.await == nullptr; }

  /// Enqueues run(of, comm); `done` is reached when it has run.
  /// @pre `of` lives until then
  /// @throws poisoned_stream if earlier work has failed
  void submit(function run, void* of, stream_event::mark done) const {
    call_.submit(comm_, run, of, std::move(done));
  }
  /// The same for host work that no device stream has to wait for.
  void prepare(function run, void* of, stream_event::mark done) const {
    call_.prepare(comm_, run, of, std::move(done));
  }
  /// Whether ranks have to compare plans in advance: on devices.
  [[nodiscard]] bool announces() const { return announces_; }
  /// As announce of an announcing_communicator.
  /// @throws ranks_disagree, transport errors; poisoned_stream if earlier work has failed
  void announce(std::span<std::uint64_t const> plans) const {
    if (announces()) ask([&](communicator_ref const& comm) { comm.announce(plans); });
  }
  [[nodiscard]] bool has_agreed(std::uint64_t plan) const {
    auto agreed = true;
    if (announces()) ask([&](communicator_ref const& comm) { agreed = comm.has_agreed(plan); });
    return agreed;
  }
  /// Waits for all that has been submitted.
  /// @throws what that has thrown
  void synchronize() const { call_.synchronize(comm_); }

  /// As those of a communicator on a side stream. On the host, the caller itself waits, and memory
  /// is cleared at once.
  [[nodiscard]] std::uint64_t position() const {
    return in_host_memory() ? 0 : call_.position(comm_);
  }
  void await(std::uint64_t position) const {
    if (!in_host_memory()) call_.await(comm_, position);
  }
  void clear(std::span<std::byte> memory) const {
    if (in_host_memory())
      std::fill(memory.begin(), memory.end(), std::byte{});
    else
      call_.clear(comm_, memory);
  }

 private:
  struct functions {
    void (*submit)(void*, function, void*, stream_event::mark);
    void (*prepare)(void*, function, void*, stream_event::mark);
    void (*synchronize)(void*);
    std::uint64_t (*position)(void const*);
    void (*await)(void*, std::uint64_t);
    void (*clear)(void*, std::span<std::byte>);
  };
  /// Work for a stream. The communicator that it gets may itself be bound to a stream.
  [[nodiscard]] static auto task(function run, void* of, stream_event::mark done) {
    return [run, of, done = std::move(done)](auto& comm) mutable {
      fssdp::submit(comm, [run, of, done = std::move(done)](auto& inner) mutable {
        run(of, communicator_ref{inner});
        done.reach();
      });
    };
  }
  template <class Comm>
  [[nodiscard]] static constexpr functions make_functions() {
    auto all = functions{};
    all.submit = [](void* comm, function run, void* of, stream_event::mark done) {
      fssdp::submit(*static_cast<Comm*>(comm), task(run, of, std::move(done)));
    };
    all.prepare = all.submit;
    all.synchronize = [](void* comm) { fssdp::synchronize(*static_cast<Comm*>(comm)); };
    if constexpr (!in_host_memory_of<Comm>) {
      all.prepare = [](void* comm, function run, void* of, stream_event::mark done) {
        static_cast<Comm*>(comm)->prepare(task(run, of, std::move(done)));
      };
      all.position = [](void const* comm) { return static_cast<Comm const*>(comm)->position(); };
      all.await = [](void* comm, std::uint64_t position) {
        static_cast<Comm*>(comm)->await(position);
      };
      all.clear = [](void* comm, std::span<std::byte> memory) {
        static_cast<Comm*>(comm)->clear(memory);
      };
    }
    return all;
  }
  /// Calls question with the communicator of a side_stream_communicator, at once.
  void ask(function_ref<void(communicator_ref const&)> question) const {
    auto asked = stream_event{};
    prepare(
        [](void* of, communicator_ref const& comm) {
          (*static_cast<function_ref<void(communicator_ref const&)>*>(of))(comm);
        },
        &question, asked.next());
  }
  template <class Comm>
  static constexpr bool in_host_memory_of = detail::in_host_memory<Comm>;
  template <class Comm>
  static constexpr functions functions_of = make_functions<Comm>();

  void* comm_;
  functions const& call_;
  rank_id rank_;
  int size_;
  bool announces_ = false;
};

/// Calls work(), which submits to a queue or waits for it.
/// @throws the cause, if the stream of the queue has failed
template <class Work>
void on_sound_stream(work_queue const& queue, Work work) {
  try {
    work();
  } catch (poisoned_stream const&) {
    queue.synchronize();  // throws the cause
    throw;
  }
}

}  // namespace fssdp::detail
