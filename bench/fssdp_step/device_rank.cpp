// SPDX-License-Identifier: Apache-2.0
// One emulated device.
#include "device_rank.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/gather_counts.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "predictors.hpp"

namespace step {
namespace {

using clock = emulated_device::clock;

[[nodiscard]] double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

/// What the solver of the policy says, asked as fssdp_sim asks.
[[nodiscard]] fssdp::placement solve(job const& of, std::span<std::uint64_t const> loads,
                                     fssdp::table_layout const& owners,
                                     fssdp::placement const* before) {
  auto const predicted = fssdp::expert_loads(loads.begin(), loads.end());
  auto const counts = sim::split_loads(loads, owners.ranks());
  return of.which.places({.topology = &of.of.where->topology,
                          .rates = of.of.where->rates,
                          .owners = &owners,
                          .predicted = &predicted,
                          .counts = &counts,
                          .slots = of.of.slots,
                          .overlap = of.of.overlap},
                         before);
}

/// So many elements or a few less, so that all slices are equal.
[[nodiscard]] std::size_t whole_slices(std::size_t elements, int slices) {
  auto const count = static_cast<std::size_t>(slices);
  return std::max<std::size_t>(1, elements / count) * count;
}
[[nodiscard]] std::vector<std::size_t> six_times(std::vector<std::size_t> sizes) {
  for (auto& size : sizes) size *= 6;
  return sizes;
}

[[nodiscard]] fssdp::any_load_predictor predictor_of(job const& of, int experts) {
  if (of.which.expects == expectation::none) return nothing_expected{experts};
  if (of.of.predicts.stale.has_value()) return told_loads{experts};
  if (of.which.expects == expectation::interval) return interval_window{experts, of.interval};
  return fssdp::load_window{experts};
}

/// A placement solver that leaves the work to whoever asks first, and takes as long as that did.
class charged_solver {
 public:
  charged_solver(job const& of, shared_work& shared, emulated_device const& device,
                 planning_times& times)
      : of_{&of}, shared_{&shared}, device_{&device}, times_{&times} {}

  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            fssdp::table_layout const& owners) const {
    return ask(loads, owners, nullptr);
  }
  [[nodiscard]] fssdp::placement operator()(std::span<std::uint64_t const> loads,
                                            fssdp::table_layout const& owners,
                                            fssdp::placement const& before) const {
    return ask(loads, owners, &before);
  }

 private:
  [[nodiscard]] fssdp::placement ask(std::span<std::uint64_t const> loads,
                                     fssdp::table_layout const& owners,
                                     fssdp::placement const* before) const {
    auto const begin = clock::now();
    auto const known = before != nullptr ? std::optional{*before} : std::nullopt;
    auto answer =
        shared_->placements({fssdp::expert_loads(loads.begin(), loads.end()), owners, known},
                            [&] { return solve(*of_, loads, owners, before); });
    device_->busy(answer.seconds, begin);
    times_->add(answer.seconds);
    return std::move(answer.value);
  }

  job const* of_;
  shared_work* shared_;
  emulated_device const* device_;
  planning_times* times_;
};

}  // namespace

device_rank::device_rank(links const& through, job const& what, shared_work& shared,
                         fssdp::layer_stack<fssdp::table_layout> const& first,
                         fssdp::trace_output trace)
    : through_{through},
      job_{what},
      shared_{shared},
      where_{*what.of.where},
      rank_{through.tokens.rank()},
      trace_{trace},
      device_{what.emulates.slow},
      rows_{what.emulates.bytes(where_.rates.token_bytes)},
      elements_{whole_slices(what.emulates.bytes(where_.rates.expert_bytes) / sizeof(float),
                             first.slices())},
      weights_{arena_slots(first), slice_sizes(first)},
      gradients_{arena_slots(first), slice_sizes(first)},
      moments_{arena_slots(first), six_times(slice_sizes(first))},
      beside_{through_.experts, stream_},
      tokens_(static_cast<std::size_t>(first.layers())) {
  layers_.emplace(beside_, fssdp::expert_shards{first, elements_, weights_, gradients_},
                  policy_of(), options_of(first));
  fill_weights();
}
device_rank::~device_rank() = default;

