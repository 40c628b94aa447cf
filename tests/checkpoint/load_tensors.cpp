// SPDX-License-Identifier: Apache-2.0
/// Experts of a published model, by their tensors' names.
#include "fssdp/checkpoint/load_tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "support/foreign_file.hpp"
#include "support/on_all_ranks.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

using fssdp::bf16;
using fssdp::rank_id;
using fssdp::thread_communicator;

namespace {

[[nodiscard]] float number_at(int layer, int expert, int tensor, std::size_t i) {
  return static_cast<float>(layer * 64 + expert * 16 + tensor * 8) + static_cast<float>(i) * 0.5F;
}
template <class T>
[[nodiscard]] std::vector<T> numbers_of(int layer, int expert, int tensor, std::size_t count) {
  auto values = std::vector<T>{};
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(static_cast<T>(number_at(layer, expert, tensor, i)));
  return values;
}

constexpr auto published = "model.layers.{layer}.moe.experts.{expert}.{tensor}.weight";

/// Two layers of three experts in two files; w2 of all experts of a layer is one tensor.
void publish(std::filesystem::path const& folder) {
  for (int layer = 0; layer < 2; ++layer) {
    auto file = support::foreign_file{};
    auto const prefix = "model.layers." + std::to_string(layer) + ".";
    file.add(prefix + "attention", "F32", "[3]", std::vector<float>{1, 2, 3});
    auto stacked = std::vector<float>{};
    for (int expert = 0; expert < 3; ++expert) {
      file.add(prefix + "moe.experts." + std::to_string(expert) + ".w1.weight", "BF16", "[3, 5]",
               numbers_of<bf16>(layer, expert, 0, 15));
      for (auto const value : numbers_of<float>(layer, expert, 1, 4)) stacked.push_back(value);
    }
    file.add(prefix + "moe.all.w2", "F32", "[3, 2, 2]", stacked);
    file.write(folder / ("model-0000" + std::to_string(layer + 1) + "-of-00002.safetensors"));
  }
}
[[nodiscard]] std::string name_in_file(fssdp::tensor_place const& place) {
  if (place.tensor == "w1") return fssdp::tensor_pattern{published}(place);
  return fssdp::tensor_pattern{"model.layers.{layer}.moe.all.{tensor}"}(place);
}

}  // namespace

TEST_CASE("experts of a published model are loaded by name, into any layout, slicing and type") {
  auto const folder = support::temporary_folder{};
  publish(folder.path());
  for (int const slices : {1, 3}) {
    auto const layers = fssdp::layer_stack{
        std::vector(2, fssdp::cyclic_layout{{.experts = 3, .ranks = 4, .slices = slices}})};
    auto const wrong = support::on_all_ranks(4, [&](thread_communicator& comm) {
      auto const sizes = std::vector<std::size_t>{15, 4};
      auto weights = fssdp::make_shard<double>(layers, comm.rank(), sizes);
      auto part =
          fssdp::loaded_part{"experts", layers, comm.rank(), {{"w1", {3, 5}}, {"w2", {2, 2}}}};
      part.add("weight", weights);
      fssdp::load_tensors(comm, folder.path(), part, name_in_file);
      auto count = 0;
      auto slot = std::size_t{0};
      for (auto const chunk : layers.owned(comm.rank())) {
        for (int k = 0; k < 2; ++k) {
          auto const at = static_cast<std::size_t>(k);
          auto const extent = fssdp::slice_extent{sizes[at], chunk.slice, slices};
          for (std::size_t i = 0; i < extent.elements; ++i)
            count += weights.tensors()[at][slot][i] ==
                             static_cast<double>(number_at(layers.layer_of(chunk).value(),
                                                           layers.in_layer(chunk).expert.value(), k,
                                                           extent.first + i))
                         ? 0
                         : 1;
        }
        ++slot;
      }
      return count;
    });
    REQUIRE(wrong == std::vector(4, 0));
  }
}

