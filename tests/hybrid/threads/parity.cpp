// SPDX-License-Identifier: Apache-2.0
/// Methods that are equivalent: each is compared with a known one.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "fssdp/hybrid/parameter_exchange.hpp"
#include "fssdp/hybrid/synchronization_schedule.hpp"
#include "fssdp/hybrid/threshold_compressor.hpp"
#include "fssdp/hybrid/top_dct_compressor.hpp"
#include "support/two_levels.hpp"

using fssdp::gradient_exchange_options;
using fssdp::layer_id;
using fssdp::parameter_exchange_options;
using fssdp::rank_id;
using floats = std::vector<float>;

namespace {

constexpr auto rows = std::size_t{12};
constexpr auto columns = std::size_t{10};
constexpr auto size = rows * columns;
constexpr auto only = layer_id{0};

/// The gradient of a group at some weights; it is not linear in them.
[[nodiscard]] float gradient_of(int group, std::uint64_t step, std::size_t i, float weight) {
  return weight / (1 + std::abs(weight)) - support::gradient_at(group, step, 0, 0, 0, i) / 8;
}

/// Two groups of one rank, which owns one expert; the weights that group 0 ends with.
/// @param train(between, weights) all steps of a group
[[nodiscard]] floats trained(
    std::function<void(fssdp::thread_communicator&, fssdp::expert_buffer<float>&)> const& train) {
  auto world = fssdp::thread_world{2};
  auto const all = support::on_all_ranks(world, [&](fssdp::thread_communicator& between) {
    auto weights = fssdp::expert_buffer<float>{1, std::vector{size}};
    auto const values = weights.tensors()[0][0];
    for (std::size_t i = 0; i < size; ++i) values[i] = support::gradient_at(9, 0, 0, 0, 0, i);
    train(between, weights);
    return floats{values.begin(), values.end()};
  });
  CHECK(all[0] == all[1]);
  return all[0];
}
[[nodiscard]] fssdp::layer_stack<fssdp::table_layout> one_expert() {
  return fssdp::layer_stack<fssdp::table_layout>{{{{.ranks = 1}, {rank_id{0}}}}};
}

/// Plain SGD, or with momentum, on gradients that are averaged every step.
[[nodiscard]] floats by_gradients(gradient_exchange_options const& options, int steps,
                                  float momentum = 0) {
  return trained([&](auto& between, auto& weights) {
    auto exchange =
        fssdp::gradient_exchange{between, one_expert(), rank_id{0}, {{rows, columns}}, options};
    auto gradients = fssdp::expert_buffer<float>{1, std::vector{size}};
    auto velocity = floats(size);
    for (int step = 0; step < steps; ++step) {
      auto const w = weights.tensors()[0][0];
      auto const g = gradients.tensors()[0][0];
      for (std::size_t i = 0; i < size; ++i)
        g[i] = gradient_of(between.rank().value(), static_cast<std::uint64_t>(step), i, w[i]);
      exchange.average(only, gradients, 1);
      exchange.advance();
      for (std::size_t i = 0; i < size; ++i) {
        velocity[i] = momentum * velocity[i] + g[i];
        w[i] -= 0.1F * velocity[i];
      }
    }
  });
}
/// The same by each group for itself, which come together as a schedule says.
template <class Schedule>
[[nodiscard]] floats by_rounds(parameter_exchange_options const& options, int steps,
                               Schedule const& schedule, float momentum = 0) {
  return trained([&](auto& between, auto& weights) {
    auto exchange =
        fssdp::parameter_exchange{between, one_expert(), rank_id{0}, {{rows, columns}}, options};
    exchange.begin(only, weights);
    auto velocity = floats(size);
    auto left = std::uint64_t{0};
    for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(steps); ++step) {
      if (left == 0)
        left = schedule(
            {.step = step, .steps = static_cast<std::uint64_t>(steps), .learning_rate = 0.1});
      auto const w = weights.tensors()[0][0];
      for (std::size_t i = 0; i < size; ++i) {
        velocity[i] = momentum * velocity[i] + gradient_of(between.rank().value(), step, i, w[i]);
        w[i] -= 0.1F * velocity[i];
      }
      if (--left != 0) continue;
      exchange.synchronize(only, weights, step + 1);
      exchange.advance();
    }
  });
}
[[nodiscard]] double furthest(floats const& a, floats const& b) {
  auto most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

}  // namespace

TEST_CASE("before its start an exchange averages in full") {
  auto const low = fssdp::any_compressor{fssdp::low_rank_compressor{.rank = 1, .least_saving = 1}};
  auto const full = by_gradients({}, 8);
  CHECK(by_gradients({.compressor = low, .start = 8}, 8) == full);
  CHECK(by_gradients({.compressor = low, .start = 9}, 8) == full);
  auto const begun = by_gradients({.compressor = low, .start = 7}, 8);
  CHECK(begun != full);
  CHECK(begun != by_gradients({.compressor = low}, 8));
  CHECK(furthest(begun, full) < furthest(by_gradients({.compressor = low}, 8), full));
}

