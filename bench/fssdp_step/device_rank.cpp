// SPDX-License-Identifier: Apache-2.0
// One rank and its iterations.
#include "device_rank.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "charged_solver.hpp"
#include "expert_shape.hpp"
#include "fssdp/memory/bytes_of.hpp"
#include "fssdp/plan/planner.hpp"
#include "fssdp/routing/routing_rule.hpp"
#include "fssdp/solver/heterogeneous_sharding.hpp"
#include "fssdp/token/dispatch.hpp"
#include "fssdp/token/gather_counts.hpp"
#include "fssdp_sim/crossing.hpp"
#include "fssdp_sim/split_loads.hpp"
#include "message_costs.hpp"
#include "predictors.hpp"

namespace step {
namespace {

using clock = device::clock;

[[nodiscard]] double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

[[nodiscard]] fssdp::any_load_predictor predictor_of(job const& of, int experts) {
  if (of.which.expects == expectation::none) return nothing_expected{experts};
  if (of.of.predicts.stale.has_value()) return told_loads{experts};
  if (of.which.expects == expectation::interval) return interval_window{experts, of.interval};
  return fssdp::load_window{experts};
}

}  // namespace

device_rank::device_rank(links const& through, device& on, job const& what, shared_work& shared,
                         fssdp::layer_stack<fssdp::table_layout> const& first)
    : through_{through},
      job_{what},
      shared_{shared},
      where_{*what.of.where},
      rank_{through.tokens.rank()},
      device_{on},
      memory_{on.memory()},
      trace_{on.trace()},
      rows_{what.emulates.bytes(where_.rates.token_bytes)},
      elements_{expert_elements(what, first.slices())},
      weights_{arena_slots(first), slice_elements(first), memory_.resource()},
      gradients_{arena_slots(first), slice_elements(first), memory_.resource()},
      moments_{arena_slots(first), 6 * slice_elements(first), memory_.resource()},
      sent_{memory_.resource()},
      returned_{memory_.resource()},
      results_{memory_.resource()} {
  for (int layer = 0; layer < first.layers(); ++layer)
    tokens_.push_back({{}, row_block{memory_.resource()}});
  for (auto const& tensor : {weights_.all(), gradients_.all(), moments_.all()})
    memory_.fill(tensor, 0);
  layers_.emplace(device_.make_materializer({first, elements_, weights_, gradients_}, policy_of(),
                                            options_of(first)));
  fill_weights();
  if (!job_.between.has_value()) return;
  auto const scale = job_.emulates.scale;
  between_.emplace(through_.between.value(), job_.between->of,
                   sim::units_of(*where_.model, first.slices(), scale), first, rank_,
                   arena_slots(first));
}
device_rank::~device_rank() = default;

std::size_t device_rank::slice_elements(fssdp::layer_stack<fssdp::table_layout> const& of) const {
  return elements_[0] / static_cast<std::size_t>(of.slices());
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
    planning_.add_plan(of.where, answer.seconds);
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
  if (job_.which.slices)  // owned experts are gathered, too, as ranks own only slices of them
    per_layer += (experts + static_cast<std::size_t>(first.ranks()) - 1) /
                 static_cast<std::size_t>(first.ranks());
  auto const at_once = gathers_again ? static_cast<std::size_t>(job_.prefetch_distance) + 1
                                     : static_cast<std::size_t>(first.layers());
  return {.replicas = gathers_again ? fssdp::retention::rematerialize : fssdp::retention::keep,
          .prefetch_distance = 0,  // see gather_ahead
          .replica_slots = at_once * per_layer,
          .partial_slots = 2 * experts,
          .memory = memory_.resource(),
          .seconds_per_row = 3 * where_.rates.forward_seconds_per_row * job_.emulates.slow,
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
      memory_.fill(shard[0][slot++], parameter_of(layer, chunk.expert, steps_));
  }
}

void device_rank::remember(std::size_t sample) {
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(layers_->layers()))
    layers_->predictor(layer).push((*job_.of.loads)[sample].layers[layer.index()]);
}
void device_rank::expect(std::size_t layer, fssdp::expert_loads const& loads) {
  layers_->predictor(fssdp::layer_id{layer}).recall(loads);
}