std::vector<std::size_t> device_rank::slice_sizes(
    fssdp::layer_stack<fssdp::table_layout> const& of) const {
  return {elements_[0] / static_cast<std::size_t>(of.slices())};
}

/// Owners change, and with them what a rank owns: as many as an even share of all layers is enough.
std::size_t device_rank::arena_slots(fssdp::layer_stack<fssdp::table_layout> const& first) const {
  auto const chunks =
      static_cast<std::size_t>(first.experts()) * static_cast<std::size_t>(first.slices());
  auto const ranks = static_cast<std::size_t>(first.ranks());
  return std::max(first.slots(rank_), (chunks + ranks - 1) / ranks);
}

fssdp::materializer_policy device_rank::policy_of() {
  auto policy =
      fssdp::materializer_policy{.placement = charged_solver{job_, shared_, device_, planning_},
                                 .predictor = predictor_of(job_, where_.experts)};
  if (job_.which.shards == sim::sharding::by_load)
    policy.sharding = fssdp::heterogeneous_sharding{.overlap = job_.of.overlap};
  policy.planner = [this](fssdp::plan_request const& of) {
    auto const begin = clock::now();
    auto answer =
        shared_.plans({of.where, of.layout}, [&] { return fssdp::make_requested_plan(of); });
    device_.busy(answer.seconds, begin);
    planning_.add(answer.seconds);
    return answer.value;
  };
  return policy;
}

fssdp::materializer_options device_rank::options_of(
    fssdp::layer_stack<fssdp::table_layout> const& first) const {
  auto const gathers_again = job_.which.costs.often == fssdp::gathers::twice;
  auto const experts = static_cast<std::size_t>(first.experts_per_layer());
  auto per_layer = static_cast<std::size_t>(job_.of.slots);
  if (job_.which.holds_all) per_layer = experts;
  if (job_.which.slices)  // what it computes with by itself is put together as well
    per_layer += (experts + static_cast<std::size_t>(first.ranks()) - 1) /
                 static_cast<std::size_t>(first.ranks());
  auto const at_once = gathers_again ? static_cast<std::size_t>(job_.prefetch_distance) + 1
                                     : static_cast<std::size_t>(first.layers());
  return {.replicas = gathers_again ? fssdp::retention::rematerialize : fssdp::retention::keep,
          .prefetch_distance = 0,  // see gather_ahead
          .replica_slots = at_once * per_layer,
          .partial_slots = 2 * experts,
          .seconds_per_row = 3 * where_.rates.seconds_per_token * job_.emulates.slow,
          .reshard_every = job_.reshard_every,
          .routing = job_.which.tokens,
          .topology = job_.emulates.links(where_.topology),
          .schedule = fssdp::schedule_options{.least_bytes = job_.emulates.bytes(256U << 10),
                                              .effort = job_.effort},
          .load_tolerance = job_.which.load_tolerance,
          .plan_ahead = job_.plans_ahead,
          .trace = trace_};
}

void device_rank::fill_weights() {
  auto const& stack = layers_->layouts();
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(stack.layers())) {
    auto shard = fssdp::layer_shard(stack, layer, rank_, weights_);
    auto slot = std::size_t{0};
    for (auto const chunk : stack.layer(layer).owned(rank_))
      std::ranges::fill(shard[0][slot++], parameter_of(layer, chunk.expert, steps_));
  }
}

void device_rank::remember(std::size_t sample) {
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(layers_->layers()))
    layers_->predictor(layer).push((*job_.of.loads)[sample].layers[layer.index()]);
}
void device_rank::expect(std::size_t layer, fssdp::expert_loads const& loads) {
  layers_->predictor(fssdp::layer_id{layer}).recall(loads);
}

device_times device_rank::iterate(std::size_t sample, bool recorded) {
  times_ = {};
  planning_.begin();
  records_.clear();
  auto const last = fssdp::layer_id{layers_->layers() - 1};
  layers_->prefetch(fssdp::layer_id{0});
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(layers_->layers()))
    forward(sample, layer, recorded);
  for (auto layer = last; layer.value() >= 0; layer = fssdp::layer_id{layer.value() - 1})
    backward(layer);
  auto const metrics = layers_->step([&](fssdp::iteration_metrics const&) { update(sample); },
                                     fssdp::bytes_of(weights_, moments_));
  times_.solving = planning_.on_caller();
  times_.planning = planning_.beside();
  times_.exposed = metrics.exposed_seconds;
  times_.moving = metrics.gather_seconds + metrics.reduce_seconds;
  times_.replica_slots = static_cast<double>(metrics.replica_slots_peak);
  times_.expert_bytes = static_cast<double>(metrics.gathered_bytes + metrics.reduced_bytes);
  return times_;
}