TEST_CASE("an exchange sends the bytes of full gradients until its start is over") {
  auto const low = fssdp::any_compressor{fssdp::low_rank_compressor{.rank = 1, .least_saving = 1}};
  auto world = fssdp::thread_world{2};
  auto const bytes = support::on_all_ranks(world, [&](fssdp::thread_communicator& inner) {
    auto between = fssdp::counting{inner};
    auto exchange = fssdp::gradient_exchange{
        between, one_expert(), rank_id{0}, {{rows, columns}}, {.compressor = low, .start = 2}};
    auto gradients = fssdp::expert_buffer<float>{1, std::vector{size}};
    auto sent = std::vector<std::uint64_t>{};
    for (int step = 0; step < 3; ++step) {
      auto const before = between.counts().bytes_sent;
      sent.push_back(exchange.bytes_sent(only));
      exchange.average(only, gradients, 1);
      exchange.advance();
      sent.push_back(between.counts().bytes_sent - before);
    }
    return sent;
  });
  auto const& of = bytes[0];
  CHECK(of == std::vector{of[1], of[1], of[1], of[1], of[5], of[5]});
  CHECK(of[5] < of[1]);
}

TEST_CASE("local SGD with a round in every step equals full exchange, with momentum, too") {
  for (auto const momentum : {0.0F, 0.9F}) {
    auto const full = by_gradients({}, 12, momentum);
    CHECK(furthest(by_rounds({}, 12, fssdp::every{}, momentum), full) < 1e-5);
    CHECK(furthest(by_rounds({}, 12, fssdp::every{4}, momentum), full) > 1e-3);
  }
}

TEST_CASE("DiLoCo of rate 1 without momentum is local SGD, and QSR without alpha is every H") {
  auto const rounds = by_rounds({}, 12, fssdp::every{3});
  CHECK(by_rounds({.outer = {.rate = 1, .momentum = 0}}, 12, fssdp::every{3}) == rounds);
  CHECK(by_rounds({}, 12, fssdp::quadratic{.least = 3}) == rounds);
  CHECK(by_rounds({.outer = fssdp::diloco}, 12, fssdp::every{3}) != rounds);
}

TEST_CASE("Streaming DiLoCo of one fragment without delay and mix is DiLoCo") {
  auto const options = parameter_exchange_options{.outer = fssdp::diloco};
  auto const streamed = trained([&](auto& between, auto& weights) {
    auto stream = fssdp::host_stream{};
    auto with_stream = options;
    with_stream.stream = &stream;
    auto exchange = fssdp::parameter_exchange{
        between, one_expert(), rank_id{0}, {{rows, columns}}, with_stream};
    exchange.begin(only, weights);
    auto const schedule = fssdp::staggered{.period = 3};
    for (std::uint64_t step = 0; step < 12; ++step) {
      auto const w = weights.tensors()[0][0];
      for (std::size_t i = 0; i < size; ++i)
        w[i] -= 0.1F * gradient_of(between.rank().value(), step, i, w[i]);
      auto const turn = schedule(step + 1, 12);
      if (turn.sent >= 0) exchange.start(layer_id{turn.sent}, weights, step + 1);
      if (turn.applied < 0) continue;
      exchange.finish(layer_id{turn.applied}, weights);
      exchange.advance();
    }
  });
  CHECK(streamed == by_rounds(options, 12, fssdp::every{3}));
}

TEST_CASE("compressors that leave nothing out are full exchange") {
  auto const full = by_gradients({}, 8);
  CHECK(furthest(
            by_gradients(
                {.compressor = fssdp::low_rank_compressor{.rank = columns, .least_saving = 0}}, 8),
            full) < 1e-5);
  CHECK(by_gradients({.compressor = fssdp::threshold_compressor{.dropped = 0}}, 8) == full);
  CHECK(furthest(
            by_gradients({.compressor = fssdp::top_dct_compressor{{.columns = 20, .kept = 20}}}, 8),
            full) < 1e-5);
}

TEST_CASE("DeMo that sends all coefficients is the sign of the mean gradient") {
  auto const kept_all = fssdp::top_dct_compressor{{.columns = 20, .kept = 20}};
  auto signs = gradient_exchange_options{.memory = fssdp::gradient_memory::none, .sign = true};
  CHECK(furthest(by_gradients(fssdp::demo(kept_all), 6), by_gradients(signs, 6)) < 1e-6);
  CHECK(
      furthest(by_gradients(fssdp::demo(fssdp::top_dct_compressor{{.columns = 20, .kept = 2}}), 6),
               by_gradients(signs, 6)) > 0.01);
}
