// SPDX-License-Identifier: Apache-2.0
// What inspect_checkpoint finds in folders: of checkpoints and models, whole ones and others.
#include "inspect_checkpoint/inspect_folder.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/save_family.hpp"
#include "fssdp/element/dtype.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "inspect_checkpoint/to_json.hpp"
#include "inspect_checkpoint/to_text.hpp"
#include "support/published_model.hpp"
#include "support/stored_instance.hpp"
#include "support/temporary_folder.hpp"

namespace {

using fssdp::rank_id;
using fssdp::thread_communicator;

/// Steps 10 and 20 of five experts in two slices on three ranks, the last of which owns one chunk.
void save_two_steps(std::filesystem::path const& folder) {
  auto const model = support::stored_model{5, {{"w1", {4, 3}}, {"b1", {3}}}};
  auto owners = std::vector(10, rank_id{0});
  for (std::size_t chunk = 5; chunk < 9; ++chunk) owners[chunk] = rank_id{1};
  owners[9] = rank_id{2};
  auto const layout = support::reversed_layout{3, owners, 2};
  for (auto const step : {10, 20})
    fssdp::thread_world{3}.run([&](thread_communicator& comm) {
      support::save_numbers<float, fssdp::bf16>(
          comm, model, layout,
          {.folder = folder, .step = static_cast<std::uint64_t>(step), .state = "abc"});
    });
}
[[nodiscard]] stored::inspection look_at(std::filesystem::path const& folder,
                                         bool headers_only = false) {
  return stored::inspect_folder({.folder = folder, .headers_only = headers_only});
}
[[nodiscard]] std::filesystem::path file_of_rank(std::filesystem::path const& of_step, int rank) {
  for (auto const& entry : std::filesystem::directory_iterator{of_step})
    if (entry.path().filename().string().starts_with("rank_" + std::to_string(rank)))
      return entry.path();
  return {};
}

}  // namespace

TEST_CASE("inspect_checkpoint shows the parts, owners, types and bytes of a checkpoint") {
  auto const folder = support::temporary_folder{};
  save_two_steps(folder.path());
  std::filesystem::create_directories(folder.path() / "step_00000030");
  auto const shown = look_at(folder.path());
  REQUIRE(shown.problems.empty());
  REQUIRE(shown.folder == folder.path() / "step_00000020");
  REQUIRE(shown.checkpoint.has_value());
  REQUIRE(shown.checkpoint->step == 20);
  REQUIRE(shown.checkpoint->complete_steps == std::vector<std::uint64_t>{10, 20});
  REQUIRE(shown.checkpoint->incomplete_steps == std::vector<std::uint64_t>{30});
  REQUIRE(shown.checkpoint->state_bytes == 3);
  REQUIRE(shown.checkpoint->parts.size() == 1);
  auto const& ranks = shown.checkpoint->parts[0].ranks;
  // first slices have 6 + 2 elements, second ones 6 + 1, of 4 and of 2 bytes
  REQUIRE(ranks.size() == 3);
  REQUIRE(ranks[0].chunks == 5);
  REQUIRE(ranks[0].bytes == (3 * 8 + 2 * 7) * 6);
  REQUIRE(ranks[1].bytes == (2 * 7 + 2 * 8) * 6);
  REQUIRE(ranks[2].bytes == 7 * 6);
  REQUIRE(shown.tensors() == 5 * 2 * 2 * 2);
  REQUIRE(shown.types.at("F32").tensors == 20);
  REQUIRE(shown.types.at("F32").bytes == 5 * 15 * 4);
  REQUIRE(shown.types.at("BF16").bytes == 5 * 15 * 2);
  for (auto const& file : shown.files) REQUIRE(file.verified == file.tensors);
  REQUIRE(look_at(folder.path() / "step_00000010").checkpoint->step == 10);
  REQUIRE(look_at(folder.path() / "step_00000010" / "").checkpoint->complete_steps.size() == 2);

  auto const text = stored::to_text(shown, false);
  REQUIRE_THAT(text, mentions("checkpoint of step 20") && mentions("10, 20; not complete: 30"));
  REQUIRE_THAT(text, mentions("part experts: 5 experts in each of 1 layer, in 2 slices"));
  REQUIRE_THAT(text, mentions("w1 [4,3], b1 [3]") && mentions("weight F32, moment1 BF16"));
  REQUIRE_THAT(text, mentions("of 40 of 40 tensors are right"));
  auto const json = stored::to_json(shown);
  REQUIRE(json["kind"] == "checkpoint");
  REQUIRE(json["parts"][0]["owners"].size() == 10);
  REQUIRE(json["parts"][0]["ranks"][2]["chunks"] == 1);
  REQUIRE(json["files"].size() == 3);
}