void device_rank::forward(std::size_t sample, fssdp::layer_id layer, bool recorded) {
  {
    auto const computing = range(fssdp::compute_track, "attention", layer);
    device_.busy(non_moe_seconds());
  }
  auto const counts = counts_of(sample, layer);
  layers_->acquire(layer);
  auto answer =
      sim::layer_answer{.owners = layers_->layouts().layer(layer), .where = layers_->where(layer)};
  if (job_.which.calibrates && layers_->calibrate(layer, counts)) {
    auto const early = std::exchange(answer.where, layers_->where(layer));
    answer.late = fssdp::placement{answer.owners};
    for (auto const expert : fssdp::first_n<fssdp::expert_id>(early.experts()))
      for (auto const rank : answer.where.holders(expert))
        if (!early.holds(rank, expert)) answer.late->add(expert, rank);
  }
  check_experts(layer);
  auto const is_balanced = job_.which.tokens == fssdp::routing_rule::balanced;
  answer.routing = is_balanced ? sim::routing_rule::balanced : sim::routing_rule::even;
  auto& of = tokens_[layer.index()];
  of.plan = plan_of(counts, answer.where);
  if (recorded) layers_->record(layer, counts.loads(), of.plan->device_loads());
  for (auto const& segment : of.plan->sends())
    if (segment.peer != rank_) times_.token_rows += static_cast<double>(segment.rows);
  move_tokens(of, layer, where_.rates.seconds_per_token, 0, [&] { gather_ahead(layer, 1); });
  records_.push_back({sample, layer.index(), std::move(answer)});
  if (layer.value() + 1 < layers_->layers()) layers_->release(layer);
}

void device_rank::backward(fssdp::layer_id layer) {
  if (layer.value() + 1 < layers_->layers())
    layers_->acquire(layer, 0, fssdp::training_pass::backward);
  check_experts(layer);
  move_tokens(tokens_[layer.index()], layer, 2 * where_.rates.seconds_per_token, 1,
              [&] { gather_ahead(layer, -1); });
  write_partials(layer);
  layers_->release(layer);
  layers_->reduce(layer);
  auto const computing = range(fssdp::compute_track, "attention backward", layer);
  device_.busy(2 * non_moe_seconds());
}

/// The layers that come next are gathered while experts compute: before, they would be in the way of
/// the tokens that the experts wait for.
void device_rank::gather_ahead(fssdp::layer_id layer, int step) {
  for (int n = 1; n <= job_.prefetch_distance; ++n) {
    auto const next = layer.value() + n * step;
    if (next >= 0 && next < layers_->layers()) layers_->prefetch(fssdp::layer_id{next});
  }
}

template <class Meanwhile>
void device_rank::move_tokens(layer_tokens& of, fssdp::layer_id layer, double seconds_per_row,
                              int pass, Meanwhile meanwhile) {
  auto const& plan = *of.plan;
  auto const own = [&](fssdp::token_segment const&) { return rank_; };
  auto const peer = [](fssdp::token_segment const& segment) { return segment.peer; };
  of.sent.resize(plan.sent_rows() * rows_.row_bytes());
  of.received.resize(plan.received_rows() * rows_.row_bytes());
  auto const view = [&](std::vector<std::uint8_t>& bytes, std::size_t rows) {
    return fssdp::rows_view<std::uint8_t>{bytes.data(), rows, rows_.row_bytes()};
  };
  auto const options = fssdp::token_options{.scratch = &token_scratch_};
  rows_.write(of.sent, plan.sends(), own, 2 * pass);
  auto const begin = clock::now();
  {
    auto const moving = range(fssdp::dispatch_track, "dispatch", layer);
    fssdp::dispatch(through_.tokens, plan, view(of.sent, plan.sent_rows()),
                    view(of.received, plan.received_rows()), options);
  }
  times_.tokens += seconds_since(begin);
  meanwhile();
  {
    auto const computing = range(fssdp::compute_track, "experts", layer);
    auto const start = clock::now();
    rows_.check(of.received, plan.receives(), peer, 2 * pass);
    rows_.write(of.received, plan.receives(), peer, 2 * pass + 1);
    device_.busy(static_cast<double>(plan.received_rows()) * seconds_per_row, start);
  }
  auto const back = clock::now();
  {
    auto const moving = range(fssdp::dispatch_track, "combine", layer);
    fssdp::combine(through_.tokens, plan, view(of.received, plan.received_rows()),
                   view(of.sent, plan.sent_rows()), options);
  }
  times_.tokens += seconds_since(back);
  rows_.check(of.sent, plan.sends(), own, 2 * pass + 1);
}

