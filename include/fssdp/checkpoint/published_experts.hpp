// SPDX-License-Identifier: Apache-2.0
/// Recognises the family of a published model, and lists its experts.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/checkpoint_part.hpp"
#include "fssdp/checkpoint/file_dtype.hpp"
#include "fssdp/checkpoint/model_family.hpp"
#include "fssdp/checkpoint/pattern_match.hpp"
#include "fssdp/checkpoint/safetensors_set.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/file/require_file.hpp"

namespace fssdp {

namespace detail {

/// A name with # in place of each number between dots: model.layers.#.mlp.experts.#.w1.weight.
[[nodiscard]] inline std::string without_numbers(std::string_view name) {
  auto plain = std::string{};
  for (std::size_t begin = 0; begin <= name.size();) {
    auto const end = std::min(name.find('.', begin), name.size());
    auto const part = name.substr(begin, end - begin);
    auto const is_number = !part.empty() && std::ranges::all_of(part, [](unsigned char c) {
      return std::isdigit(c) != 0;
    });
    if (begin > 0) plain += '.';
    plain += is_number ? std::string_view{"#"} : part;
    begin = end + 1;
  }
  return plain;
}

/// The kinds of names that the files have, for an error; those of experts first.
[[nodiscard]] inline std::string names_in(safetensors_set const& files) {
  constexpr auto most = std::size_t{8};
  auto of_experts = std::set<std::string>{};
  auto others = std::set<std::string>{};
  for (auto const& [name, entry] : files.tensors())
    (name.find("expert") != name.npos ? of_experts : others).insert(without_numbers(name));
  auto names = std::vector<std::string>(of_experts.begin(), of_experts.end());
  std::ranges::copy(others, std::back_inserter(names));
  auto listed = std::string{};
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    listed += (i == 0 ? "'" : ", '") + names[i] + '\'';
  if (names.size() > most)
    listed += " and " + std::to_string(names.size() - most) + " more kinds of names";
  return listed.empty() ? "no tensor" : listed;
}

/// Whether there is a tensor for each pattern.
[[nodiscard]] inline bool has_names_of(safetensors_set const& files, model_family const& family) {
  return std::ranges::all_of(family.patterns(), [&](std::string const& pattern) {
    return std::ranges::any_of(files.tensors(), [&](auto const& tensor) {
      return match_pattern(pattern, tensor.first).has_value();
    });
  });
}

}  // namespace detail

/// The family with names in the files; of several, the one with most.
/// @cost memory for one name of each kind
/// @throws file_error that lists the names of all families, and those in the files
[[nodiscard]] inline model_family const& recognise_family(safetensors_set const& files) {
  model_family const* found = nullptr;
  for (auto const& family : model_families())
    if ((found == nullptr || family.patterns().size() > found->patterns().size()) &&
        detail::has_names_of(files, family))
      found = &family;
  if (found != nullptr) return *found;
  auto expected = std::string{};
  for (auto const& family : model_families()) {
    expected += (expected.empty() ? "" : "; ") + family.name + ": ";
    auto const patterns = family.patterns();
    for (std::size_t i = 0; i < patterns.size(); ++i)
      expected += (i == 0 ? "" : ", ") + patterns[i];
  }
  auto const is_packed = std::ranges::any_of(files.tensors(), [](auto const& tensor) {
    return tensor.first.ends_with("_blocks") || tensor.first.ends_with("weight_packed");
  });
  detail::refuse_file(files.path(), "has experts of no known family; expected all names of one of ",
                      expected, "; there is ", detail::names_in(files),
                      is_packed ? ": numbers of 4 bits with scales elsewhere are not read" : "");
}

/// The experts of a family in files.
struct published_experts {
  model_family family;
  /// The numbers in the names of layers with experts, ascending.
  std::vector<int> layers = {};
  int experts = 0;                              ///< of each of these layers
  std::vector<whole_tensor> tensors = {};       ///< of each expert, as for a part
  std::vector<file_dtype> dtypes = {};          ///< all types that occur
  std::uint64_t missing = 0;                    ///< number of missing tensors
  std::vector<std::string> missing_names = {};  ///< the first of them

  [[nodiscard]] bool is_whole() const { return missing == 0; }
};

namespace detail {

/// Counts the layers and experts of a family in files.
class expert_census {
 public:
  expert_census(safetensors_set const& files, model_family const& family)
      : files_{files}, found_{.family = family} {}

