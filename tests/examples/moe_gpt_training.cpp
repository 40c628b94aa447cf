// SPDX-License-Identifier: Apache-2.0
/// Text, start and optimizer of moe_gpt: what makes a run mean the same on any number of ranks.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "moe_gpt/adamw.hpp"
#include "moe_gpt/batch.hpp"
#include "moe_gpt/dense_parameters.hpp"
#include "moe_gpt/text.hpp"

using namespace moe_gpt;

namespace {

/// A text in which every place can be recognised by two bytes.
[[nodiscard]] std::vector<std::uint8_t> numbered_text(std::size_t size) {
  auto bytes = std::vector<std::uint8_t>(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(mix({i}));
  return bytes;
}

/// A folder that is gone with the test.
class temporary_folder {
 public:
  temporary_folder()
      : path_{std::filesystem::temp_directory_path() /
              ("moe_gpt_test_" + std::to_string(std::random_device{}()))} {
    std::filesystem::create_directories(path_);
  }
  ~temporary_folder() {
    auto ignored = std::error_code{};
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;

  [[nodiscard]] std::filesystem::path write(std::string const& name,
                                            std::string const& text) const {
    auto const file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text;
    return file;
  }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("corpus: training text and held-out tenth are disjoint", "[moe_gpt]") {
  auto const [size, seq] = GENERATE(std::pair<std::size_t, std::size_t>{5000, 16},
                                    std::pair<std::size_t, std::size_t>{650, 64},
                                    std::pair<std::size_t, std::size_t>{100003, 64});
  CAPTURE(size, seq);
  auto const text = corpus{numbered_text(size), seq, 1, "numbers"};
  auto const first_of = [&](sample const& drawn) {
    return drawn.inputs.data() - text.bytes().data();
  };
  auto trained = std::vector<bool>(size);
  for (std::uint64_t step = 0; step < 200; ++step)
    for (std::uint64_t i = 0; i < 8; ++i) {
      auto const drawn = text.training(step, i);
      REQUIRE(drawn.inputs.size() == seq);
      REQUIRE(drawn.targets.data() == drawn.inputs.data() + 1);
      auto const first = static_cast<std::size_t>(first_of(drawn));
      REQUIRE(first + seq < size);
      for (auto at = first; at <= first + seq; ++at) trained[at] = true;
    }
  auto predicted = std::vector<int>(size);
  REQUIRE(text.held_out_sequences() > 0);
  for (std::size_t i = 0; i < text.held_out_sequences(); ++i) {
    auto const first = static_cast<std::size_t>(first_of(text.held_out(i)));
    REQUIRE(first + seq < size);
    for (auto at = first; at <= first + seq; ++at) REQUIRE(!trained[at]);
    for (auto at = first + 1; at <= first + seq; ++at) REQUIRE(++predicted[at] == 1);
  }
  auto const held_out = static_cast<double>(std::count(predicted.begin(), predicted.end(), 1));
  CHECK(held_out / static_cast<double>(size) < 0.11);
  if (size > 1000) CHECK(held_out / static_cast<double>(size) > 0.07);
}

TEST_CASE("corpus: batches depend on seed, step and index, not on the ranks", "[moe_gpt]") {
  auto const text = corpus{numbered_text(20000), 32, 7, "numbers"};
  auto const again = corpus{numbered_text(20000), 32, 7, "numbers"};
  auto const other = corpus{numbered_text(20000), 32, 8, "numbers"};
  auto const batch = [](corpus const& from, std::uint64_t step, int ranks) {
    auto all = byte_batch{};
    for (auto const rank : fssdp::first_n<fssdp::rank_id>(ranks)) {
      auto const share =
          share_of(10, rank, ranks, [&](std::size_t i) { return from.training(step, i); });
      all.inputs.insert(all.inputs.end(), share.inputs.begin(), share.inputs.end());
      all.targets.insert(all.targets.end(), share.targets.begin(), share.targets.end());
    }
    return all;
  };
  auto const one = batch(text, 3, 1);
  CHECK(one.inputs.size() == 320);
  for (int const ranks : {2, 3, 4, 10, 13}) {
    CAPTURE(ranks);
    auto const split = batch(again, 3, ranks);
    CHECK(split.inputs == one.inputs);
    CHECK(split.targets == one.targets);
  }
  CHECK(batch(text, 4, 1).inputs != one.inputs);
  CHECK(batch(other, 3, 1).inputs != one.inputs);
  auto starts = std::set<std::uint8_t const*>{};
  for (std::uint64_t i = 0; i < 100; ++i) starts.insert(text.training(0, i).inputs.data());
  CHECK(starts.size() > 95);
}

TEST_CASE("corpus: errors name the file", "[moe_gpt]") {
  auto const folder = temporary_folder{};
  auto const missing = std::vector{folder.path() / "missing.txt"};
  auto const empty = std::vector{folder.write("empty.txt", "")};
  auto const brief = std::vector{folder.write("brief.txt", "too short")};
  auto const directory = std::vector{folder.path()};
  CHECK_THROWS_WITH(read_files(missing), mentions("missing.txt") && mentions("does not exist"));
  CHECK_THROWS_WITH(read_files(empty), mentions("empty.txt") && mentions("is empty"));
  CHECK_THROWS_WITH(read_files(directory), mentions("is a directory"));
  auto const endless = std::vector<std::filesystem::path>{"/dev/zero"};
  CHECK_THROWS_WITH(read_files(endless, 1000), mentions("/dev/zero is a device"));
  auto const two =
      std::vector{folder.write("half.txt", "123456"), folder.write("more.txt", "7890")};
  CHECK(read_files(two, 10).size() == 10);
  CHECK_THROWS_WITH(read_files(two, 9), mentions("more.txt ends behind byte 9 of the text"));
  CHECK_THROWS_WITH(load_corpus(brief, {}, 64, 1), mentions("brief.txt") && mentions("650"));
  CHECK_THROWS_WITH(load_corpus({}, folder.path() / "gone", 64, 1), mentions("--text"));
}

TEST_CASE("corpus: the default text is the sources, in sorted order", "[moe_gpt]") {
  auto const folder = temporary_folder{};
  static_cast<void>(folder.write("tests/b.cpp", "3"));
  static_cast<void>(folder.write("include/z/a.hpp", "2"));
  static_cast<void>(folder.write("examples/read.md", "1"));
  static_cast<void>(folder.write("examples/data.bin", "x"));
  static_cast<void>(folder.write("build/c.cpp", "x"));
  auto const bytes = read_files(source_files(folder.path()));
  CHECK(std::string(bytes.begin(), bytes.end()) == "123");
}

TEST_CASE("dense parameters: the parts of all ranks are the whole, for any number of ranks",
          "[moe_gpt]") {
  auto const shape = model_shape{.layers = 2, .d_model = 8, .heads = 2, .seq = 5, .experts = 3};
  auto const layout = dense_layout{shape};
  auto whole = std::vector<float>(layout.elements());
  layout.initialise(9, 0, std::span{whole});
  for (auto const parts : std::initializer_list<std::size_t>{2, 3, 7}) {
    CAPTURE(parts);
    auto const part = (layout.elements() + parts - 1) / parts;
    auto joined = std::vector<float>(part * parts, 1.0F);
    auto shrunk = std::size_t{0};
    for (std::size_t i = 0; i < parts; ++i) {
      layout.initialise(9, i * part, std::span{joined}.subspan(i * part, part));
      auto next = std::size_t{0};
      for (auto const& range : layout.decay_ranges(i * part, part)) {
        CHECK(range.first == next);
        next += range.elements;
        if (range.shrinks == decay::on) shrunk += range.elements;
      }
      CHECK(next == part);
    }
    CHECK(std::equal(whole.begin(), whole.end(), joined.begin()));
    CHECK(std::all_of(joined.begin() + static_cast<std::ptrdiff_t>(whole.size()), joined.end(),
                      [](float x) { return x == 0; }));
    CHECK(shrunk == 2 * (8 * 24 + 8 * 8 + 8 * 3) + 8 * 256);
  }
  auto const view = layout.view(std::span{whole});
  CHECK(view.layers.size() == 2);
  CHECK(view.layers[1].attention.wqkv.size() == 8 * 24);
  CHECK(view.layers[1].norm2.gain[3] == 1);
  CHECK(view.norm.bias[3] == 0);
  CHECK(view.head.data() + view.head.size() == whole.data() + whole.size());
  CHECK_THROWS_AS(layout.view(std::span{whole}.first(10)), std::invalid_argument);
}

TEST_CASE("experts are initialized differently from each other, and alike in every run",
          "[moe_gpt]") {
  auto const shape = model_shape{.layers = 2, .d_model = 4, .heads = 1, .seq = 5, .experts = 3};
  auto const start = [&](std::uint64_t seed, std::size_t layer, std::size_t expert) {
    auto values = std::vector<double>(4 * 8 + 8 + 8 * 4 + 4, 9);
    initialise_expert(shape, seed, layer, expert,
                      expert_tensors<double>{values.data(), values.data() + 32, values.data() + 40,
                                             values.data() + 72});
    return values;
  };
  CHECK(start(1, 1, 2) == start(1, 1, 2));
  CHECK(start(1, 1, 2) != start(2, 1, 2));
  CHECK(start(1, 1, 2) != start(1, 0, 2));
  CHECK(start(1, 1, 2) != start(1, 1, 1));
  CHECK(start(1, 1, 2)[33] == 0);
}

TEST_CASE("normal numbers have their mean and deviation", "[moe_gpt]") {
  auto values = std::vector<double>(100001);
  fill_normal(std::span{values}, 3, 2, 1);
  auto sum = 0.0;
  auto squares = 0.0;
  for (auto const x : values) sum += x;
  auto const mean = sum / static_cast<double>(values.size());
  for (auto const x : values) squares += (x - mean) * (x - mean);
  CHECK(mean == Approx(3).margin(0.03));
  CHECK(std::sqrt(squares / static_cast<double>(values.size())) == Approx(2).margin(0.03));
}

TEST_CASE("AdamW: two steps worked by hand", "[moe_gpt]") {
  auto const options = adamw_options{
      .learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0, .weight_decay = 0.5};
  auto p = std::vector{2.0};
  auto m = std::vector{0.0};
  auto v = std::vector{0.0};
  // Step 1, g = 4: m = 2, v = 4; corrected 4 and 16; p = 2 * 0.95 - 0.1 * 4 / 4 = 1.8.
  adamw_step(std::span{p}, std::vector{4.0}, m, v, options, 1);
  CHECK(m[0] == Approx(2));
  CHECK(v[0] == Approx(4));
  CHECK(p[0] == Approx(1.8));
  // Step 2, g = 2 (as 4 times a scale of 1/2): m = 1 + 1 = 2, v = 3 + 1 = 4; corrected
  // 2 / 0.75 = 8/3 and 4 / 0.4375 = 64/7; p = 1.8 * 0.95 - 0.1 * (8/3) / sqrt(64/7).
  adamw_step(std::span{p}, std::vector{4.0}, m, v, options, 2, 0.5);
  CHECK(m[0] == Approx(2));
  CHECK(v[0] == Approx(4));
  CHECK(p[0] == Approx(1.71 - std::sqrt(7.0) / 30));
}

TEST_CASE("learning rate: up, then down to a tenth", "[moe_gpt]") {
  CHECK(learning_rate_at(0, 200, 1.0) == Approx(0.1));
  CHECK(learning_rate_at(9, 200, 1.0) == Approx(1));
  CHECK(learning_rate_at(10, 200, 1.0) == Approx(1));
  CHECK(learning_rate_at(105, 200, 1.0) == Approx(0.55));
  CHECK(learning_rate_at(200, 200, 1.0) == Approx(0.1));
  CHECK(learning_rate_at(0, 1, 1.0) > 0);
}
