// SPDX-License-Identifier: Apache-2.0
// Emulated devices that are threads of this process.
#include <atomic>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "device_group.hpp"
#include "emulated_device.hpp"
#include "fssdp/comm/thread.hpp"
#include "iterations.hpp"

namespace step {
namespace {

/// The communicators of a world whose ranks do nothing but wait, for ranks of another one: what
/// goes through them does not use the emulated links.
class second_world {
 public:
  second_world(int ranks, std::chrono::milliseconds deadline)
      : comms_(static_cast<std::size_t>(ranks)),
        ends_(comms_.size()),
        there_{ranks},
        thread_{[this, ranks, deadline] { run(ranks, deadline); }} {
    there_.wait();
  }
  ~second_world() {
    for (auto& end : ends_) end.leave(nullptr);
  }
  second_world(second_world const&) = delete;
  second_world& operator=(second_world const&) = delete;

  [[nodiscard]] fssdp::thread_communicator& of(fssdp::rank_id rank) {
    return *comms_[rank.index()];
  }
  /// A rank has failed in the other world: those that wait for it here are told.
  void fail(fssdp::rank_id rank, std::exception_ptr const& thrown) {
    ends_[rank.index()].leave(thrown);
  }

 private:
  /// What a rank waits for.
  class end {
   public:
    void leave(std::exception_ptr const& thrown) {
      if (!has_left_.exchange(true))
        thrown == nullptr ? left_.set_value() : left_.set_exception(thrown);
    }
    void wait() { left_.get_future().get(); }

   private:
    std::atomic<bool> has_left_ = false;
    std::promise<void> left_;
  };

  void run(int ranks, std::chrono::milliseconds deadline) {
    try {
      fssdp::thread_world{{.ranks = ranks, .deadline = deadline}}.run(
          [this](fssdp::thread_communicator& comm) {
            comms_[comm.rank().index()] = &comm;
            there_.count_down();
            ends_[comm.rank().index()].wait();
          });
    } catch (...) {  // the other world throws it, too
    }
  }

  std::vector<fssdp::thread_communicator*> comms_;
  std::vector<end> ends_;
  std::latch there_;
  std::jthread thread_;
};

class thread_devices : public device_group {
 public:
  explicit thread_devices(std::chrono::milliseconds deadline) : deadline_{deadline} {}

  [[nodiscard]] bool has_rank_0() const override { return true; }
  [[nodiscard]] std::optional<node_shape> nodes() const override { return std::nullopt; }

  measurement measure(job const& what, std::filesystem::path const& timeline) override {
    auto of = what;
    auto const& where = *of.of.where;
    of.emulates = whole_bytes(of.emulates, where.rates.token_bytes);
    auto const ranks = where.topology.ranks();
    auto const first = first_owners(of);
    auto shared = shared_work{};
    auto all = all_iterations{};
    auto traces = std::vector<fssdp::trace_recorder>{};
    if (!timeline.empty())
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks))
        traces.emplace_back(fssdp::trace_options{.rank = rank});
    auto control = second_world{ranks, deadline_};
    auto world = fssdp::thread_world{
        {.ranks = ranks, .deadline = deadline_, .ports = of.emulates.links(where.topology)}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto experts = comm.duplicate();
      auto* const trace = traces.empty() ? nullptr : &traces[comm.rank().index()];
      try {
        auto device = emulated_device{of.emulates.slow, fssdp::communicator_ref{experts}, trace};
        run_rank({fssdp::communicator_ref{comm}, fssdp::communicator_ref{control.of(comm.rank())}},
                 device, of, shared, first, all);
      } catch (...) {
        control.fail(comm.rank(), std::current_exception());
        throw;
      }
    });
    if (!timeline.empty()) write_timeline(timeline, traces, all.last_begin);
    return summed_up(of, all);
  }

 private:
  std::chrono::milliseconds deadline_;
};

}  // namespace

std::unique_ptr<device_group> join_threads(std::chrono::milliseconds deadline) {
  return std::make_unique<thread_devices>(deadline);
}

}  // namespace step