TEST_CASE("inspect_checkpoint finds a changed byte, a file that is missing, one that is another") {
  auto const folder = support::temporary_folder{};
  save_two_steps(folder.path());
  auto const of_step = folder.path() / "step_00000020";
  auto const first = file_of_rank(of_step, 0);
  auto bytes = support::bytes_of_file(first);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  support::write_bytes(first, bytes);
  auto const changed = look_at(folder.path());
  REQUIRE(changed.problems.size() == 1);
  REQUIRE_THAT(changed.problems[0],
               mentions(first.string()) && mentions("is not what was written"));
  REQUIRE(changed.files[0].verified == changed.files[0].tensors - 1);
  REQUIRE(look_at(folder.path(), true).problems.empty());
  REQUIRE_THAT(stored::to_text(changed, true), mentions("of 40 tensors, not verified"));

  std::filesystem::remove(file_of_rank(of_step, 2));
  auto const missing = look_at(folder.path(), true);
  REQUIRE(missing.problems.size() == 1);
  REQUIRE_THAT(missing.problems[0], mentions("cannot open"));
  std::filesystem::copy_file(file_of_rank(folder.path() / "step_00000010", 1),
                             file_of_rank(of_step, 1),
                             std::filesystem::copy_options::overwrite_existing);
  REQUIRE(look_at(folder.path(), true).problems.size() == 1);  // the same numbers: the same file
  std::filesystem::copy_file(first, file_of_rank(of_step, 1),
                             std::filesystem::copy_options::overwrite_existing);
  auto const other = look_at(folder.path(), true);
  REQUIRE(other.problems.size() == 2);
  REQUIRE_THAT(other.problems[0], mentions("its header differs"));

  std::filesystem::remove(of_step / "checkpoint.json");
  REQUIRE(look_at(folder.path()).checkpoint->step == 10);
  auto const incomplete = look_at(of_step);
  REQUIRE_THAT(incomplete.problems.back(), mentions("checkpoint.json is not there"));
}

TEST_CASE("inspect_checkpoint shows the experts of a model, and what is missing") {
  auto const folder = support::temporary_folder{};
  auto const model = support::published_model{{1, 2, 4}, 3, 4, 5};
  support::publish<fssdp::bf16>(model, "qwen3_moe", "BF16", folder.path());
  auto const whole = look_at(folder.path());
  REQUIRE(whole.problems.empty());
  REQUIRE_FALSE(whole.checkpoint.has_value());
  REQUIRE(whole.model.experts.has_value());
  REQUIRE(whole.model.experts->layers == model.layers);
  auto const text = stored::to_text(whole, false);
  REQUIRE_THAT(text,
               mentions("experts: 3 in each of 3 layers, family qwen3_moe (also qwen2_moe, "));
  REQUIRE_THAT(text, mentions("layers   1-2, 4") && mentions("gate [4,5], up [4,5], down [5,4]") &&
                         mentions("no checksums"));
  auto const json = stored::to_json(whole);
  REQUIRE(json["experts"]["layers"] == std::vector<int>{1, 2, 4});
  REQUIRE(json["experts"]["tensors"][2]["shape"] == std::vector<int>{5, 4});

  support::publish<std::int8_t>({{6}, 4, 4, 5}, "qwen3_moe", "F8_E4M3", folder.path());
  auto const more = look_at(folder.path());
  REQUIRE(more.problems.size() == 1);
  REQUIRE_THAT(
      more.problems[0],
      mentions("9 tensors of experts are in no file: 'model.layers.1.mlp.experts.3.gate_"));
  REQUIRE_THAT(stored::to_text(more, false),
               mentions("BF16, F8_E4M3 (load_tensors reads F64, F32, F16 and BF16)"));
  REQUIRE(look_at(folder.path() / "model-1.safetensors").model.experts->layers == std::vector{1});

  support::write_bytes(folder.path() / "model-1.safetensors", "x");
  auto const broken = look_at(folder.path());
  REQUIRE_THAT(broken.problems[0], mentions("model-1.safetensors: has 1 bytes; expected 8"));
}

