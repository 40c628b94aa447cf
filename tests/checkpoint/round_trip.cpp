// SPDX-License-Identifier: Apache-2.0
/// What is saved by some ranks in one layout is what others load in another one.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_checkpoint.hpp"
#include "fssdp/checkpoint/save_checkpoint.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "support/communicator_archetype.hpp"
#include "support/differences.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

using fssdp::bf16;
using fssdp::fp16;
using fssdp::fp8_e4m3;
using fssdp::fp8_e5m2;
using fssdp::thread_communicator;

namespace {

template <class Weight, class Moment, class OtherWeight, class OtherMoment>
void round_trip(std::uint64_t seed) {
  auto draw = support::dice{seed};
  auto const model = support::random_model(draw);
  auto const from = model.random_layout(draw);
  auto const to = model.random_layout(draw);
  auto const folder = support::temporary_folder{};
  CAPTURE(seed, model.experts, from.ranks(), from.slices(), to.ranks(), to.slices());
  fssdp::thread_world{from.ranks()}.run([&](thread_communicator& comm) {
    auto bare = support::exchange_only{comm};
    support::save_numbers<Weight, Moment>(bare, model, from,
                                          {.folder = folder.path(), .step = seed});
  });
  auto const wrong = support::on_all_ranks(to.ranks(), [&](thread_communicator& comm) {
    return support::wrong_when_loaded<OtherWeight, OtherMoment>(comm, model, to, folder.path());
  });
  REQUIRE(support::total(wrong) == 0);
}

}  // namespace

TEST_CASE("a checkpoint is loaded by any number of ranks in any layout, slicing and type") {
  for (auto seed = std::uint64_t{1}; seed <= support::some_instances; ++seed) switch (seed % 7) {
      case 0:
        round_trip<float, float, float, float>(seed);
        break;
      case 1:
        round_trip<float, double, double, bf16>(seed);
        break;
      case 2:
        round_trip<bf16, fp16, float, bf16>(seed);
        break;
      case 3:
        round_trip<double, bf16, fp16, bf16>(seed);
        break;
      case 4:
        round_trip<fp8_e4m3, float, fp8_e4m3, fp8_e5m2>(seed);
        break;
      case 5:
        round_trip<fp8_e5m2, bf16, fp8_e5m2, fp8_e4m3>(seed);
        break;
      default:
        round_trip<fp16, float, fp16, double>(seed);
    }
}

TEST_CASE("several parts, layers, a state and owners are loaded as they were saved") {
  auto const folder = support::temporary_folder{};
  auto const layers = fssdp::layer_stack{
      {fssdp::table_layout{{.ranks = 2}, {fssdp::rank_id{1}, fssdp::rank_id{0}}},
       fssdp::table_layout{{.ranks = 2}, {fssdp::rank_id{1}, fssdp::rank_id{1}}}}};
  auto const dense = fssdp::block_layout{{.experts = 1, .ranks = 2, .slices = 2}};
  auto const state = std::string{"{\"text\": \"any \\\" text \xc3\xa4\"}\n"};
  fssdp::thread_world{2}.run([&](thread_communicator& comm) {
    auto weights = fssdp::make_shard<float>(layers, comm.rank(), 6);
    auto flat = fssdp::make_shard<double>(dense, comm.rank(), 5);
    for (auto& value : flat.tensors()[0][0]) value = comm.rank().value() + 1;
    auto slot = std::size_t{0};
    for (auto const chunk : layers.owned(comm.rank()))
      for (auto& value : weights.tensors()[0][slot++])
        value = static_cast<float>(chunk.expert.value());
    auto parts = std::vector<fssdp::saved_part>{};
    parts
        .emplace_back("experts", layers, comm.rank(), std::vector{fssdp::whole_tensor{"w", {2, 3}}})
        .add("weight", std::as_const(weights));
    parts
        .emplace_back("dense", dense, comm.rank(), std::vector{fssdp::whole_tensor{"all", {5}}},
                      fssdp::tensor_pattern{"dense.{tensor}.{group}"})
        .add("weight", flat);
    auto const made =
        fssdp::save_checkpoint(comm, parts, {.folder = folder.path(), .step = 7, .state = state});
    if (made != folder.path() / "step_00000007") throw std::runtime_error{made.string()};
  });
  auto reader = fssdp::checkpoint_reader{folder.path()};
  REQUIRE(reader.index().step == 7);
  REQUIRE(reader.index().state == state);
  REQUIRE(reader.index().layout("experts") ==
          fssdp::table_layout{
              {.ranks = 2},
              {fssdp::rank_id{1}, fssdp::rank_id{0}, fssdp::rank_id{1}, fssdp::rank_id{1}}});
  REQUIRE_THROWS_WITH(reader.index().part("sparse"),
                      mentions("no part 'sparse'; expected one of 'experts', 'dense'"));
  auto const file = fssdp::safetensors_file{reader.folder() / "rank_1_of_2.1.safetensors"};
  for (auto const* const name :
       {"layers.0.experts.0.w.weight", "layers.1.experts.1.w.weight", "dense.all.weight[3:5]"})
    REQUIRE(file.header().find(name).has_value());

  auto const whole = fssdp::block_layout{{.experts = 1, .ranks = 1}};
  auto all = fssdp::make_shard<double>(whole, fssdp::rank_id{0}, 5);
  auto part = fssdp::loaded_part{"dense", whole, fssdp::rank_id{0}, {{"all", {5}}}};
  part.add("weight", all);
  reader.read(part);
  auto const got = all.tensors()[0][0];
  REQUIRE(std::vector(got.begin(), got.end()) == std::vector<double>{1, 1, 1, 2, 2});
}

