// SPDX-License-Identifier: Apache-2.0
// Emulated devices that are threads of this process.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <future>
#include <latch>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "device_rank.hpp"
#include "fssdp/collective/all_gather.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/trace/chrome_trace.hpp"
#include "fssdp/trace/trace_recorder.hpp"
#include "measure.hpp"
#include "prediction.hpp"

namespace step {
namespace {

using clock = emulated_device::clock;
using layouts = fssdp::layer_stack<fssdp::table_layout>;

/// Of all threads of this process.
[[nodiscard]] double processor_seconds() {
  auto used = rusage{};
  ::getrusage(RUSAGE_SELF, &used);
  auto const seconds = [](timeval const& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Slice s of an expert lies with the s-th rank after the one that owns its first.
[[nodiscard]] fssdp::table_layout sliced(fssdp::table_layout const& whole) {
  auto owners = std::vector<fssdp::rank_id>{};
  for (auto const expert : fssdp::first_n<fssdp::expert_id>(whole.experts()))
    for (int slice = 0; slice < whole.ranks(); ++slice)
      owners.emplace_back((whole.owner(expert).value() + slice) % whole.ranks());
  return {{.ranks = whole.ranks(), .slices = whole.ranks()}, std::move(owners)};
}

/// Who owns what when the first iteration begins, by the loads that it expects.
[[nodiscard]] layouts first_owners(job const& of) {
  auto const& where = *of.of.where;
  auto const layers = sim::layer_count(*of.of.loads);
  auto const block = fssdp::as_table(
      fssdp::block_layout{{.experts = where.experts, .ranks = where.topology.ranks()}});
  if (of.which.shards == sim::sharding::blocks)
    return layouts{std::vector(layers, of.which.slices ? sliced(block) : block)};
  auto loads = std::vector<fssdp::expert_loads>{};
  for (std::size_t layer = 0; layer < layers; ++layer)
    loads.push_back(of.of.predicts(*of.of.loads, of.of.samples.front(), layer));
  return layouts{fssdp::heterogeneous_sharding{.overlap = of.of.overlap}(loads, where.topology)};
}

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

/// The samples between one that was and the next one, as far as a prediction looks back.
void remember_before(device_rank& device, job const& of, std::optional<std::size_t> last,
                     std::size_t next) {
  constexpr auto window = std::size_t{5};
  auto first = next > window ? next - window : 0;
  if (last.has_value()) first = std::max(first, *last + 1);
  for (auto sample = first; sample < next; ++sample) device.remember(sample);
  if (next == 0) device.remember(0);  // nothing is older
  if (of.of.predicts.stale.has_value() && of.which.expects != expectation::none)
    for (std::size_t layer = 0; layer < sim::layer_count(*of.of.loads); ++layer)
      device.expect(layer, of.of.predicts(*of.of.loads, next, layer));
}

/// What rank 0 knows of all iterations.
struct all_iterations {
  std::vector<iteration_record> records;
  std::vector<std::vector<layer_record>> layers;
  double bytes = 0;
  double replica_slots = 0;
  clock::time_point last_begin = {};
};

void wait_for_all(fssdp::communicator_ref control) {
  auto const mine = std::uint64_t{0};
  auto all = std::vector<std::uint64_t>(static_cast<std::size_t>(control.size()));
  fssdp::all_gather(control, std::span{&mine, 1}, std::span{all});
}

/// Means over devices, in times of the real cluster; slots the most.
void take_over(all_iterations& to, job const& of, std::vector<double> const& all) {
  auto& record = to.records.back();
  auto const ranks = all.size() / device_times::count;
  auto const mean = [&](std::size_t part) {
    auto sum = 0.0;
    for (std::size_t rank = 0; rank < ranks; ++rank) sum += all[rank * device_times::count + part];
    return sum / static_cast<double>(ranks);
  };
  auto const slow = of.emulates.slow;
  record.exposed_seconds = mean(0) / slow;
  record.moving_seconds = mean(1) / slow;
  record.token_seconds = mean(2) / slow;
  record.solving_seconds = mean(3);
  record.planning_seconds = mean(4);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    to.replica_slots = std::max(to.replica_slots, all[rank * device_times::count + 5]);
  to.bytes = mean(6) * of.emulates.scale +
             4 * mean(7) * static_cast<double>(ranks * of.of.where->rates.token_bytes);
}

/// All iterations of one rank: one that warms up, then those that count.
void run_rank(links const& through, job const& of, shared_work& shared, layouts const& first,
              fssdp::trace_output trace, all_iterations& result) {
  auto device = device_rank{through, of, shared, first, trace};
  auto const is_first_rank = through.tokens.rank() == fssdp::rank_id{0};
  auto last = std::optional<std::size_t>{};
  auto const cores = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t n = 0; n <= of.of.samples.size(); ++n) {
    auto const counts = n > 0;
    auto const sample = of.of.samples[counts ? n - 1 : 0];
    if (n != 1) remember_before(device, of, last, sample);
    wait_for_all(through.control);
    auto const begin = clock::now();
    auto const used = processor_seconds();
    auto const times = device.iterate(sample, counts);
    wait_for_all(through.control);
    auto const seconds = std::chrono::duration<double>(clock::now() - begin).count();
    auto const busy = (processor_seconds() - used) / seconds / cores;
    if (counts) last = sample;
    auto all =
        std::vector<double>(static_cast<std::size_t>(through.control.size()) * device_times::count);
    auto const mine = times.list();
    fssdp::all_gather(through.control, std::span{mine}, std::span{all});
    if (!is_first_rank) continue;
    if (counts) {
      result.records.push_back({.seconds = seconds / of.emulates.slow, .busy_share = busy});
      result.layers.push_back(device.layers());
      result.last_begin = begin;
      take_over(result, of, all);
    }
    of.iteration_over();
  }
}

/// Only what has begun in the last iteration.
void write_timeline(std::filesystem::path const& file,
                    std::vector<fssdp::trace_recorder> const& traces, clock::time_point begin) {
  auto kept = std::vector<fssdp::trace_recorder>{};
  for (auto const& trace : traces) {
    kept.emplace_back(fssdp::trace_options{.rank = trace.rank(), .capacity = trace.capacity()});
    for (auto const& event : trace.events())
      if (event.begin >= begin) kept.back().record(event);
  }
  auto out = std::ofstream{file};
  fssdp::write_chrome_trace(out, kept);
  if (!out.flush()) throw std::runtime_error{file.string() + ": cannot be written"};
}

}  // namespace

measurement measure_threads(job const& what, std::chrono::milliseconds deadline,
                            std::filesystem::path const& timeline) {
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
  {
    auto control = second_world{ranks, deadline};
    auto world = fssdp::thread_world{
        {.ranks = ranks, .deadline = deadline, .ports = of.emulates.links(where.topology)}};
    world.run([&](fssdp::thread_communicator& comm) {
      auto experts = comm.duplicate();
      auto* const trace = traces.empty() ? nullptr : &traces[comm.rank().index()];
      try {
        run_rank({fssdp::communicator_ref{comm}, fssdp::communicator_ref{experts},
                  fssdp::communicator_ref{control.of(comm.rank())}},
                 of, shared, first, trace, all);
      } catch (...) {
        control.fail(comm.rank(), std::current_exception());
        throw;
      }
    });
  }
  if (!timeline.empty()) write_timeline(timeline, traces, all.last_begin);

  auto result = measurement{
      .policy = std::string{of.which.name},
      .model = std::string{where.model->name},
      .cluster = std::string{where.kind->name},
      .devices = ranks,
      .slots = of.of.slots,
      .layers = where.layers,
      .iterations = std::move(all.records),
      .max_over_mean = 0,
      .bytes = all.bytes,
      .replica_bytes = all.replica_slots * static_cast<double>(where.rates.expert_bytes)};
  auto const scale =
      static_cast<double>(where.layers) / static_cast<double>(sim::layer_count(*of.of.loads));
  for (auto& one : result.iterations) one.seconds *= scale;
  auto const count = static_cast<double>(all.layers.size());
  for (auto const& layers : all.layers) {
    auto const predicted = predict(of, layers);
    result.predicted_seconds += predicted.seconds / count;
    result.max_over_mean += predicted.max_over_mean / count;
  }
  return result;
}

}  // namespace step