TEST_CASE("inspect_checkpoint compares the index of a model with its files") {
  auto const folder = support::temporary_folder{};
  auto const model = support::published_model{{0, 1}, 3, 4, 5};
  fssdp::thread_world{2}.run([&](thread_communicator& comm) {
    auto const layers =
        fssdp::layer_stack{std::vector(2, fssdp::cyclic_layout{{.experts = 3, .ranks = 2}})};
    auto const weights =
        fssdp::make_shard<float>(layers, comm.rank(), std::vector<std::size_t>{20, 20, 20});
    auto part = fssdp::saved_part{"experts", layers, comm.rank(), model.tensors()};
    part.add("weight", weights);
    fssdp::save_tensors(comm, part, fssdp::family_named("mixtral"),
                        {.folder = folder.path(), .file_bytes = 500});
  });
  auto const whole = look_at(folder.path());
  REQUIRE(whole.problems.empty());
  REQUIRE(whole.model.has_index);
  std::filesystem::remove(folder.path() / "model-00001-of-00003.safetensors");
  auto const less = look_at(folder.path());
  REQUIRE_THAT(less.problems[0], mentions("1 files of the index are not there: 'model-00001-of-"));
  REQUIRE_THAT(less.problems[1], mentions("6 tensors of the index are in no file"));
  std::filesystem::rename(folder.path() / "model-00002-of-00003.safetensors",
                          folder.path() / "model-00001-of-00003.safetensors");
  auto const moved = look_at(folder.path());
  REQUIRE_THAT(moved.problems[2], mentions("6 tensors are in other files than the index says"));
  support::write_bytes(folder.path() / "model.safetensors.index.json", "{");
  REQUIRE_THAT(look_at(folder.path()).problems[0], mentions("it is not JSON"));
}

TEST_CASE("inspect_checkpoint compares the checksums of what save_tensors has written") {
  auto const folder = support::temporary_folder{};
  auto const model = support::published_model{{0, 1}, 3, 4, 5};
  auto const tensors = model.tensors();
  auto const layers = fssdp::layer_stack<fssdp::cyclic_layout>{
      std::vector(2, fssdp::cyclic_layout{{.experts = 3, .ranks = 2, .slices = 2}})};
  fssdp::thread_world{2}.run([&](thread_communicator& comm) {
    auto sizes = std::vector<std::size_t>{};
    for (auto const& tensor : tensors) sizes.push_back(tensor.elements());
    auto weights = fssdp::make_shard<float>(layers, comm.rank(), sizes);
    support::for_each_published(model, tensors, layers, comm.rank(), weights,
                                [](float& value, float number) { value = number; });
    auto part = fssdp::saved_part{"experts", layers, comm.rank(), tensors};
    part.add("weight", weights);
    fssdp::save_tensors(comm, part, fssdp::family_named("qwen3_moe"), {.folder = folder.path()});
  });
  auto const whole = look_at(folder.path());
  REQUIRE(whole.problems.empty());
  REQUIRE(whole.files.size() == 1);
  REQUIRE(whole.files[0].tensors == 2 * 3 * 3);
  REQUIRE(whole.files[0].verified == whole.files[0].tensors);

  auto const path = folder.path() / "model.safetensors";
  auto bytes = std::string{};
  {
    auto file = std::ifstream{path, std::ios::binary};
    bytes.assign(std::istreambuf_iterator<char>{file}, {});
  }
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  support::write_bytes(path, bytes);
  auto const changed = look_at(folder.path());
  REQUIRE(changed.problems.size() == 1);
  REQUIRE_THAT(changed.problems[0], mentions("is not what was written: its checksum differs"));
  REQUIRE(look_at(folder.path(), true).problems.empty());
}

TEST_CASE("inspect_checkpoint says what is in a folder without experts") {
  auto const folder = support::temporary_folder{};
  REQUIRE_THROWS_WITH(look_at(folder.path()), mentions("has neither checkpoints"));
  REQUIRE_THROWS_WITH(look_at(folder.path() / "none"), mentions("none: is not there"));
  auto dense = support::foreign_file{};
  dense.add("lm_head.weight", "F16", "[2]", std::vector<std::int16_t>{1, 2});
  dense.write(folder.path() / "model.safetensors");
  auto const shown = look_at(folder.path());
  REQUIRE(shown.problems.empty());
  REQUIRE(shown.types.at("F16").bytes == 4);
  REQUIRE_THAT(stored::to_text(shown, false),
               mentions("experts: of no known family") && mentions("'lm_head.weight'"));
  REQUIRE(stored::to_json(shown)["experts"].is_null());
  std::filesystem::create_directories(folder.path() / "run" / "step_00000001");
  REQUIRE_THROWS_WITH(look_at(folder.path() / "run"), mentions("has no complete checkpoint"));
}
