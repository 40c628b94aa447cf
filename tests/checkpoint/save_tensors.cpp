// SPDX-License-Identifier: Apache-2.0
/// Experts written as models of each family have them: the same files as others publish, and the
/// same numbers when they are read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "fssdp/checkpoint/load_family.hpp"
#include "fssdp/checkpoint/save_family.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/layout/cyclic_layout.hpp"
#include "fssdp/layout/layer_stack.hpp"
#include "support/late_staging.hpp"
#include "support/on_all_ranks.hpp"
#include "support/published_model.hpp"
#include "support/temporary_folder.hpp"

using fssdp::bf16;
using fssdp::rank_id;
using fssdp::thread_communicator;
using support::published_model;

namespace {

using cyclic_layers = fssdp::layer_stack<fssdp::cyclic_layout>;

[[nodiscard]] cyclic_layers layers_of(published_model const& model, int ranks, int slices = 1) {
  return cyclic_layers{std::vector(
      model.layers.size(),
      fssdp::cyclic_layout{{.experts = model.experts, .ranks = ranks, .slices = slices}})};
}
[[nodiscard]] std::vector<std::size_t> sizes_of(std::vector<fssdp::whole_tensor> const& tensors) {
  auto sizes = std::vector<std::size_t>{};
  for (auto const& tensor : tensors) sizes.push_back(tensor.elements());
  return sizes;
}

/// Saves what a rank owns of the model.
template <class T, class Comm>
void save(Comm& comm, published_model const& model, std::string const& family,
          fssdp::save_tensors_options const& options, int slices = 1) {
  auto const tensors = model.tensors(family == "gpt_oss");
  auto const layers = layers_of(model, comm.size(), slices);
  auto weights = fssdp::make_shard<T>(layers, comm.rank(), sizes_of(tensors));
  support::for_each_published(model, tensors, layers, comm.rank(), weights,
                              [](T& value, float number) { value = static_cast<T>(number); });
  auto part = fssdp::saved_part{"experts", layers, comm.rank(), tensors};
  part.add("weight", weights);
  fssdp::save_tensors(comm, part, fssdp::family_named(family), options);
}

/// Type, shape and bytes of all tensors that have a word in their names.
[[nodiscard]] std::map<std::string, std::pair<std::string, std::string>> contents(
    std::filesystem::path const& folder, std::string const& word) {
  auto const files = fssdp::safetensors_set{folder};
  auto all = std::map<std::string, std::pair<std::string, std::string>>{};
  auto scratch = fssdp::scratch_memory{};
  for (auto const& [name, entry] : files.tensors()) {
    if (name.find(word) == name.npos) continue;
    auto const& about = entry.about();
    auto bytes = std::string(static_cast<std::size_t>(about.bytes), '\0');
    entry.file->read(entry.tensor, 0, about.dtype, std::as_writable_bytes(std::span{bytes}),
                     scratch);
    all[name] = {std::string{fssdp::name_of(about.dtype)} + fssdp::detail::shape_text(about.shape),
                 bytes};
  }
  return all;
}
[[nodiscard]] std::vector<std::string> names_in(std::filesystem::path const& folder) {
  auto names = std::vector<std::string>{};
  for (auto const& entry : std::filesystem::directory_iterator{folder})
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("saved models of a family equal published ones, in one file or several") {
  auto const model = published_model{{1, 2, 4}, 5, 4, 7};
  for (std::string const family : {"mixtral", "qwen3_moe", "gpt_oss", "llama4", "stacked"})
    for (auto const most : {std::uint64_t{5'000'000'000}, std::uint64_t{1'000}}) {
      auto const published = support::temporary_folder{};
      support::publish<bf16>(model, family, "BF16", published.path());
      auto const folder = support::temporary_folder{};
      auto const saved = folder.path() / "new" / "model";
      fssdp::thread_world{3}.run([&](thread_communicator& comm) {
        save<bf16>(comm, model, family,
                   {.folder = saved, .layers = model.layers, .file_bytes = most});
      });
      CAPTURE(family, most);
      auto const expected = contents(published.path(), ".experts.");
      REQUIRE(contents(saved, "") == expected);
      auto const names = names_in(saved);
      if (most > 1'000) {
        REQUIRE(names == std::vector<std::string>{"model.safetensors"});
        continue;
      }
      REQUIRE(names.size() > 3);
      REQUIRE(names.back() == "model.safetensors.index.json");
      auto const index = fssdp::read_safetensors_index(saved / names.back());
      auto bytes = std::uint64_t{0};
      for (auto const& [tensor, what] : expected) {
        bytes += what.second.size();
        auto const file = fssdp::safetensors_file{saved / index.files.at(tensor)};
        REQUIRE(file.header().find(tensor).has_value());
      }
      REQUIRE(index.files.size() == expected.size());
      REQUIRE(index.total_bytes == bytes);
      auto const files = fssdp::safetensors_set{saved};
      for (auto const& file : files.files()) {
        REQUIRE((file.header().data_bytes() <= most || file.header().tensors().size() == 1));
        REQUIRE(file.header().metadata().at("format") == "pt");
      }
    }
}

TEST_CASE("slices are saved as the same files as whole experts") {
  auto const model = published_model{{0, 3}, 3, 4, 7};
  for (std::string const family : {"mixtral", "qwen3_moe", "gpt_oss", "llama4", "stacked"})
    for (auto const slices : {2, 3, 5}) {  // they begin within rows
      auto const published = support::temporary_folder{};
      support::publish<bf16>(model, family, "BF16", published.path());
      auto const folder = support::temporary_folder{};
      fssdp::thread_world{4}.run([&](thread_communicator& comm) {
        save<bf16>(comm, model, family, {.folder = folder.path(), .layers = model.layers}, slices);
      });
      CAPTURE(family, slices);
      REQUIRE(contents(folder.path(), "") == contents(published.path(), ".experts."));
    }
}

TEST_CASE("slices that are converted, and those without an element, are saved") {
  auto const model = published_model{{0}, 2, 1, 2};  // tensors of 2 elements in 5 slices
  auto const folder = support::temporary_folder{};
  fssdp::thread_world{2}.run([&](thread_communicator& comm) {
    save<float>(comm, model, "mixtral", {.folder = folder.path(), .dtype = fssdp::file_dtype::bf16},
                5);
  });
  auto const published = support::temporary_folder{};
  support::publish<bf16>(model, "mixtral", "BF16", published.path());
  REQUIRE(contents(folder.path(), "") == contents(published.path(), ".experts."));
}

TEST_CASE("saved files have checksums, and a changed bit is detected") {
  auto const model = published_model{{0, 1}, 3, 600, 500};  // a matrix of more than a MiB
  for (auto const most : {std::uint64_t{5'000'000'000}, std::uint64_t{1'000'000}}) {
    auto const folder = support::temporary_folder{};
    fssdp::thread_world{2}.run([&](thread_communicator& comm) {
      save<float>(comm, model, "stacked", {.folder = folder.path(), .file_bytes = most}, 2);
    });
    auto scratch = fssdp::scratch_memory{};
    auto tensors = 0;
    for (auto const& entry : std::filesystem::directory_iterator{folder.path()}) {
      if (entry.path().extension() != ".safetensors") continue;
      auto const read_all = [&] {
        auto const file = fssdp::safetensors_file{entry.path()};
        REQUIRE(file.has_checksums());
        for (std::size_t i = 0; i < file.header().tensors().size(); ++i, ++tensors) {
          auto const& about = file.header().tensors()[i];
          auto bytes = std::vector<std::byte>(static_cast<std::size_t>(about.bytes));
          file.read(i, 0, about.dtype, bytes, scratch);
        }
      };
      read_all();
      auto const size = std::filesystem::file_size(entry.path());
      {
        auto file = std::fstream{entry.path(), std::ios::in | std::ios::out | std::ios::binary};
        file.seekg(static_cast<std::streamoff>(size - 1));
        auto const last = file.get();
        file.seekp(static_cast<std::streamoff>(size - 1));
        file.put(static_cast<char>(last ^ 1));
      }
      REQUIRE_THROWS_WITH(read_all(), mentions("is not what was written: its checksum differs"));
    }
    REQUIRE(tensors >= 2);
  }
}

TEST_CASE("tensors saved from fp32 as bf16 are read as fp32 by other ranks") {
  auto const model = published_model{{0, 1}, 3, 3, 2};
  auto const folder = support::temporary_folder{};
  fssdp::thread_world{2}.run([&](thread_communicator& comm) {
    save<float>(comm, model, "gpt_oss",
                {.folder = folder.path(), .dtype = fssdp::file_dtype::bf16});
  });
  REQUIRE(fssdp::experts_in(fssdp::safetensors_set{folder.path()}).dtypes ==
          std::vector{fssdp::file_dtype::bf16});
  auto const tensors = model.tensors(true);
  auto const wrong = support::on_all_ranks(4, [&](thread_communicator& comm) {
    auto const layers = layers_of(model, 4, 2);
    auto weights = fssdp::make_shard<float>(layers, comm.rank(), sizes_of(tensors));
    auto part = fssdp::loaded_part{"experts", layers, comm.rank(), tensors};
    part.add("weight", weights);
    fssdp::load_tensors(comm, folder.path(), part, fssdp::family_named("gpt_oss"));
    auto count = 0;
    support::for_each_published(
        model, tensors, layers, comm.rank(), weights,
        [&](float value, float number) { count += value == number ? 0 : 1; });
    return count;
  });
  REQUIRE(wrong == std::vector(4, 0));
}

TEST_CASE("memory of a device is saved through its buffers") {
  auto const model = published_model{{0}, 2, 520, 610};
  auto const tensors = model.tensors();
  auto const layers = layers_of(model, 1);
  auto weights = fssdp::make_shard<float>(layers, rank_id{0}, sizes_of(tensors));
  support::for_each_published(model, tensors, layers, rank_id{0}, weights,
                              [](float& value, float number) { value = number; });
  auto staging = support::late_staging{std::size_t{1} << 20U};
  auto part = fssdp::saved_part{"experts", layers, rank_id{0}, tensors};
  part.add("weight", weights, staging);
  auto const published = support::temporary_folder{};
  support::publish<float>(model, "llama4", "F32", published.path());
  auto const folder = support::temporary_folder{};
  fssdp::thread_world{1}.run([&](thread_communicator& comm) {
    fssdp::save_tensors(comm, part, fssdp::family_named("llama4"), {.folder = folder.path()});
  });
  REQUIRE((contents(folder.path(), "") == contents(published.path(), ".experts.")));
}

TEST_CASE("a model that does not fit its family is refused on all ranks, and leaves no file") {
  auto const model = published_model{{0, 1}, 3, 4, 2};
  auto const folder = support::temporary_folder{};
  auto const into = folder.path() / "model";
  using act = std::function<void(thread_communicator&)>;
  auto const texts = [&](act const& work) {
    return support::on_all_ranks(2, [&](thread_communicator& comm) -> std::string {
      try {
        work(comm);
      } catch (fssdp::error const& error) {
        return error.what();
      }
      return "accepted";
    });
  };
  auto const with = [&](std::vector<fssdp::whole_tensor> const& tensors, int slices,
                        fssdp::save_tensors_options const& options, bool twice = false) {
    return texts([&](thread_communicator& comm) {
      auto const layers = layers_of(model, 2, slices);
      auto const weights = fssdp::make_shard<float>(layers, comm.rank(), sizes_of(tensors));
      auto part = fssdp::saved_part{"experts", layers, comm.rank(), tensors};
      part.add("weight", weights);
      if (twice) part.add("moment1", weights);
      fssdp::save_tensors(comm, part, fssdp::family_named("mixtral"), options);
    })[0];
  };
  auto const all = model.tensors();
  auto const options = fssdp::save_tensors_options{.folder = into};
  REQUIRE_THAT(with({all[0], all[1]}, 1, options), mentions("lacks the tensor 'down'"));
  REQUIRE_THAT(with(model.tensors(true), 1, options),
               mentions("has 6 tensors; expected the 3 of family mixtral"));
  REQUIRE_THAT(with(all, 1, options, true), mentions("has 2 groups; expected one"));
  REQUIRE_THAT(with(all, 1, {}), mentions("no folder is given"));
  REQUIRE_THAT(with(all, 1, {.folder = into, .layers = {1}}),
               mentions("1 numbers of layers; the part 'experts' has 2"));
  REQUIRE_THAT(with(all, 1, {.folder = into, .layers = {1, -1}}), mentions("layer -1; expected"));
  REQUIRE_THAT(
      with(all, 1, {.folder = into, .layers = {1, 1}}),
      mentions("has the name 'model.layers.1.block_sparse_moe.experts.0.w1.weight' twice"));
  REQUIRE_THAT(with(all, 1, {.folder = into, .dtype = fssdp::file_dtype::f8_e4m3}),
               mentions("type F8_E4M3; expected F64, F32, F16 or BF16"));
  REQUIRE_THAT(with(all, 1, {.folder = into, .file_bytes = 0}), mentions("files of 0 bytes"));
  auto const other_shape = [&](thread_communicator& comm) {
    auto const layers = layers_of(model, 2);
    auto tensors = all;
    tensors[1].shape = {5, 2};
    auto const weights = fssdp::make_shard<float>(layers, comm.rank(), sizes_of(tensors));
    auto part = fssdp::saved_part{"experts", layers, comm.rank(), tensors};
    part.add("weight", weights);
    fssdp::save_tensors(comm, part, fssdp::family_named("llama4"), options);
  };
  REQUIRE_THAT(texts(other_shape)[0], mentions("up has the shape [5,2]; expected that of gate"));

  auto const differing = texts([&](thread_communicator& comm) {
    save<float>(comm, model, comm.rank() == rank_id{0} ? "mixtral" : "olmoe", options);
  });
  REQUIRE_THAT(differing[0], mentions("rank 1 has another part, family or options than rank 0"));
  REQUIRE((!std::filesystem::exists(into) || names_in(into).empty()));

  std::filesystem::create_directories(into);
  support::write_bytes(into / "config.json", "{}");
  support::write_bytes(into / "model-00001-of-00002.safetensors.partial", "x");
  auto const again =
      texts([&](thread_communicator& comm) { save<float>(comm, model, "mixtral", options); });
  REQUIRE_THAT(again[0], mentions("model-00001-of-00002.safetensors.partial: is there already"));
  REQUIRE_THAT(again[1], mentions("save_tensors: rank 0: ") && mentions("is there already"));
  REQUIRE(names_in(into).size() == 2);
}

TEST_CASE("a save that a rank cannot finish leaves no file that looks whole") {
  auto const model = published_model{{0}, 3, 4, 2};
  auto const folder = support::temporary_folder{};
  auto const texts = support::on_all_ranks(2, [&](thread_communicator& comm) -> std::string {
    auto const tensors = model.tensors();
    auto const layers = layers_of(model, 2);
    auto weights = fssdp::make_shard<float>(layers, comm.rank(), sizes_of(tensors));
    auto staging = support::late_staging{std::size_t{1} << 20U};
    if (comm.rank() == rank_id{1}) staging.fail_at(1);
    auto part = fssdp::saved_part{"experts", layers, comm.rank(), tensors};
    part.add("weight", weights, staging);
    try {
      fssdp::save_tensors(comm, part, fssdp::family_named("mixtral"),
                          {.folder = folder.path(), .file_bytes = 100});
    } catch (std::exception const& error) {
      return error.what();
    }
    return "accepted";
  });
  REQUIRE_THAT(texts[0], mentions("save_tensors: rank 1: "));
  REQUIRE(texts[1] != "accepted");
  REQUIRE(names_in(folder.path()).empty());
}

TEST_CASE("an index of another writer is read, or refused if it is invalid") {
  auto const folder = support::temporary_folder{};
  auto const path = folder.path() / "model.safetensors.index.json";
  auto const read = [&](std::string const& text) -> std::string {
    support::write_bytes(path, text);
    try {
      auto const index = fssdp::read_safetensors_index(path);
      return std::to_string(index.files.size()) + " of " + std::to_string(index.total_bytes);
    } catch (fssdp::file_error const& error) {
      return error.what();
    }
  };
  REQUIRE(read(R"({"metadata": {"total_size": 12}, "weight_map": {"a": "x", "b": "y"}})") ==
          "2 of 12");
  REQUIRE(read(R"({"weight_map": {}})") == "0 of 0");
  REQUIRE_THAT(read(R"({"metadata": {}})"), mentions(path.string()) && mentions("'weight_map'"));
  REQUIRE_THAT(read(R"({"weight_map": []})"), mentions("'weight_map' is not an object"));
  REQUIRE_THAT(read(R"({"weight_map": {"a": 1}})"), mentions("no text for 'a'"));
  REQUIRE_THAT(read("{"), mentions("it is not JSON"));
}