void device_rank::prepare(std::size_t sample) {
  if (between_.has_value()) between_->prepare((*job_.of.loads)[sample].layers);
}
void device_rank::check_between(std::size_t sample) {
  if (between_.has_value()) between_->check((*job_.of.loads)[sample].layers);
}

device_times device_rank::iterate(std::size_t sample, bool recorded) {
  times_ = {};
  auto const sent = between_.has_value() ? between_->bytes_sent() : 0;
  checks_ = !recorded || device_.checks_always();
  planning_.begin();
  records_.clear();
  solver_seconds_.assign(tokens_.size(), 0);
  device_.begin_iteration();
  auto const last = fssdp::layer_id{layers_->layers() - 1};
  prefetch(fssdp::layer_id{0});
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(layers_->layers()))
    forward(sample, layer, recorded);
  for (auto layer = last; layer.value() >= 0; layer = fssdp::layer_id{layer.value() - 1})
    backward(layer);
  auto const metrics =
      layers_->step([&](fssdp::iteration_metrics const&) { update(sample, recorded); }, kept());
  if (between_.has_value()) {
    if (metrics.reshardings_accepted > 0) between_->reshard(layers_->layouts());
    times_.between_bytes = static_cast<double>(between_->bytes_sent() - sent);
  }
  times_.solving = planning_.on_caller();
  times_.planning = planning_.beside();
  times_.exposed = metrics.exposed_seconds;
  times_.moving = metrics.gather_seconds + metrics.reduce_seconds;
  times_.replica_slots = static_cast<double>(metrics.replica_slots_peak);
  times_.expert_bytes = static_cast<double>(metrics.gathered_bytes + metrics.reduced_bytes);
  device_.end_iteration(times_);
  return times_;
}

