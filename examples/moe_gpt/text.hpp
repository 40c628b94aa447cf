// SPDX-License-Identifier: Apache-2.0
/// The text to learn from, as bytes: training sequences and a held-out tenth.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "mix.hpp"

namespace moe_gpt {

/// The files of a source tree: *.hpp, *.cpp and *.md in include, examples and tests, sorted.
[[nodiscard]] inline std::vector<std::filesystem::path> source_files(
    std::filesystem::path const& root) {
  namespace fs = std::filesystem;
  auto found = std::vector<fs::path>{};
  for (auto const* const folder : {"include", "examples", "tests"}) {
    if (!fs::is_directory(root / folder)) continue;
    for (auto const& entry : fs::recursive_directory_iterator{root / folder}) {
      auto const suffix = entry.path().extension();
      if (entry.is_regular_file() && (suffix == ".hpp" || suffix == ".cpp" || suffix == ".md"))
        found.push_back(entry.path());
    }
  }
  if (found.empty())
    throw std::runtime_error{"the default text, the sources of fssdp in " + root.string() +
                             ", is not there; name a text with --text FILE"};
  std::ranges::sort(found, {}, [](fs::path const& path) { return path.generic_string(); });
  return found;
}

/// The longest text, in bytes: it is kept in memory.
inline constexpr std::uint64_t longest_text = std::uint64_t{2} << 30U;

/// The bytes of the files, one after the other.
/// @param most how many they may have
/// @throws std::runtime_error that names the file
[[nodiscard]] inline std::vector<std::uint8_t> read_files(
    std::span<std::filesystem::path const> files, std::uint64_t most = longest_text) {
  auto bytes = std::vector<std::uint8_t>{};
  auto piece = std::vector<char>(std::size_t{1} << 16U);
  for (auto const& file : files) {
    if (!std::filesystem::exists(file))
      throw std::runtime_error{"text file " + file.string() + " does not exist"};
    if (std::filesystem::is_directory(file))
      throw std::runtime_error{"text file " + file.string() + " is a directory"};
    if (std::filesystem::is_character_file(file) || std::filesystem::is_block_file(file))
      throw std::runtime_error{"text file " + file.string() + " is a device; expected a file"};
    auto in = std::ifstream{file, std::ios::binary};
    auto const before = bytes.size();
    while (in && bytes.size() <= most) {
      in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      bytes.insert(bytes.end(), piece.begin(), piece.begin() + in.gcount());
    }
    if (bytes.size() > most)
      throw std::runtime_error{"text file " + file.string() + " ends behind byte " +
                               std::to_string(most) + " of the text; expected --text of at most " +
                               std::to_string(most) + " bytes, as it is kept in memory"};
    if (!in.eof() || in.bad()) throw std::runtime_error{"cannot read text file " + file.string()};
    if (bytes.size() == before)
      throw std::runtime_error{"text file " + file.string() + " is empty"};
  }
  return bytes;
}

/// A sequence and, for every position, the byte that follows it: [seq] each.
struct sample {
  std::span<std::uint8_t const> inputs;
  std::span<std::uint8_t const> targets;
};

/// A text that is cut into blocks, every tenth of which is held out: a tenth that is spread over
/// the text is like the rest of it. No training sequence reaches into a held-out block.
class corpus {
 public:
  /// `name` is what an error calls the text.
  corpus(std::vector<std::uint8_t> bytes, std::size_t seq, std::uint64_t seed,
         std::string const& name)
      : bytes_{std::move(bytes)}, seq_{seq}, seed_{seed} {
    auto const block = std::max(seq + 1, std::min<std::size_t>(4096, bytes_.size() / 100));
    if (bytes_.size() < 10 * block)
      throw std::runtime_error{"the text (" + name + ") has " + std::to_string(bytes_.size()) +
                               " bytes; sequences of " + std::to_string(seq) +
                               " bytes need at least " + std::to_string(10 * block)};
    for (std::size_t at = 0; at < bytes_.size(); at += 10 * block) {
      auto const trained = std::min(9 * block, bytes_.size() - at);
      if (trained > seq_) {
        stretches_.push_back({at, starts_});
        starts_ += trained - seq_;
      }
      for (auto from = at + 9 * block; from + seq_ < std::min(at + 10 * block, bytes_.size());
           from += seq_)
        held_out_.push_back(from);
    }
  }

  /// Sequence `index` of the batch of `step`: depends on these and the seed alone, so that a run
  /// means the same on any number of ranks.
  [[nodiscard]] sample training(std::uint64_t step, std::uint64_t index) const {
    auto const drawn = mix({seed_, 2, step, index}) % starts_;
    auto const after = std::ranges::upper_bound(stretches_, drawn, {}, &stretch::starts_before);
    auto const& in = *std::prev(after);
    return at(in.first + (drawn - in.starts_before));
  }

  /// Sequence `index` of the held-out tenth; no byte is predicted in two of them.
  [[nodiscard]] sample held_out(std::size_t index) const { return at(held_out_.at(index)); }
  [[nodiscard]] std::size_t held_out_sequences() const { return held_out_.size(); }

  [[nodiscard]] std::span<std::uint8_t const> bytes() const { return bytes_; }

 private:
  struct stretch {
    std::size_t first;
    std::size_t starts_before;  ///< training sequences that start in earlier stretches
  };

  [[nodiscard]] sample at(std::size_t first) const {
    auto const text = std::span{bytes_};
    return {text.subspan(first, seq_), text.subspan(first + 1, seq_)};
  }

  std::vector<std::uint8_t> bytes_;
  std::size_t seq_;
  std::uint64_t seed_;
  std::vector<stretch> stretches_;
  std::size_t starts_ = 0;
  std::vector<std::size_t> held_out_;
};

/// The text of these files, or without any that of the sources in `default_root`.
[[nodiscard]] inline corpus load_corpus(std::span<std::filesystem::path const> files,
                                        std::filesystem::path const& default_root, std::size_t seq,
                                        std::uint64_t seed) {
  if (files.empty()) return {read_files(source_files(default_root)), seq, seed, "the sources"};
  auto name = files.front().string();
  if (files.size() > 1) name += " and " + std::to_string(files.size() - 1) + " more";
  return {read_files(files), seq, seed, name};
}

}  // namespace moe_gpt
