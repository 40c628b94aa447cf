// SPDX-License-Identifier: Apache-2.0
/// Experts of published models of each family: recognised, loaded whatever their shape, refused
/// with what was expected and what is there.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_family.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "support/dice.hpp"
#include "support/late_staging.hpp"
#include "support/laws.hpp"
#include "support/mutated_bytes.hpp"
#include "support/on_all_ranks.hpp"
#include "support/published_model.hpp"
#include "support/temporary_folder.hpp"

using fssdp::bf16;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::published_model;

namespace {

constexpr char const* all_families[] = {"mixtral", "qwen3_moe", "gpt_oss", "llama4", "stacked"};

[[nodiscard]] bool has_biases(std::string const& family) { return family == "gpt_oss"; }

/// How many elements of a rank are others than they should be; load(part) fills them.
template <class T, class Layers, class Load>
[[nodiscard]] int wrong_elements(published_model const& model,
                                 std::vector<fssdp::whole_tensor> const& tensors,
                                 Layers const& layers, rank_id rank, Load load) {
  auto sizes = std::vector<std::size_t>{};
  for (auto const& tensor : tensors) sizes.push_back(tensor.elements());
  auto weights = fssdp::make_shard<T>(layers, rank, sizes);
  auto part = fssdp::loaded_part{"experts", layers, rank, tensors};
  part.add("weight", weights);
  load(part);
  auto wrong = 0;
  support::for_each_published(model, tensors, layers, rank, weights, [&](T value, float number) {
    wrong += static_cast<float>(value) == number ? 0 : 1;
  });
  return wrong;
}

template <class Act>
[[nodiscard]] std::string refusal(Act act) {
  try {
    act();
  } catch (fssdp::error const& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("experts of every family are recognised and loaded, sliced or whole, bf16 as fp32") {
  // 5 experts on 3 ranks, slices that begin within rows; dense layers before the first of experts
  auto const model = published_model{{1, 2, 4}, 5, 4, 7};
  for (std::string const family : all_families) {
    auto const folder = support::temporary_folder{};
    support::publish<bf16>(model, family, "BF16", folder.path());
    auto const tensors = model.tensors(has_biases(family));
    for (int const slices : {1, 3}) {
      auto const layers = fssdp::layer_stack{
          std::vector(3, fssdp::cyclic_layout{{.experts = 5, .ranks = 3, .slices = slices}})};
      auto const wrong = support::on_all_ranks(3, [&](thread_communicator& comm) {
        return wrong_elements<float>(model, tensors, layers, comm.rank(), [&](auto const& part) {
          fssdp::load_tensors(comm, folder.path(), part);
        });
      });
      CAPTURE(family, slices);
      REQUIRE(wrong == std::vector(3, 0));
    }
    auto const files = fssdp::safetensors_set{folder.path()};
    auto const found = fssdp::experts_in(files);
    CAPTURE(family);
    REQUIRE(found.family.name == family);
    REQUIRE(found.layers == model.layers);
    REQUIRE(found.experts == 5);
    REQUIRE(found.tensors == tensors);
    REQUIRE(found.dtypes == std::vector{fssdp::file_dtype::bf16});
    REQUIRE(found.is_whole());
  }
}

TEST_CASE("some layers and tensors of a family are loaded by their numbers and names") {
  auto const model = published_model{{3, 5}, 2, 6, 3};
  for (std::string const family : all_families) {
    auto const folder = support::temporary_folder{};
    support::publish<float>(model, family, "F32", folder.path());
    auto const files = fssdp::safetensors_set{folder.path()};
    auto const one = published_model{{5}, 2, 6, 3};
    auto tensors = model.tensors();
    tensors.pop_back();
    auto const layers =
        fssdp::layer_stack{std::vector(1, fssdp::block_layout{{.experts = 2, .ranks = 1}})};
    CAPTURE(family);
    REQUIRE(wrong_elements<double>(one, tensors, layers, rank_id{0}, [&](auto const& part) {
              fssdp::read_tensors(files, part, fssdp::family_named(family), one.layers);
            }) == 0);
  }
}

TEST_CASE("matrices of more than a block are loaded, also into memory of a device") {
  // gate and up have 1.2 MiB each; a buffer of a device is filled several times
  auto const model = published_model{{0}, 2, 520, 610};
  for (std::string const family : {"gpt_oss", "llama4", "mixtral"}) {
    auto const folder = support::temporary_folder{};
    support::publish<bf16>(model, family, "BF16", folder.path());
    auto const files = fssdp::safetensors_set{folder.path()};
    auto const tensors = model.tensors(has_biases(family));
    auto const layers = fssdp::layer_stack{
        std::vector(1, fssdp::block_layout{{.experts = 2, .ranks = 1, .slices = 2}})};
    auto sizes = std::vector<std::size_t>{};
    for (auto const& tensor : tensors) sizes.push_back(tensor.elements());
    auto weights = fssdp::make_shard<float>(layers, rank_id{0}, sizes);
    auto staging = support::late_staging{std::size_t{1} << 20U};
    auto part = fssdp::loaded_part{"experts", layers, rank_id{0}, tensors};
    part.add("weight", weights, staging);
    fssdp::read_tensors(files, part, fssdp::recognise_family(files));
    auto wrong = 0;
    support::for_each_published(
        model, tensors, layers, rank_id{0}, weights,
        [&](float value, float number) { wrong += value == number ? 0 : 1; });
    CAPTURE(family);
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("a family of the caller's has fused matrices of each expert") {
  auto const mine =
      fssdp::model_family{"mine",
                          {},
                          {{"gate", "net.{layer}.expert_{expert}.both", fssdp::fusion::even},
                           {"up", "net.{layer}.expert_{expert}.both", fssdp::fusion::odd},
                           {"down", "net.{layer}.expert_{expert}.out", fssdp::fusion::none, true}}};
  auto const model = published_model{{7}, 2, 3, 4};
  auto file = support::published_file<double>{model, "F64"};
  for (int e = 0; e < 2; ++e) {
    auto const prefix = "net.7.expert_" + std::to_string(e) + '.';
    file.add(prefix + "both", 6, 4,
             [&](int r, int c) { return model.number(7, e, r % 2, r / 2, c); });
    file.add(prefix + "out", 3, 4, [&](int r, int c) { return model.number(7, e, 2, c, r); });
  }
  auto const folder = support::temporary_folder{};
  file.write(folder.path() / "net.safetensors");
  auto const files = fssdp::safetensors_set{folder.path() / "net.safetensors"};
  for (int const slices : {1, 2, 5}) {
    auto const layers = fssdp::layer_stack{
        std::vector(1, fssdp::block_layout{{.experts = 2, .ranks = 1, .slices = slices}})};
    REQUIRE(wrong_elements<bf16>(model, model.tensors(), layers, rank_id{0}, [&](auto const& part) {
              fssdp::read_tensors(files, part, mine);
            }) == 0);
  }
  REQUIRE(fssdp::experts_in(files, mine).tensors == model.tensors());
}

TEST_CASE("families are found by the names of models") {
  REQUIRE(fssdp::family_named("olmoe").name == "qwen3_moe");
  REQUIRE(fssdp::family_named("deepseek_v3").name == "qwen3_moe");
  REQUIRE(fssdp::family_named("gpt_oss").tensors.size() == 6);
  REQUIRE(fssdp::family_named("mixtral").tensor("up").pattern ==
          "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight");
  REQUIRE_THAT(refusal([] { (void)fssdp::family_named("gpt2"); }),
               mentions("no family 'gpt2'; expected one of mixtral, minimax, qwen3_moe"));
  REQUIRE_THAT(refusal([] { (void)fssdp::family_named("mixtral").tensor("w1"); }),
               mentions("family mixtral: no tensor 'w1'; expected one of gate, up, down"));
}

TEST_CASE("a name matches a layer and an expert only if the pattern generates it") {
  auto const match = [](char const* pattern, char const* name) {
    auto const found = fssdp::detail::match_pattern(pattern, name);
    return found.has_value() ? std::vector{found->layer, found->expert} : std::vector<int>{};
  };
  auto const none = std::vector<int>{};
  REQUIRE(match("a.{layer}.b.{expert}.w", "a.12.b.3.w") == std::vector{12, 3});
  REQUIRE(match("a.{layer}.w", "a.7.w") == std::vector{7, 0});
  REQUIRE(match("{expert}", "5") == std::vector{0, 5});
  REQUIRE(match("w", "w") == std::vector{0, 0});
  REQUIRE(match("a.{layer}.b.{layer}", "a.1.b.1") == std::vector{1, 0});
  for (auto const* name : {"a.12.b.3.w2", "a.12.b.3", "a.012.b.3.w", "a.+1.b.3.w", "a.-1.b.3.w",
                           "a..b.3.w", "a.x.b.3.w", "a.99999999999.b.3.w", "", "a.12.c.3.w"})
    REQUIRE(match("a.{layer}.b.{expert}.w", name) == none);
  REQUIRE(match("a.{layer}.b.{layer}", "a.1.b.2") == none);
}

TEST_CASE("files of no known family are refused with what was expected and what is there") {
  auto const folder = support::temporary_folder{};
  auto const recognised = [&] {
    return refusal([&] { (void)fssdp::recognise_family(fssdp::safetensors_set{folder.path()}); });
  };
  auto dense = support::foreign_file{};
  dense.add("lm_head.weight", "F32", "[1]", std::vector<float>{1});
  dense.write(folder.path() / "a.safetensors");
  REQUIRE_THAT(recognised(), mentions(folder.path().string()) && mentions("there is 'lm_head"));

  auto other = support::foreign_file{};
  for (int e = 0; e < 12; ++e)
    other.add("layers.0.moe.experts." + std::to_string(e) + ".w1", "F32", "[1]",
              std::vector<float>{1});
  other.add("model.layers.0.mlp.experts.down_proj", "F32", "[1, 1, 1]", std::vector<float>{1});
  other.write(folder.path() / "b.safetensors");
  auto const text = recognised();
  REQUIRE_THAT(text,
               mentions("expected all names of one of mixtral: model.layers.{layer}.block_") &&
                   mentions(".w1.weight, ") && mentions("; gpt_oss: ") &&
                   mentions("model.layers.{layer}.mlp.experts.gate_up_proj_bias"));
  REQUIRE_THAT(text, mentions("there is 'layers.#.moe.experts.#.w1', 'model.layers.#.mlp.experts."
                              "down_proj', 'lm_head.weight'"));

  auto packed = support::foreign_file{};
  packed.add("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", "[1]",
             std::vector<std::uint8_t>{1});
  packed.write(folder.path() / "c.safetensors");
  REQUIRE_THAT(recognised(), mentions("gate_up_proj_blocks") &&
                                 mentions("numbers of 4 bits with scales elsewhere are not read"));
}

TEST_CASE("a model that does not fit its family is refused with the tensor and the cause") {
  auto const model = published_model{{1, 2}, 2, 4, 3};
  auto const folder = support::temporary_folder{};
  support::publish<float>(model, "mixtral", "F32", folder.path());
  auto const text = [&](int experts, int layers_count, std::vector<fssdp::whole_tensor> tensors,
                        std::string const& family, std::vector<int> const& numbers = {}) {
    auto const layers =
        fssdp::layer_stack{std::vector(static_cast<std::size_t>(layers_count),
                                       fssdp::block_layout{{.experts = experts, .ranks = 1}})};
    return refusal([&] {
      (void)wrong_elements<float>(model, tensors, layers, rank_id{0}, [&](auto const& part) {
        auto const files = fssdp::safetensors_set{folder.path()};
        fssdp::read_tensors(files, part, fssdp::family_named(family), numbers);
      });
    });
  };
  auto const gate = std::vector<fssdp::whole_tensor>{{"gate", {4, 3}}};
  REQUIRE(text(2, 2, gate, "mixtral") == "accepted");
  REQUIRE_THAT(text(2, 3, gate, "mixtral"),
               mentions("has 2 experts in each of 2 layers (1, 2); the part 'experts' has 2 in 3"));
  REQUIRE_THAT(text(1, 2, gate, "mixtral"), mentions("the part 'experts' has 1 in 2"));
  REQUIRE_THAT(text(2, 2, gate, "mixtral", {1}),
               mentions("1 numbers of layers; the part 'experts' has 2"));
  REQUIRE_THAT(text(2, 2, gate, "mixtral", {1, 3}),
               mentions("has no tensor 'model.layers.3.block_sparse_moe.experts.0.w1.weight'"));
  REQUIRE_THAT(text(2, 2, {{"gate", {3, 4}}}, "mixtral"),
               mentions("model-1.safetensors: tensor 'model.layers.1.block_sparse_moe.experts.0.w1"
                        ".weight' has the shape [4,3]; expected [3,4] for gate [3,4], family "
                        "mixtral"));
  REQUIRE_THAT(text(2, 2, {{"gate", {1, 4, 3}}}, "mixtral"),
               mentions("tensor 'gate' has the shape [1,4,3]; expected [outputs, inputs]"));
  REQUIRE_THAT(text(2, 2, {{"w1", {4, 3}}}, "mixtral"), mentions("no tensor 'w1'; expected one"));
  REQUIRE_THAT(text(2, 2, gate, "olmoe"),
               mentions("has no experts of the family qwen3_moe; there is 'model.layers.#.block_"));

  support::publish<float>({{5}, 2, 4, 3}, "gpt_oss", "F32", folder.path());
  REQUIRE_THAT(text(2, 1, {{"gate", {3, 4}}}, "gpt_oss"),
               mentions("has the shape [2,3,8]; expected [2,4,6] for gate [3,4], family gpt_oss"));
  support::publish<std::int8_t>({{9}, 2, 4, 3}, "qwen3_moe", "F8_E4M3", folder.path());
  REQUIRE_THAT(text(2, 1, gate, "qwen3_moe"),
               mentions("is of type F8_E4M3; expected F64, F32, F16 or BF16"));
}

TEST_CASE("experts that are missing are counted and named") {
  auto const folder = support::temporary_folder{};
  auto file = support::foreign_file{};
  for (int e : {0, 2})
    for (auto const* name : {"gate_proj", "up_proj", "down_proj"})
      if (e == 0 || std::string{name} != "up_proj")
        file.add("model.layers.3.mlp.experts." + std::to_string(e) + '.' + name + ".weight", "F32",
                 "[1, 1]", std::vector<float>{1});
  file.write(folder.path() / "model.safetensors");
  auto const found = fssdp::experts_in(fssdp::safetensors_set{folder.path()});
  REQUIRE(found.experts == 3);
  REQUIRE(found.missing == 4);
  REQUIRE(found.missing_names ==
          std::vector<std::string>{"model.layers.3.mlp.experts.1.gate_proj.weight",
                                   "model.layers.3.mlp.experts.1.up_proj.weight",
                                   "model.layers.3.mlp.experts.2.up_proj.weight",
                                   "model.layers.3.mlp.experts.1.down_proj.weight"});

  // a number that says more experts than there can be costs no memory
  file.add("model.layers.3.mlp.experts.2147483647.up_proj.weight", "F32", "[1, 1]",
           std::vector<float>{1});
  file.write(folder.path() / "model.safetensors");
  auto const many = fssdp::experts_in(fssdp::safetensors_set{folder.path()});
  REQUIRE(many.missing > 1'000'000);
  REQUIRE(many.missing_names.size() == 8);

  auto odd = support::foreign_file{};
  odd.add("model.layers.0.mlp.experts.gate_up_proj", "F32", "[1, 3, 1]",
          std::vector<float>{1, 2, 3});
  odd.add("model.layers.0.mlp.experts.down_proj", "F32", "[1, 1, 1]", std::vector<float>{1});
  odd.write(folder.path() / "model.safetensors");
  REQUIRE_THAT(refusal([&] { (void)fssdp::experts_in(fssdp::safetensors_set{folder.path()}); }),
               mentions("has the shape [1,3,1]; expected an even number of outputs"));
}

TEST_CASE("a model whose header was changed at random is read, or refused by its file's name") {
  auto const model = published_model{{0}, 2, 2, 3};
  auto const layers =
      fssdp::layer_stack{std::vector(1, fssdp::block_layout{{.experts = 2, .ranks = 1}})};
  auto read = 0;
  auto refused = 0;
  for (std::string const family : all_families) {
    auto const folder = support::temporary_folder{};
    support::publish<float>(model, family, "F32", folder.path());
    auto const path = folder.path() / "model-0.safetensors";
    auto const bytes = support::bytes_of_file(path);
    auto const data = fssdp::safetensors_file{path}.header().data_bytes();
    auto const json = bytes.substr(8, bytes.size() - 8 - data);
    for (auto seed = std::uint64_t{1}; seed <= std::uint64_t{support::law_instances} / 5; ++seed) {
      auto draw = support::dice{seed};
      auto const changed = support::mutated_bytes(json, draw);
      support::write_bytes(path, fssdp::detail::little_endian(changed.size()) + changed +
                                     bytes.substr(bytes.size() - data));
      auto const said = refusal([&] {
        (void)wrong_elements<float>(
            model, model.tensors(), layers, rank_id{0}, [&](auto const& part) {
              auto const files = fssdp::safetensors_set{folder.path()};
              fssdp::read_tensors(files, part, fssdp::recognise_family(files));
            });
      });
      ++(said == "accepted" ? read : refused);
      if (said != "accepted" && !said.starts_with(folder.path().string())) {
        CAPTURE(family, seed, said);
        REQUIRE(false);
      }
    }
  }
  REQUIRE(refused > 0);
  REQUIRE(read + refused == support::law_instances / 5 * 5);
}