void device_rank::forward(std::size_t sample, fssdp::layer_id layer, bool recorded) {
  {
    auto const computing = range(fssdp::compute_track, "attention", layer);
    compute_dense(1);
  }
  auto const counts = counts_of(sample, layer);
  solver_seconds_[layer.index()] += on_caller([&] { layers_->acquire(layer); });
  auto const gathered = layers_->plan(layer);
  auto costs = planning_costs{.solver = solver_seconds_[layer.index()],
                              .plan = planning_.take_plan(layers_->where(layer))};
  auto answer =
      sim::layer_answer{.owners = layers_->layouts().layer(layer), .where = layers_->where(layer)};
  auto is_calibrated = false;
  if (job_.which.calibrates)
    costs.late_solver = on_caller([&] { is_calibrated = layers_->calibrate(layer, counts); });
  if (is_calibrated) {
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
  move_tokens(
      layer, of.received, where_.rates.forward_seconds_per_row, 0, [&] { gather_ahead(layer, 1); },
      [&] { device_.forward(work_); });
  records_.push_back({.sample = sample,
                      .layer = layer.index(),
                      .answer = std::move(answer),
                      .gathered = gathered,
                      .reduced = gathered,
                      .planning = costs});
  if (layer.value() + 1 < layers_->layers()) layers_->release(layer);
}

void device_rank::backward(fssdp::layer_id layer) {
  if (layer.value() + 1 < layers_->layers())
    layers_->acquire(layer, 0, fssdp::training_pass::backward);
  check_experts(layer);
  move_tokens(
      layer, returned_, 2 * where_.rates.forward_seconds_per_row, 1,
      [&] { gather_ahead(layer, -1); }, [&] { device_.backward(work_); });
  compute_partials(layer);
  layers_->release(layer);
  layers_->reduce(layer);
  auto& record = records_[layer.index()];
  record.reduced = layers_->plan(layer).reduction();
  if (record.answer.late.has_value())
    record.planning.late_plan = planning_.take_plan(record.answer.where);
  if (between_.has_value()) between_->start(layer);
  auto const computing = range(fssdp::compute_track, "attention backward", layer);
  compute_dense(2);
}

/// Attention and what is dense, forward; backward it is twice as much.
void device_rank::compute_dense(int times) {
  auto const begin = clock::now();
  device_.compute_dense(non_moe_seconds() / where_.rates.forward_seconds_per_row, times);
  device_.busy(times * non_moe_seconds(), begin);
}

/// The layers that come next are gathered while experts compute: before, they would be in the way of
/// the tokens that the experts wait for.
void device_rank::gather_ahead(fssdp::layer_id layer, int step) {
  for (int n = 1; n <= job_.prefetch_distance; ++n) {
    auto const next = layer.value() + n * step;
    if (next >= 0 && next < layers_->layers()) prefetch(fssdp::layer_id{next});
  }
}
void device_rank::prefetch(fssdp::layer_id layer) {
  solver_seconds_[layer.index()] += on_caller([&] { layers_->prefetch(layer); });
}

template <class Meanwhile, class Compute>
void device_rank::move_tokens(fssdp::layer_id layer, row_block& received, double seconds_per_row,
                              int pass, Meanwhile meanwhile, Compute compute) {
  auto const& plan = *tokens_[layer.index()].plan;
  auto const own = [&](fssdp::token_segment const&) { return rank_; };
  auto const peer = [](fssdp::token_segment const& segment) { return segment.peer; };
  auto const view = [&](row_block& block, std::size_t rows) {
    return block.resize<std::uint8_t>(rows, rows_.row_bytes());
  };
  auto const all = [](byte_rows const& of) { return of.elements(0, of.count); };
  auto const on_host = [&](byte_rows const& of) {
    return memory_.on_host(std::span<std::uint8_t const>{all(of)});
  };
  auto const sent = view(sent_, plan.sent_rows());
  work_ = {layer, shares_of(layer), view(received, plan.received_rows()),
           view(results_, plan.received_rows())};
  auto const options = fssdp::token_options{.scratch = &token_scratch_};
  if (checks_) rows_.write(memory_, all(sent), plan.sends(), own, 2 * pass);
  auto const begin = clock::now();
  {
    auto const moving = range(fssdp::dispatch_track, "dispatch", layer);
    fssdp::dispatch(through_.tokens, plan, sent, work_.received, options);
  }
  times_.tokens += seconds_since(begin);
  meanwhile();
  {
    auto const computing = range(fssdp::compute_track, "experts", layer);
    auto const start = clock::now();
    if (checks_) rows_.check(on_host(work_.received), plan.receives(), peer, 2 * pass);
    compute();
    if (checks_) rows_.write(memory_, all(work_.results), plan.receives(), peer, 2 * pass + 1);
    device_.busy(static_cast<double>(plan.received_rows()) * seconds_per_row, start);
  }
  auto const back = clock::now();
  {
    auto const moving = range(fssdp::dispatch_track, "combine", layer);
    fssdp::combine(through_.tokens, plan, work_.results, sent, options);
  }
  times_.tokens += seconds_since(back);
  if (checks_) rows_.check(on_host(sent), plan.sends(), own, 2 * pass + 1);
}

std::vector<expert_share> device_rank::shares_of(fssdp::layer_id layer) const {
  auto const experts = layers_->experts<float>(layer);
  auto shares = std::vector<expert_share>{};
  auto at = std::vector<std::size_t>(static_cast<std::size_t>(where_.experts));
  for (std::size_t n = 0; n < experts.size(); ++n) {
    at[experts[n].id.index()] = n;
    shares.push_back({.expert = experts[n].id, .parameters = experts[n].tensors[0]});
  }
  for (auto const& group : tokens_[layer.index()].plan->groups()) {
    auto& share = shares[at[group.expert.index()]];
    if (share.rows == 0) share.first = group.first;
    share.rows += group.rows;
  }
  return shares;
}

void device_rank::check_experts(fssdp::layer_id layer) const {
  if (!checks_) return;
  auto const experts = layers_->experts<float>(layer);
  for (std::size_t n = 0; n < experts.size(); ++n)
    require_all("parameters", experts[n].id, samples_of(memory_, experts[n].tensors[0]),
                parameter_of(layer, experts[n].id, steps_));
}

/// Where they are checked, the gradient of an expert is how many rows it has had, so that their sum
/// is its load.
void device_rank::compute_partials(fssdp::layer_id layer) {
  auto const partials = layers_->partials<float>(layer);
  for (std::size_t n = 0; n < work_.experts.size(); ++n) work_.experts[n].partial = partials[0][n];
  device_.weight_gradients(work_);
  if (!checks_) return;
  for (auto const& expert : work_.experts)
    memory_.fill(expert.partial, static_cast<float>(expert.rows));
}

bool device_rank::owners_may_change(int steps) const {
  return job_.which.shards == sim::sharding::by_load && job_.reshard_every > 0 &&
         steps % job_.reshard_every == 0;
}
/// What moves when owners change.
std::vector<fssdp::expert_tensor<std::byte>> device_rank::kept() {
  auto all = fssdp::bytes_of(weights_, moments_);
  if (!between_.has_value() || !owners_may_change(steps_ + 1)) return all;  // no wait for exchanges
  auto const more = between_->kept();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void device_rank::update(std::size_t sample, bool recorded) {
  auto const& stack = layers_->layouts();
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(stack.layers())) {
    auto weights = fssdp::layer_shard(stack, layer, rank_, weights_);
    auto gradients = fssdp::layer_shard(stack, layer, rank_, gradients_);
    auto const& loads = (*job_.of.loads)[sample].layers[layer.index()];
    auto slot = std::size_t{0};
    for (auto const chunk : stack.layer(layer).owned(rank_)) {
      if (checks_)
        require_all("gradients", chunk.expert, samples_of(memory_, gradients[0][slot]),
                    static_cast<float>(loads[chunk.expert.index()]));
      ++slot;
    }
    memory_.add({weights[0].data, slot * weights[0].elements}, 1);
  }
  ++steps_;
  if (!between_.has_value()) return;
  times_.between = between_->finish(recorded);
  if (owners_may_change(steps_)) between_->drain();
}

void device_rank::check_shards() {
  auto const& stack = layers_->layouts();
  for (auto const layer : fssdp::first_n<fssdp::layer_id>(stack.layers())) {
    auto const shard = fssdp::layer_shard(stack, layer, rank_, weights_);
    auto slot = std::size_t{0};
    for (auto const chunk : stack.layer(layer).owned(rank_))
      require_all("owned parameters", chunk.expert, samples_of(memory_, shard[0][slot++]),
                  parameter_of(layer, chunk.expert, steps_));
  }
}

fssdp::token_counts device_rank::counts_of(std::size_t sample, fssdp::layer_id layer) {
  auto const all =
      sim::split_loads((*job_.of.loads)[sample].layers[layer.index()], where_.topology.ranks());
  auto const experts = static_cast<std::size_t>(where_.experts);
  auto const mine = all.values().subspan(rank_.index() * experts, experts);
  device_.synchronize();  // the router has counted
  auto const begin = clock::now();
  auto counts = fssdp::gather_counts(through_.control, mine);
  if (!job_.links_are_real)
    device_.busy(counts_seconds(where_.topology, rank_, mine.size_bytes()), begin);
  return counts;
}

fssdp::token_plan device_rank::plan_of(fssdp::token_counts const& counts,
                                       fssdp::placement const& where) const {
  return fssdp::with_routing(job_.which.tokens, counts, where, where_.topology,
                             [&](auto const& routing) {
                               return fssdp::token_plan{counts, routing, rank_, device_.orders()};
                             });
}

/// Attention and what is dense, of one layer, forward.
double device_rank::non_moe_seconds() const { return where_.non_moe_seconds / 3 / where_.layers; }

}  // namespace step
