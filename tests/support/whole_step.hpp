// SPDX-License-Identifier: Apache-2.0
/// A whole step of a training, with all that the library does in one, and a fault anywhere in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fssdp/all.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/all_reduce.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/faulty.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "support/communicator_archetype.hpp"
#include "support/toy_model.hpp"

namespace support {

/// Where a rank can break down. It reaches each place many times, counted from 1.
enum class fault_place {
  tokens,     ///< an exchange of counts or tokens
  experts,    ///< an exchange of parameters or gradients, on the communicator
  hand_over,  ///< work is given to the communicator
  task,       ///< it runs there
  callback,   ///< the caller's own: solvers, forward, backward, optimizer
};
inline constexpr auto fault_places = 5;

/// The moments of one visit to a place: of those that are one and the same, the first.
[[nodiscard]] inline std::vector<fssdp::fault_moment> moments_at(fault_place place) {
  using enum fssdp::fault_moment;
  if (place == fault_place::task) return {before_exchange, behind_exchange};
  if (place == fault_place::tokens || place == fault_place::experts)
    return {before_exchange, in_post, behind_post, in_visit, behind_exchange};
  return {before_exchange};
}

/// How often a rank reaches each place: [place].
using place_visits = std::array<int, fault_places>;

/// What goes wrong on a rank, and where.
struct placed_fault {
  fault_place place = fault_place::tokens;
  fssdp::fault what = {};

  [[nodiscard]] fssdp::fault at(fault_place here) const {
    return here == place ? what : fssdp::fault{};
  }
};

/// How a step is done: these differ in what is enqueued.
struct step_kind {
  enum class wire {
    lends,    ///< in a stream of the communicator's, peers' memory is read in place
    copies,   ///< likewise, by exchanges alone
    codes,    ///< likewise, coded
    at_once,  ///< in the caller
  };
  wire over = wire::lends;
  int ranks = 4;
  int nodes = 2;
  int slices = 1;
  fssdp::retention replicas = fssdp::retention::rematerialize;
  bool in_pieces = true;  ///< that are passed on by relays

  [[nodiscard]] toy_shape shape() const {
    return {.layers = 2, .experts = 12, .ranks = ranks, .slices = slices, .elements = {60, 7}};
  }
  [[nodiscard]] fssdp::materializer_options options() const {
    auto options =
        fssdp::materializer_options{.replicas = replicas,
                                    .replica_slots = 40,
                                    .partial_slots = 16,
                                    .seconds_per_row = 1,
                                    .reshard_every = 1,
                                    .topology = fssdp::topology{{.nodes = nodes, .ranks = ranks}}};
    if (in_pieces)
      options.schedule = fssdp::schedule_options{.piece_bytes = 128, .least_bytes = 64};
    return options;
  }
};

/// A place of the caller's where it can break down, and is counted: exchanges with nobody.
class breaking_place {
 public:
  breaking_place(fssdp::rank_id rank, fssdp::fault const& given)
      : nobody_{rank}, breaks_{nobody_, given} {}

  /// Breaks down before or after work().
  template <class Work>
  void pass(Work work) {
    counted_.exchange([&](auto&) { work(); });
  }
  void pass() {
    pass([] {});
  }
  [[nodiscard]] int visits() const { return static_cast<int>(counted_.counts().exchanges); }

 private:
  communicator_archetype nobody_;
  fssdp::faulty<communicator_archetype> breaks_;
  fssdp::counting<fssdp::faulty<communicator_archetype>> counted_{breaks_};
};

/// A communicator that breaks down where work is given to it and where that runs.
template <fssdp::communicator Streamed>
class breaking_communicator {
 public:
  using stream_type = fssdp::stream_type_of<Streamed>;
  using memory_space = fssdp::memory_space_of<Streamed>;

  breaking_communicator(Streamed& streamed, breaking_place& hand_over, breaking_place& task)
      : comm_{streamed}, hand_over_{hand_over}, task_{task} {}

  [[nodiscard]] fssdp::rank_id rank() const { return comm_.rank(); }
  [[nodiscard]] int size() const { return comm_.size(); }

  template <class Post>
  void exchange(Post&& post) {
    comm_.exchange(post);
  }
  template <class Work>
  void submit(Work work) {
    hand_over_.pass();
    fssdp::submit(comm_, [task = &task_, work = std::move(work)](auto& comm) mutable {
      task->pass([&] { work(comm); });
    });
  }
  void synchronize() { fssdp::synchronize(comm_); }