TEST_CASE("a published model that does not fit is refused with the file and the cause") {
  auto const folder = support::temporary_folder{};
  publish(folder.path());
  auto const layers =
      fssdp::layer_stack{std::vector(2, fssdp::block_layout{{.experts = 3, .ranks = 1}})};
  auto const refusal = [&](std::vector<fssdp::whole_tensor> const& tensors, auto const& naming) {
    auto sizes = std::vector<std::size_t>{};
    for (auto const& tensor : tensors) sizes.push_back(tensor.elements());
    auto weights = fssdp::make_shard<float>(layers, rank_id{0}, sizes);
    auto part = fssdp::loaded_part{"experts", layers, rank_id{0}, tensors};
    part.add("weight", weights);
    try {
      fssdp::read_tensors(fssdp::safetensors_set{folder.path()}, part, naming);
    } catch (fssdp::file_error const& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  auto const naming = fssdp::tensor_pattern{published};
  REQUIRE(refusal({{"w1", {3, 5}}}, naming) == "accepted");
  REQUIRE_THAT(refusal({{"w1", {5, 3}}}, naming),
               mentions("model-00001-of-00002.safetensors: tensor 'model.layers.0.moe.experts.0") &&
                   mentions("has the shape [3,5]; expected [5,3] or [3,5,3]"));
  REQUIRE_THAT(refusal({{"w3", {3, 5}}}, naming),
               mentions(folder.path().string() + ": has no tensor 'model.layers.0"));
  auto const other = fssdp::tensor_pattern{"model.layers.{layer}.moe.experts.9.{tensor}.weight"};
  REQUIRE_THAT(refusal({{"w1", {3, 5}}}, other), mentions("has no tensor"));

  auto integers = support::foreign_file{};
  integers.add("numbers", "I32", "[3]", std::vector<std::int32_t>{1, 2, 3});
  integers.add("scaled", "F8_E4M3", "[3]", std::vector<std::int8_t>{1, 2, 3});
  integers.write(folder.path() / "more.safetensors");
  REQUIRE_THAT(refusal({{"w", {3}}}, fssdp::tensor_pattern{"numbers"}),
               mentions("more.safetensors: tensor 'numbers' is of type I32; expected F64"));
  REQUIRE_THAT(refusal({{"w", {3}}}, fssdp::tensor_pattern{"scaled"}),
               mentions("tensor 'scaled' is of type F8_E4M3; expected F64, F32, F16 or BF16"));
  auto const texts = support::on_all_ranks(2, [&](thread_communicator& comm) -> std::string {
    auto const layout = fssdp::block_layout{{.experts = 4, .ranks = 2}};  // the last is on rank 1
    auto weights = fssdp::make_shard<float>(layout, comm.rank(), 15);
    auto part = fssdp::loaded_part{"experts", layout, comm.rank(), {{"w1", {3, 5}}}};
    part.add("weight", weights);
    try {
      fssdp::load_tensors(comm, folder.path(), part, naming);
    } catch (fssdp::file_error const& error) {
      return error.what();
    }
    return "accepted";
  });
  REQUIRE_THAT(texts[1], mentions("has no tensor 'model.layers.0.moe.experts.3.w1.weight'"));
  REQUIRE_THAT(texts[0], mentions("load_tensors: rank 1: ") && mentions("has no tensor"));

  integers.write(folder.path() / "twice.safetensors");
  REQUIRE_THAT(refusal({{"w1", {3, 5}}}, naming),
               mentions("twice.safetensors: has the tensor 'numbers', as has more.safetensors"));
  std::filesystem::create_directory(folder.path() / "empty");
  REQUIRE_THROWS_WITH(fssdp::safetensors_set{folder.path() / "empty"},
                      mentions("has no file *.safetensors"));
  REQUIRE_THROWS_WITH(fssdp::safetensors_set{folder.path() / "none"}, mentions("cannot open"));
}

TEST_CASE("the files of a checkpoint of whole experts are a model that can be read by name") {
  auto const folder = support::temporary_folder{};
  auto const model = support::stored_model{5, {{"w1", {4, 3}}, {"b1", {2}}}};
  auto const owners = std::vector{rank_id{0}, rank_id{1}, rank_id{1}, rank_id{0}, rank_id{2}};
  auto const from = support::reversed_layout{3, owners};
  fssdp::thread_world{3}.run([&](thread_communicator& comm) {
    support::save_numbers<float, float>(comm, model, from, {.folder = folder.path(), .step = 3});
  });
  auto const to = support::reversed_layout{1, std::vector(10, rank_id{0}), 2};
  auto weights = fssdp::make_shard<float>(to, rank_id{0}, model.elements());
  auto part = fssdp::loaded_part{"anything", to, rank_id{0}, model.tensors};
  part.add("weight", weights);
  auto const set = fssdp::safetensors_set{folder.path() / "step_00000003"};
  REQUIRE(set.tensors().size() == 5 * 2 * 2);
  fssdp::read_tensors(set, part, fssdp::tensor_pattern{"experts.{expert}.{tensor}.weight"});
  REQUIRE(support::wrong_elements(model, to, rank_id{0}, 0, weights) == 0);
}
