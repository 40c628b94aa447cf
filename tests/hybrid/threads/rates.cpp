// SPDX-License-Identifier: Apache-2.0
/// Compressors that are chosen tensor by tensor, by what each leaves out.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/all.hpp"
#include "fssdp/comm/counting.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/hybrid/equal_shards.hpp"
#include "fssdp/hybrid/gradient_exchange.hpp"
#include "fssdp/hybrid/low_rank_compressor.hpp"
#include "support/two_levels.hpp"

using fssdp::gradient_exchange;
using fssdp::layer_id;
using fssdp::low_rank_compressor;
using fssdp::rank_id;

namespace {

constexpr auto four_experts = 4;

/// A matrix of rank one in the first layer, one without structure in the second.
void write_gradients(fssdp::layer_id layer, int group, std::uint64_t step,
                     fssdp::expert_buffer<float>& into) {
  for (std::size_t slot = 0; slot < into.slots(); ++slot) {
    auto const values = into.tensors()[0][slot];
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const expert = static_cast<int>(slot);
      values[i] = layer == layer_id{0}
                      ? static_cast<float>((i / 20 + 1) * (i % 20 + slot + 1)) / 100
                      : support::gradient_at(group, step, 1, expert, 0, i);
    }
  }
}

/// What the ranks of two groups have seen.
struct rated_bytes {
  std::vector<std::size_t> choices;
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
  std::uint64_t promised_after = 0;
};

}  // namespace

TEST_CASE("L-GreCo: ranks move to where they are needed, by fewer bytes, alike on all ranks") {
  auto const groups = fssdp::hybrid_groups{{.groups = 2, .ranks_per_group = 2}};
  auto const layouts = support::owners_by_chance(four_experts, 2, 5);
  auto world = fssdp::thread_world{groups.ranks()};
  auto const all = support::on_groups(world, groups, [&](auto&, auto& inside, auto& between) {
    auto counted = fssdp::counting{between};
    auto exchange =
        gradient_exchange{counted,
                          layouts,
                          inside.rank(),
                          {{24, 20}},
                          {.compressor = low_rank_compressor{.rank = 4, .least_saving = 1},
                           .alternatives = {low_rank_compressor{.rank = 1, .least_saving = 1},
                                            low_rank_compressor{.rank = 8, .least_saving = 1}}}};
    auto gradients = fssdp::expert_buffer<float>{0, std::vector<std::size_t>{480}};
    auto const step = [&](std::uint64_t n) {
      auto const before = counted.counts().bytes_sent;
      for (auto const layer : fssdp::first_n<layer_id>(2)) {
        gradients.resize(layouts.layer(layer).owned(inside.rank()).size());
        write_gradients(layer, between.rank().value(), n, gradients);
        exchange.average(layer, gradients);
        exchange.synchronize();
      }
      exchange.advance();
      return counted.counts().bytes_sent - before;
    };
    auto result = rated_bytes{};
    exchange.measure();
    result.bytes_before = step(0);
    exchange.choose_compressors(inside, {.tolerance = 1.01});  // errors are rounded up
    for (auto const layer : fssdp::first_n<layer_id>(2))
      result.choices.push_back(exchange.compressor_of(layer, 0));
    for (std::uint64_t n = 1; n < 4; ++n) result.bytes_after = step(n);
    for (auto const layer : fssdp::first_n<layer_id>(2))
      result.promised_after += exchange.bytes_sent(layer);
    fssdp::require_equal_bits(between, gradients);
    return result;
  });
  auto before = std::uint64_t{0};
  auto after = std::uint64_t{0};
  for (auto const& one : all) {
    CHECK(one.choices == std::vector<std::size_t>{1, 0});  // rank 1 is enough for a product
    CHECK(one.bytes_after == one.promised_after);
    before += one.bytes_before;
    after += one.bytes_after;
  }
  CHECK(after < before);
}

TEST_CASE("choosing compressors before measuring is an error") {
  auto world = fssdp::thread_world{1};
  auto const texts = support::on_all_ranks(world, [](fssdp::thread_communicator& comm) {
    auto exchange = gradient_exchange{comm, support::owners_by_chance(four_experts, 1, 1),
                                      rank_id{0}, support::two_shapes()};
    try {
      exchange.choose_compressors(comm);
    } catch (fssdp::argument_error const& error) {
      return std::string{error.what()};
    }
    return std::string{};
  });
  CHECK(texts[0] ==
        "choose_compressors: nothing has been measured; expected `measure` before the averages of "
        "a step");
}

TEST_CASE("the choice before a checkpoint is restored, and an unknown choice is refused") {
  auto world = fssdp::thread_world{1};
  auto const texts = support::on_all_ranks(world, [](fssdp::thread_communicator& comm) {
    auto const full = fssdp::any_compressor{};
    auto const low = fssdp::any_compressor{low_rank_compressor{.rank = 1, .least_saving = 1}};
    auto exchange = gradient_exchange{comm,
                                      support::owners_by_chance(four_experts, 2, 1),
                                      rank_id{0},
                                      {{24, 20}},
                                      {.compressor = full, .alternatives = {low}}};
    exchange.take_compressor(layer_id{1}, 0, 1);
    auto list = std::vector<std::string>{std::to_string(exchange.compressor_of(layer_id{0}, 0)) +
                                         std::to_string(exchange.compressor_of(layer_id{1}, 0))};
    auto const refused = [&](int layer, std::size_t tensor, std::size_t index) {
      try {
        exchange.take_compressor(layer_id{layer}, tensor, index);
      } catch (fssdp::argument_error const& error) {
        list.emplace_back(error.what());
      }
    };
    refused(2, 0, 1);
    refused(0, 1, 1);
    refused(0, 0, 2);
    return list;
  });
  CHECK(texts[0] == std::vector<std::string>{
                        "01", "gradient_exchange: layer 2; expected 0 to 1",
                        "take_compressor: compressor 1 for tensor 1; expected one of 2, and of 1",
                        "take_compressor: compressor 2 for tensor 0; expected one of 2, and of 1"});
}