 private:
  Streamed& comm_;
  breaking_place& hand_over_;
  breaking_place& task_;
};

namespace step {

/// Tokens of a rank for every expert: not quite what was expected.
[[nodiscard]] inline fssdp::expert_loads tokens_of(toy_model const& model, fssdp::layer_id layer,
                                                   fssdp::rank_id rank) {
  auto tokens = model.loads(layer, 4);
  for (std::size_t e = 0; e < tokens.size(); ++e) tokens[e] = (tokens[e] + rank.index() + e) % 9;
  return tokens;
}

/// Forward, backward, optimizer, and experts that go to other owners.
template <class Tokens, class Streamed>
void train(Tokens& tokens, Streamed& streamed, toy_model& model, step_kind const& kind,
           fssdp::link_coding const& coding, breaking_place& callback) {
  auto const solve = [&](std::span<std::uint64_t const> loads, fssdp::table_layout const& layout) {
    callback.pass();
    return three_replicas()(loads, layout);
  };
  auto const owners = [&](std::span<fssdp::table_layout const> now,
                          std::span<fssdp::expert_loads const> loads, fssdp::topology const& topo) {
    callback.pass();
    return one_rank_on{}(now, loads, topo);
  };
  auto layers = fssdp::materializer{
      streamed,
      fssdp::expert_shards{model.layouts(), model.shape().elements, model.weights(),
                           model.gradients()},
      {.placement = solve, .sharding = owners, .gather_coding = coding, .reduce_coding = coding},
      kind.options()};
  auto const all = fssdp::first_n<fssdp::layer_id>(layers.layers());
  for (auto const l : all) layers.predictor(l).push(model.loads(l, 0));

  auto routes = std::vector<fssdp::token_plan>{};
  auto const rows = [](std::vector<float>& of) {
    return fssdp::rows_view<float>{of.data(), of.size() / 2, 2};
  };
  auto const there_and_back = [&](fssdp::token_plan const& route, auto compute) {
    auto here = std::vector<float>(2 * route.sent_rows(), 1);
    auto there = std::vector<float>(2 * route.received_rows());
    fssdp::dispatch(tokens, route, rows(here), rows(there));
    compute();
    fssdp::combine(tokens, route, rows(there), rows(here));
  };
  for (auto const l : all) {
    layers.acquire(l);
    auto const counts = fssdp::gather_counts(tokens, tokens_of(model, l, streamed.rank()));
    (void)layers.calibrate(l, counts);
    auto const& route = routes.emplace_back(counts, layers.where(l), streamed.rank());
    there_and_back(route, [&] { callback.pass(); });
    layers.record(l, counts.loads(), route.device_loads());
    layers.release(l);
  }
  for (int back = layers.layers(); back-- != 0;) {
    auto const l = fssdp::layer_id{back};
    layers.acquire(l, 0, fssdp::training_pass::backward);
    auto const experts = layers.experts<float>(l);
    there_and_back(routes[l.index()], [&] {
      callback.pass();
      model.backward(experts, layers.partials<float>(l), 0);
    });
    layers.release(l);
    layers.reduce(l);
  }
  auto const update = [&](auto const&) { callback.pass([&] { model.update(); }); };
  layers.step(update, fssdp::bytes_of(model.weights()));
}

}  // namespace step

/// What a rank does, with a fault; then a sum that needs everybody, so that nobody gets away.
/// @return how often it has reached each place
template <class Comm>
place_visits take_whole_step(Comm& comm, step_kind const& kind, placed_fault const& given) {
  auto const me = comm.rank();
  auto duplicate = comm.duplicate();
  auto together = comm.duplicate();
  auto breaks_in_tokens = fssdp::faulty{comm, given.at(fault_place::tokens)};
  auto tokens = fssdp::counting{breaks_in_tokens};
  auto breaks_in_experts = fssdp::faulty{duplicate, given.at(fault_place::experts)};
  auto experts = fssdp::counting{breaks_in_experts};
  auto hand_over = breaking_place{me, given.at(fault_place::hand_over)};
  auto task = breaking_place{me, given.at(fault_place::task)};
  auto callback = breaking_place{me, given.at(fault_place::callback)};

  auto model = toy_model{kind.shape(), me};
  auto const step_over = [&](auto& moved_over, overlap how, fssdp::link_coding const& coding) {
    run_on_stream(moved_over, how, [&](auto& streamed) {
      auto breaks = breaking_communicator{streamed, hand_over, task};
      step::train(tokens, breaks, model, kind, coding, callback);
    });
  };
  switch (kind.over) {
    case step_kind::wire::lends:
      step_over(experts, overlap::on, fssdp::uncoded{});
      break;
    case step_kind::wire::copies: {
      auto bare = exchange_only{experts};
      step_over(bare, overlap::on, fssdp::uncoded{});
      break;
    }
    case step_kind::wire::codes: {
      step_over(experts, overlap::on,
                fssdp::coded_links{fssdp::int8_codec{}, fssdp::link_class::all});
      break;
    }
    case step_kind::wire::at_once:
      step_over(experts, overlap::off, fssdp::uncoded{});
  }
  (void)fssdp::all_reduce(together, std::vector{1});
  auto const visits = [](auto const& of) { return static_cast<int>(of.counts().exchanges); };
  return {visits(tokens), visits(experts), hand_over.visits(), task.visits(), callback.visits()};
}

}  // namespace support