void device_rank::check_experts(fssdp::layer_id layer) const {
  auto const experts = layers_->experts<float>(layer);
  for (std::size_t n = 0; n < experts.size(); ++n)
    require_all("parameters", experts[n].id, experts[n].tensors[0],
                parameter_of(layer, experts[n].id, steps_));
}

/// The gradient of an expert is how many rows it has had, so that their sum is its load.
void device_rank::write_partials(fssdp::layer_id layer) {
  auto const experts = layers_->experts<float>(layer);
  auto const partials = layers_->partials<float>(layer);
  auto rows = std::vector<std::size_t>(static_cast<std::size_t>(where_.experts));
  for (auto const& segment : tokens_[layer.index()].plan->receives())
    rows[segment.expert.index()] += segment.rows;
  for (std::size_t n = 0; n < experts.size(); ++n)
    std::ranges::fill(partials[0][n], static_cast<float>(rows[experts[n].id.index()]));
}

void device_rank::update(std::size_t sample) {
  auto const& stack = layers_->layouts();
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(stack.layers())) {
    auto weights = fssdp::layer_shard(stack, layer, rank_, weights_);
    auto gradients = fssdp::layer_shard(stack, layer, rank_, gradients_);
    auto const& loads = (*job_.of.loads)[sample].layers[layer.index()];
    auto slot = std::size_t{0};
    for (auto const chunk : stack.layer(layer).owned(rank_)) {
      require_all("gradients", chunk.expert, gradients[0][slot],
                  static_cast<float>(loads[chunk.expert.index()]));
      for (auto& weight : weights[0][slot]) weight += 1;
      ++slot;
    }
  }
  ++steps_;
}

fssdp::token_counts device_rank::counts_of(std::size_t sample, fssdp::layer_id layer) {
  auto const all =
      sim::split_loads((*job_.of.loads)[sample].layers[layer.index()], where_.topology.ranks());
  auto const experts = static_cast<std::size_t>(where_.experts);
  auto const mine = all.values().subspan(rank_.index() * experts, experts);
  auto const begin = clock::now();
  auto counts = fssdp::gather_counts(through_.control, mine);
  if (!job_.links_are_real) device_.busy(control_seconds(mine.size_bytes()), begin);
  return counts;
}

double device_rank::control_seconds(std::size_t bytes) const {
  auto const& topo = where_.topology;
  auto const near = static_cast<double>(topo.ranks_on(topo.node(rank_)).size());
  auto const far = static_cast<double>(topo.ranks()) - near;
  auto const& port = topo.port(rank_);
  auto const sharing = topo.network() == fssdp::network_interface::per_node ? near : 1.0;
  auto const inside = (near - 1) * static_cast<double>(bytes) / port.inside_bytes_per_second;
  auto const between = sharing * far * static_cast<double>(bytes) / port.between_bytes_per_second;
  return far > 0 ? topo.cost().between_latency_seconds + std::max(inside, between)
                 : topo.cost().inside_latency_seconds + inside;
}

fssdp::token_plan device_rank::plan_of(fssdp::token_counts const& counts,
                                       fssdp::placement const& where) const {
  return fssdp::with_routing(
      job_.which.tokens, counts, where, where_.topology, [&](auto const& routing) {
        return fssdp::token_plan{
            counts, routing, rank_,
            fssdp::row_orders{fssdp::row_order::by_rank, fssdp::row_order::by_rank}};
      });
}

/// Attention and what is dense, of one layer, forward.
double device_rank::non_moe_seconds() const { return where_.non_moe_seconds / 3 / where_.layers; }

}  // namespace step
