// SPDX-License-Identifier: Apache-2.0
/// What a folder holds as text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fssdp/checkpoint/safetensors_header.hpp"
#include "inspection.hpp"
#include "program/readable.hpp"

namespace stored {

namespace detail {

using program::counted;
using program::readable_bytes;

[[nodiscard]] inline std::string tensors_line(std::vector<fssdp::whole_tensor> const& tensors) {
  auto text = std::string{};
  for (auto const& tensor : tensors)
    text +=
        (text.empty() ? "" : ", ") + tensor.name + ' ' + fssdp::detail::shape_text(tensor.shape);
  return text;
}
/// 0, 1, 2, 3, 7 -> "0-3, 7".
template <class Number>
[[nodiscard]] std::string ranges_text(std::vector<Number> const& ascending) {
  auto text = std::string{};
  for (std::size_t first = 0, end = 0; first < ascending.size(); first = end) {
    for (end = first + 1; end < ascending.size() && ascending[end] == ascending[end - 1] + 1;)
      ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ascending[first]);
    if (end - first > 1) text += fmt::format("-{}", ascending[end - 1]);
  }
  return text;
}

[[nodiscard]] inline std::string checksums_line(inspection const& of, bool headers_only) {
  auto with = std::size_t{0};
  auto verified = std::size_t{0};
  for (auto const& file : of.files) {
    with += file.has_checksums ? file.tensors : 0;
    verified += file.verified;
  }
  if (with == 0) return "none: the files have no checksums";
  if (headers_only) return fmt::format("of {}, not verified", counted(with, "tensor"));
  return fmt::format("of {} of {} are right", verified, counted(with, "tensor"));
}

[[nodiscard]] inline std::string part_text(part_report const& part) {
  auto const& about = part.about;
  auto text = fmt::format(
      "part {}: {} in each of {}, {}\n  tensors  {}\n  names    {}\n  groups   ", about.name,
      counted(static_cast<std::uint64_t>(about.experts() / about.layers), "expert"),
      counted(static_cast<std::uint64_t>(about.layers), "layer"),
      about.slices == 1 ? std::string{"whole"} : fmt::format("in {} slices", about.slices),
      tensors_line(about.tensors), about.pattern.text);
  for (std::size_t g = 0; g < about.groups.size(); ++g)
    text += fmt::format("{}{} {}", g == 0 ? "" : ", ", about.groups[g].name,
                        name_of(about.groups[g].dtype));
  text += fmt::format("\n{:>8} {:>8} {:>12}\n", "owner", "chunks", "bytes");
  for (std::size_t r = 0; r < part.ranks.size(); ++r)
    text += fmt::format("{:>8} {:>8} {:>12}\n", r, part.ranks[r].chunks,
                        readable_bytes(part.ranks[r].bytes));
  return text + '\n';
}

[[nodiscard]] inline std::string experts_text(model_report const& model) {
  if (!model.experts.has_value())
    return fmt::format("experts: of no known family\n  {}\n\n", model.why_none);
  auto const& experts = *model.experts;
  auto types = std::vector<std::string>{};
  auto is_read = true;
  for (auto const type : experts.dtypes) {
    types.emplace_back(name_of(type));
    is_read = is_read && fssdp::needs_no_scale(type);
  }
  auto others = std::vector<std::string>{};  // model types of other names than the family's
  for (auto const& type : experts.family.models)
    if (type != experts.family.name) others.push_back(type);
  return fmt::format(
      "experts: {} in each of {}, family {}{}\n  layers   {}\n  tensors  {}\n"
      "  types    {}{}\n  names    {}\n\n",
      experts.experts, counted(experts.layers.size(), "layer"), experts.family.name,
      others.empty() ? std::string{} : fmt::format(" (also {})", fmt::join(others, ", ")),
      ranges_text(experts.layers), tensors_line(experts.tensors), fmt::join(types, ", "),
      is_read ? "" : " (load_tensors reads F64, F32, F16 and BF16)",
      fmt::join(experts.family.patterns(), "\n           "));
}

[[nodiscard]] inline std::string files_text(inspection const& of) {
  auto text = fmt::format("{:<10} {:>8} {:>12}\n", "type", "tensors", "bytes");
  for (auto const& [name, total] : of.types)
    text += fmt::format("{:<10} {:>8} {:>12}\n", name, total.tensors, readable_bytes(total.bytes));
  auto width = std::size_t{10};
  for (auto const& file : of.files) width = std::max(width, file.name.size());
  text += fmt::format("\n{:<{}} {:>8} {:>12}\n", "file", width, "tensors", "bytes");
  for (auto const& file : of.files)
    text += fmt::format("{:<{}} {:>8} {:>12}\n", file.name, width, file.tensors,
                        readable_bytes(file.bytes));
  return text;
}

}  // namespace detail

/// What it is, its parts or experts, types and files, and what is wrong.
[[nodiscard]] inline std::string to_text(inspection const& of, bool headers_only) {
  auto text = fmt::format("# {}: {}\n", of.folder.string(),
                          of.checkpoint.has_value()
                              ? fmt::format("checkpoint of step {}", of.checkpoint->step)
                              : std::string{"model"});
  text += fmt::format("# holds     {} in {}, {}\n", detail::counted(of.tensors(), "tensor"),
                      detail::counted(of.files.size(), "file"), detail::readable_bytes(of.bytes()));
  if (of.checkpoint.has_value()) {
    auto const& checkpoint = *of.checkpoint;
    text += fmt::format(
        "# steps     {}{}\n", fmt::join(checkpoint.complete_steps, ", "),
        checkpoint.incomplete_steps.empty()
            ? std::string{}
            : fmt::format("; not complete: {}", fmt::join(checkpoint.incomplete_steps, ", ")));
    text += fmt::format("# state     {}\n", detail::readable_bytes(checkpoint.state_bytes));
  }
  text += fmt::format("# checksums {}\n", detail::checksums_line(of, headers_only));
  for (auto const& problem : of.problems) text += fmt::format("# problem   {}\n", problem);
  text += '\n';
  if (of.checkpoint.has_value())
    for (auto const& part : of.checkpoint->parts) text += detail::part_text(part);
  else
    text += detail::experts_text(of.model);
  return text + detail::files_text(of);
}

}  // namespace stored