TEST_CASE("a part that the checkpoint does not have is refused") {
  auto const folder = support::temporary_folder{};
  auto const model = support::stored_model{4, {{"w", {2, 3}}}};
  auto const layout = support::reversed_layout{1, std::vector(4, fssdp::rank_id{0}), 1};
  fssdp::thread_world{1}.run([&](thread_communicator& comm) {
    support::save_numbers<float, float>(comm, model, layout, {.folder = folder.path()});
  });
  auto reader = fssdp::checkpoint_reader{folder.path()};
  auto const refusal = [&](support::stored_model const& other, char const* part_name,
                           char const* group) -> std::string {
    auto const owners = std::vector(static_cast<std::size_t>(other.experts), fssdp::rank_id{0});
    auto const mine = support::reversed_layout{1, owners, 1};
    auto buffer = fssdp::make_shard<float>(mine, fssdp::rank_id{0}, other.elements());
    auto part = fssdp::loaded_part{part_name, mine, fssdp::rank_id{0}, other.tensors};
    part.add(group, buffer);
    try {
      reader.read(part);
    } catch (fssdp::argument_error const& error) {
      return error.what();
    }
    return "accepted";
  };
  REQUIRE(refusal(model, "experts", "weight") == "accepted");
  REQUIRE_THAT(refusal(model, "dense", "weight"), mentions("no part 'dense'"));
  REQUIRE_THAT(refusal(model, "experts", "moment2"), mentions("the checkpoint has no moment2"));
  REQUIRE_THAT(refusal({5, model.tensors}, "experts", "weight"), mentions("5 experts"));
  REQUIRE_THAT(refusal({4, {{"w", {3, 2}}}}, "experts", "weight"), mentions("shapes"));
  REQUIRE_THAT(refusal({4, {{"v", {2, 3}}}}, "experts", "weight"), mentions("names"));
}

TEST_CASE("memory that does not fit a part is refused") {
  auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};
  auto part = fssdp::saved_part{"experts", layout, fssdp::rank_id{1}, {{"w", {2, 3}}}};
  auto const good = fssdp::make_shard<float>(layout, fssdp::rank_id{1}, 6);
  auto const brief = fssdp::make_shard<float>(layout, fssdp::rank_id{1}, 5);
  auto const few = fssdp::expert_buffer<float>{1, std::vector<std::size_t>{6}};
  auto const two = fssdp::expert_buffer<float>{2, std::vector<std::size_t>{6, 6}};
  part.add("weight", good);
  REQUIRE_THROWS_WITH(part.add("weight", good), mentions("has weight already"));
  REQUIRE_THROWS_WITH(part.add("m", brief), mentions("[2, 5]; expected [2, 6]"));
  REQUIRE_THROWS_WITH(part.add("m", few), mentions("[1, 6]; expected [2, 6]"));
  REQUIRE_THROWS_WITH(part.add("m", two), mentions("2 tensors; expected 1"));
  auto const make = [&](std::vector<std::uint64_t> shape, int rank) {
    return fssdp::saved_part{"experts", layout, fssdp::rank_id{rank}, {{"w", std::move(shape)}}};
  };
  REQUIRE_THROWS_WITH(make({std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}, 0),
                      mentions("too many elements"));
  REQUIRE_THROWS_WITH(make({2}, 2), mentions("rank 2; expected 0 to 1"));
}

TEST_CASE("names come from a pattern") {
  auto const place = fssdp::tensor_place{fssdp::layer_id{3}, fssdp::expert_id{17}, "w1", "moment2"};
  REQUIRE(fssdp::tensor_pattern{}(place) == "layers.3.experts.17.w1.moment2");
  REQUIRE(fssdp::tensor_pattern{"{expert}{layer}}"}(place) == "173}");
  REQUIRE(fssdp::tensor_pattern{""}(place).empty());
  REQUIRE_THROWS_AS(fssdp::tensor_pattern{"{rank}"}(place), fssdp::argument_error);
  REQUIRE_THROWS_WITH(fssdp::tensor_pattern{"a.{expert"}(place), mentions("the gap '{expert'"));
}
