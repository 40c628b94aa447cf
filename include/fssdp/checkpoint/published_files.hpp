// SPDX-License-Identifier: Apache-2.0
/// The files of a published model, and the positions of its experts in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/checksum.hpp"
#include "fssdp/checkpoint/file_dtype.hpp"
#include "fssdp/checkpoint/fused_matrix.hpp"
#include "fssdp/checkpoint/model_family.hpp"
#include "fssdp/checkpoint/safetensors_file.hpp"
#include "fssdp/checkpoint/safetensors_header.hpp"
#include "fssdp/checkpoint/safetensors_index.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp::detail {

/// The size of the blocks of a tensor for which a file has checksums, in bytes.
inline constexpr auto published_block_bytes = std::uint64_t{1} << 20U;

/// The files of a model, equal on all ranks: their names, their headers, and the positions of all
/// tensors.
class published_files {
 public:
  struct file {
    std::string name;
    std::string header;  ///< the first bytes of the file, with checksums of 0
    safetensors_header tensors = {};
    std::uint64_t bytes = 0;  ///< of its tensors
  };
  struct place {
    std::size_t file = 0;
    std::uint64_t first = 0;  ///< byte position in the file
  };

  /// @param layers the number of each layer of the part
  /// @param most_bytes of the tensors of a file, unless a single one has more
  /// @throws argument_error if a tensor does not have the shape of a weight or a bias, or names are
  ///         not unique
  published_files(part_description const& about, model_family const& family,
                  std::span<int const> layers, file_dtype dtype, std::uint64_t most_bytes) {
    auto in_files = std::vector<std::vector<stored_tensor>>{};
    for (auto const layer : layers)
      for (auto const& pattern : family.patterns()) {
        auto const is_stacked = pattern.find("{expert}") == pattern.npos;
        auto const experts = about.experts() / about.layers;
        auto shape = region_shape(about, family, pattern);
        if (is_stacked) shape.insert(shape.begin(), static_cast<std::uint64_t>(experts));
        auto const bytes = tensor_bytes(shape, dtype);
        require(bytes.has_value(), "save_tensors: the tensors '", pattern,
                "' have a shape of too many elements: ", shape_text(shape));
        for (int expert = 0; expert < (is_stacked ? 1 : experts); ++expert) {
          if (files_.empty() ||
              (files_.back().bytes > 0 && files_.back().bytes + *bytes > most_bytes)) {
            files_.emplace_back();
            in_files.emplace_back();
          }
          auto& into = files_.back();
          auto name = tensor_pattern{pattern}({layer_id{layer}, expert_id{expert}, {}, {}});
          auto const is_new = places_.emplace(name, place{files_.size() - 1, into.bytes}).second;
          require(is_new, "save_tensors: family ", family.name, " has the name '", name,
                  "' twice; expected {layer} in each pattern, and each layer once");
          in_files.back().push_back({.name = std::move(name),
                                     .dtype = dtype,
                                     .shape = shape,
                                     .first = into.bytes,
                                     .bytes = *bytes});
          into.bytes += *bytes;
        }
      }
    write_headers(std::move(in_files));
  }

  [[nodiscard]] std::vector<file> const& files() const { return files_; }
  /// The first bytes of a file, as many as in `header`.
  /// @param sums the checksums of its blocks, as text
  [[nodiscard]] std::string header_of(std::size_t file, std::string sums) const {
    return to_text(safetensors_header{files_[file].tensors.tensors(), notes(std::move(sums))});
  }
  /// The position of a tensor.
  /// @pre it exists
  [[nodiscard]] place at(std::string const& tensor) const {
    auto found = places_.at(tensor);
    found.first += files_[found.file].header.size();
    return found;
  }
  /// The index of the files.
  [[nodiscard]] safetensors_index index() const {
    auto all = safetensors_index{};
    for (auto const& one : files_) all.total_bytes += one.bytes;
    for (auto const& [tensor, where] : places_) all.files[tensor] = files_[where.file].name;
    return all;
  }

 private:
  /// The shape of an expert's region in the tensors of a pattern.
  [[nodiscard]] static std::vector<std::uint64_t> region_shape(part_description const& about,
                                                               model_family const& family,
                                                               std::string const& pattern) {
    auto shape = std::vector<std::uint64_t>{};
    auto const* first = static_cast<whole_tensor const*>(nullptr);
    for (auto const& whole : about.tensors) {
      auto const& in_file = family.tensor(whole.name);
      if (in_file.pattern != pattern) continue;
      auto of_this = fused_matrix{whole, in_file}.shape();
      require(first == nullptr || shape == of_this, "save_tensors: ", whole.name, " has the shape ",
              shape_text(whole.shape), "; expected that of ",
              first == nullptr ? std::string{} : first->name, ": both are in '", pattern, "'");
      first = &whole;
      shape = std::move(of_this);
    }
    return shape;
  }
  /// model.safetensors, or model-00001-of-00003.safetensors.
  [[nodiscard]] static std::string name_of_file(std::size_t which, std::size_t count) {
    if (count == 1) return "model.safetensors";
    auto const digits = [](std::size_t number) {
      auto text = std::to_string(number);
      if (text.size() < 5) text.insert(0, 5 - text.size(), '0');
      return text;
    };
    return "model-" + digits(which + 1) + "-of-" + digits(count) + ".safetensors";
  }
  /// Hugging Face transformers require the format note.
  [[nodiscard]] static safetensors_header::notes notes(std::string sums) {
    return {{"format", "pt"},
            {std::string{block_bytes_note}, std::to_string(published_block_bytes)},
            {std::string{checksums_note}, std::move(sums)}};
  }
  void write_headers(std::vector<std::vector<stored_tensor>> tensors) {
    for (std::size_t f = 0; f < files_.size(); ++f) {
      files_[f].name = name_of_file(f, files_.size());
      try {
        auto blocks = std::uint64_t{0};
        for (auto const& tensor : tensors[f])
          blocks += block_count(tensor.bytes, published_block_bytes);
        files_[f].tensors = safetensors_header{std::move(tensors[f])};
        files_[f].header =
            header_of(f, std::string(static_cast<std::size_t>(blocks) * checksum_digits, '0'));
      } catch (file_error const& error) {  // the names come from the caller
        throw argument_error{text("save_tensors: ", error.what())};
      }
    }
  }

  std::vector<file> files_;
  std::map<std::string, place> places_;  // positions relative to the end of the header
};

}  // namespace fssdp::detail