  [[nodiscard]] published_experts take() {
    auto layers = std::set<int>{};
    auto dtypes = std::set<file_dtype>{};
    for (auto const& pattern : found_.family.patterns()) {
      auto const is_stacked = pattern.find("{expert}") == pattern.npos;
      for (auto const& [name, entry] : files_.tensors()) {
        auto const match = match_pattern(pattern, name);
        if (!match.has_value()) continue;
        ++there_;
        layers.insert(match->layer);
        dtypes.insert(entry.about().dtype);
        if (!is_stacked)
          found_.experts = std::max(found_.experts, std::min(match->expert, most_experts - 1) + 1);
        if (is_stacked && !entry.about().shape.empty())
          found_.experts =
              static_cast<int>(std::min(entry.about().shape[0], std::uint64_t{most_experts}));
      }
    }
    require_file(there_ > 0, files_.path(), "has no experts of the family ", found_.family.name,
                 "; there is ", names_in(files_));
    found_.layers.assign(layers.begin(), layers.end());
    found_.dtypes.assign(dtypes.begin(), dtypes.end());
    for (auto const& tensor : found_.family.tensors) find_shape(tensor);
    find_missing();
    return std::move(found_);
  }

 private:
  static constexpr auto most_experts = 1 << 30;

  void find_shape(family_tensor const& tensor) {
    auto const at = std::ranges::find_if(files_.tensors(), [&](auto const& one) {
      return match_pattern(tensor.pattern, one.first).has_value();
    });
    if (at == files_.tensors().end()) return;
    auto const& stored = at->second.about();
    auto shape = stored.shape;
    auto const require_shape = [&](bool holds, char const* expected) {
      require_file(holds, at->second.file->path(), "tensor '", stored.name, "' has the shape ",
                   shape_text(stored.shape), "; expected ", expected, ", family ",
                   found_.family.name);
    };
    if (tensor.is_stacked()) {
      require_shape(shape.size() > 1, "that of all experts of a layer");
      shape.erase(shape.begin());
    }
    require_shape(shape.size() == 1 || shape.size() == 2, "a weight or a bias of each expert");
    if (tensor.transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
    if (tensor.fused != fusion::none) {
      require_shape(shape[0] % 2 == 0, "an even number of outputs, those of gate and up");
      shape[0] /= 2;
    }
    found_.tensors.push_back({tensor.name, shape});
  }

  void find_missing() {
    auto const patterns = found_.family.patterns();
    auto expected = std::uint64_t{0};
    for (auto const& pattern : patterns) expected += found_.layers.size() * each(pattern);
    found_.missing = expected - there_;
    constexpr auto most = std::size_t{8};
    for (auto const layer : found_.layers)
      for (auto const& pattern : patterns)
        for (int expert = 0; expert < static_cast<int>(each(pattern)); ++expert) {
          if (found_.missing_names.size() == std::min<std::uint64_t>(most, found_.missing)) return;
          auto name = tensor_pattern{pattern}({layer_id{layer}, expert_id{expert}, {}, {}});
          if (!files_.tensors().contains(name)) found_.missing_names.push_back(std::move(name));
        }
  }
  [[nodiscard]] std::uint64_t each(std::string const& pattern) const {
    return pattern.find("{expert}") == pattern.npos ? 1
                                                    : static_cast<std::uint64_t>(found_.experts);
  }

  safetensors_set const& files_;
  published_experts found_;
  std::uint64_t there_ = 0;
};

}  // namespace detail

/// The layers, experts and shapes of a family in files, found by names and headers. Dense layers
/// are not included; a layer that predicts further tokens, such as layer 61 of DeepSeek-V3, is
/// included if it has experts. Missing tensors are listed.
///
///     auto const files = fssdp::safetensors_set{"OLMoE-1B-7B"};
///     auto const model = fssdp::experts_in(files);
///     auto const layers = fssdp::layer_stack{std::vector(model.layers.size(), layout)};
///     auto part = fssdp::loaded_part{"experts", layers, rank, model.tensors};
///
/// @throws file_error if there are none, or a shape has another number of dimensions
[[nodiscard]] inline published_experts experts_in(safetensors_set const& files,
                                                  model_family const& family) {
  return detail::expert_census{files, family}.take();
}
/// The same for the family that is recognised by the names.
/// @throws as recognise_family
[[nodiscard]] inline published_experts experts_in(safetensors_set const& files) {
  return experts_in(files, recognise_family(files));
}

}  // namespace fssdp
