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
#include "fssdp/hybrid/hybrid_groups.hpp"
#include "fssdp_sim/crossing.hpp"
#include "iterations.hpp"

namespace step {
namespace {

/// The communicators of a world whose ranks do nothing but wait, for ranks of another one: what
/// goes through them does not use the emulated links.
class second_world {
 public:
  explicit second_world(fssdp::thread_world::options const& of)
      : comms_(static_cast<std::size_t>(of.ranks)),
        ends_(comms_.size()),
        there_{of.ranks},
        thread_{[this, of] { run(of); }} {
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

  void run(fssdp::thread_world::options const& of) {
    try {
      fssdp::thread_world{of}.run([this](fssdp::thread_communicator& comm) {
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

/// What all devices are told, and where rank 0 leaves what it has seen.
struct common_work {
  job const& of;
  layouts const& first;
  shared_work& shared;
  all_iterations& all;
};

/// The ports of groups that are like this one.
[[nodiscard]] fssdp::topology times(int groups, fssdp::topology const& group) {
  return fssdp::topology{{.nodes = groups * group.nodes(),
                          .ranks = groups * group.ranks(),
                          .ports = group.port(fssdp::rank_id{0}),
                          .network = group.network(),
                          .cost = group.cost()}};
}

class thread_devices : public device_group {
 public:
  explicit thread_devices(std::chrono::milliseconds deadline) : deadline_{deadline} {}

  [[nodiscard]] bool has_rank_0() const override { return true; }
  [[nodiscard]] std::optional<node_shape> nodes() const override { return std::nullopt; }

  measurement measure(job const& what, std::filesystem::path const& timeline) override {
    auto of = what;
    auto const& where = *of.of.where;
    of.emulates = whole_bytes(of.emulates, where.rates.token_bytes);
    auto const first = first_owners(of);
    if (of.between.has_value()) of.between->scale = scale_between(of, first.slices());
    auto const shape =
        fssdp::hybrid_groups{{.groups = groups_of(of), .ranks_per_group = where.topology.ranks()}};
    auto const ports = times(shape.groups(), of.emulates.links(where.topology));
    auto shared = shared_work{};
    auto all = all_iterations{};
    auto traces = std::vector<fssdp::trace_recorder>{};
    if (!timeline.empty())
      for (auto const rank : fssdp::first_n<fssdp::rank_id>(shape.ranks()))
        traces.emplace_back(fssdp::trace_options{.rank = rank});
    auto control = second_world{{.ranks = shape.ranks(), .deadline = deadline_}};
    auto wires = std::optional<second_world>{};
    if (of.between.has_value())
      wires.emplace(fssdp::thread_world::options{
          .ranks = shape.ranks(), .deadline = deadline_, .ports = wires_of(of, ports)});
    auto world =
        fssdp::thread_world{{.ranks = shape.ranks(), .deadline = deadline_, .ports = ports}};
    auto const work = common_work{of, first, shared, all};
    world.run([&](fssdp::thread_communicator& comm) {
      auto const rank = comm.rank();
      auto* const trace = traces.empty() ? nullptr : &traces[rank.index()];
      try {
        if (wires.has_value())
          run_in_group(comm, control.of(rank), wires->of(rank), shape, work, trace);
        else
          run_device(comm, control.of(rank), {}, work, trace);
      } catch (...) {
        control.fail(rank, std::current_exception());
        if (wires.has_value()) wires->fail(rank, std::current_exception());
        throw;
      }
    });
    if (!timeline.empty()) write_timeline(timeline, traces, all.last_begin);
    return summed_up(of, all);
  }

 private:
  [[nodiscard]] static int groups_of(job const& of) {
    return of.between.has_value() ? of.between->of.groups : 1;
  }
  /// How many real bytes each byte stands for that an emulated device sends to other groups.
  [[nodiscard]] static double scale_between(job const& of, int slices) {
    constexpr auto chunks = 64;
    auto const& model = *of.of.where->model;
    auto const bytes = [&](double smaller) {
      auto const units = sim::units_of(model, slices, smaller);
      return sim::crossing{of.between->of.method, units, of.between->of.groups}.bytes(chunks);
    };
    return static_cast<double>(bytes(1)) / static_cast<double>(bytes(of.emulates.scale));
  }
  /// Every port has a wire to other groups besides.
  [[nodiscard]] static fssdp::topology wires_of(job const& of, fssdp::topology const& ports) {
    auto const rate = of.between->of.bytes_per_second / (of.between->scale * of.emulates.slow);
    return fssdp::topology{{.nodes = ports.nodes(),
                            .ranks = ports.ranks(),
                            .ports = {rate, rate},
                            .network = ports.network(),
                            .cost = ports.cost()}};
  }
  /// @param between what joins it to other groups, if there are any
  static void run_device(fssdp::thread_communicator& tokens, fssdp::thread_communicator& control,
                         std::optional<between_links> between, common_work const& work,
                         fssdp::trace_recorder* trace) {
    auto experts = tokens.duplicate();
    auto device = emulated_device{work.of.emulates.slow, fssdp::communicator_ref{experts}, trace};
    if (between.has_value()) between->moving = &device.moving();
    run_rank({fssdp::communicator_ref{tokens}, fssdp::communicator_ref{control}, between}, device,
             work.of, work.shared, work.first, work.all);
  }
  /// The same with communicators of all groups.
  static void run_in_group(fssdp::thread_communicator& tokens, fssdp::thread_communicator& control,
                           fssdp::thread_communicator& wires, fssdp::hybrid_groups const& shape,
                           common_work const& work, fssdp::trace_recorder* trace) {
    auto const group = shape.group(tokens.rank()).value();
    auto const position = shape.rank_in_group(tokens.rank()).value();
    auto inside = tokens.split(group, position);
    auto inside_control = control.split(group, position);
    auto counterparts = wires.split(position, group);
    auto checks = control.split(position, group);
    run_device(*inside, *inside_control,
               between_links{.counterparts = fssdp::communicator_ref{*counterparts},
                             .checks = fssdp::communicator_ref{*checks},
                             .inside = fssdp::communicator_ref{*inside_control},
                             .everyone = fssdp::communicator_ref{control}},
               work, trace);
  }

  std::chrono::milliseconds deadline_;
};

}  // namespace

std::unique_ptr<device_group> join_threads(std::chrono::milliseconds deadline) {
  return std::make_unique<thread_devices>(deadline);
}

}  // namespace step
