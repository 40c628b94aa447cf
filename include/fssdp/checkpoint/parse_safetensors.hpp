// SPDX-License-Identifier: Apache-2.0
/// Parses the header of a safetensors file of any origin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/checkpoint/safetensors_header.hpp"
#include "fssdp/core/error.hpp"

namespace fssdp {

namespace detail {

/// Handles the events of the JSON parser. Anything that does not belong in a header is rejected
/// where it begins, so that nothing is built from it, however deep or long it is.
class safetensors_events {
  enum class place { begin, top, notes, tensor, shape, offsets, end };
  enum field : unsigned { dtype = 1, shape = 2, offsets = 4, all = 7 };

 public:
  [[nodiscard]] safetensors_header header(std::uint64_t data_bytes) && {
    for (auto const& tensor : tensors_)
      if (tensor.first + tensor.bytes > data_bytes)
        throw file_error{text("tensor '", tensor.name, "' ends at byte ",
                              tensor.first + tensor.bytes, " of ", data_bytes)};
    auto made = safetensors_header{std::move(tensors_), std::move(notes_)};
    if (made.data_bytes() != data_bytes)
      throw file_error{text("its tensors end at byte ", made.data_bytes(), "; expected ",
                            data_bytes, ", the end of the file")};
    return made;
  }
  /// The error, if there was one.
  [[nodiscard]] std::string const& problem() const { return problem_; }

  // NOLINTBEGIN(readability-identifier-naming): these names are nlohmann's
  bool start_object(std::size_t /*unknown*/) {
    switch (place_) {
      case place::begin:
        place_ = place::top;
        return true;
      case place::top:
        if (key_ == safetensors_notes_name) {
          if (std::exchange(has_notes_, true)) return refuse("'__metadata__' is there twice");
          place_ = place::notes;
        } else {
          tensors_.push_back({.name = std::move(key_), .shape = {}});
          fields_ = 0;
          place_ = place::tensor;
        }
        return true;
      default:
        return unexpected("an object");
    }
  }
  bool end_object() {
    if (place_ == place::tensor && fields_ != field::all)
      return refuse("tensor '", tensors_.back().name,
                    "' lacks a field; expected dtype, shape and data_offsets");
    place_ = place_ == place::top ? place::end : place::top;
    return true;
  }
  bool key(std::string& name) {
    key_ = std::move(name);
    if (place_ != place::tensor) return true;
    auto const which = key_ == "dtype"          ? field::dtype
                       : key_ == "shape"        ? field::shape
                       : key_ == "data_offsets" ? field::offsets
                                                : 0U;
    if (which == 0) return refuse("tensor '", tensors_.back().name, "' has a field '", key_, "'");
    if ((fields_ & which) != 0)
      return refuse("tensor '", tensors_.back().name, "' has '", key_, "' twice");
    fields_ |= which;
    return true;
  }
  bool start_array(std::size_t /*unknown*/) {
    if (place_ != place::tensor || key_ == "dtype") return unexpected("an array");
    place_ = key_ == "shape" ? place::shape : place::offsets;
    offsets_ = 0;
    return true;
  }
  bool end_array() {
    if (place_ == place::offsets && offsets_ != 2)
      return refuse("tensor '", tensors_.back().name, "' has ", offsets_,
                    " data_offsets; expected 2");
    place_ = place::tensor;
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    if (place_ == place::shape) {
      tensors_.back().shape.push_back(value);
      return true;
    }
    if (place_ != place::offsets) return unexpected("a number");
    auto& tensor = tensors_.back();
    if (offsets_ == 0) tensor.first = value;
    if (offsets_ == 1) {
      if (value < tensor.first)
        return refuse("tensor '", tensor.name, "' ends at byte ", value, ", before it begins");
      tensor.bytes = value - tensor.first;
    }
    if (++offsets_ > 2) return refuse("tensor '", tensor.name, "' has over 2 data_offsets");
    return true;
  }
  bool string(std::string& value) {
    if (place_ == place::notes) {
      if (!notes_.emplace(key_, std::move(value)).second)
        return refuse("'__metadata__' has '", key_, "' twice");
      return true;
    }
    if (place_ != place::tensor || key_ != "dtype") return unexpected("a text");
    auto const named = file_dtype_named(value);
    if (!named.has_value())
      return refuse("tensor '", tensors_.back().name, "' has the unknown type '",
                    value.substr(0, 40), "'");
    tensors_.back().dtype = *named;
    return true;
  }
  bool number_integer(std::int64_t /*negative*/) { return unexpected("a negative number"); }
  bool number_float(double /*value*/, std::string const& /*as written*/) {
    return unexpected("a fraction or a number of over 64 bits");
  }
  bool boolean(bool /*value*/) { return unexpected("true or false"); }
  bool null() { return unexpected("null"); }
  bool binary(std::vector<std::uint8_t>& /*value*/) { return unexpected("bytes"); }
  bool parse_error(std::size_t position, std::string const& /*last*/,
                   nlohmann::json::exception const& /*error*/) {
    return refuse("its header is not JSON from byte ", position, " on");
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  template <class... Parts>
  bool refuse(Parts const&... parts) {
    problem_ = text(parts...);
    return false;
  }
  bool unexpected(char const* what) {
    switch (place_) {
      case place::notes:
        return refuse("'__metadata__' has ", what, " for '", key_, "'; expected a string");
      case place::top:
        return refuse("'", key_, "' is ", what, "; expected the object of a tensor");
      case place::tensor:
      case place::shape:
      case place::offsets:
        return refuse("tensor '", tensors_.back().name, "' has ", what, " in '", key_, "'");
      default:
        return refuse("its header is ", what, "; expected an object");
    }
  }

  place place_ = place::begin;
  std::string key_;
  unsigned fields_ = 0;  // of the current tensor, seen so far
  int offsets_ = 0;      // as above
  bool has_notes_ = false;
  std::vector<stored_tensor> tensors_;
  safetensors_header::notes notes_;
  std::string problem_;
};

}  // namespace detail

/// Parses and checks a header: tensors fill the file without gaps, sizes fit shapes.
/// @param data_bytes the size of the file after the header
/// @cost memory in proportion to the text, whatever its contents
/// @throws file_error that says what is wrong
[[nodiscard]] inline safetensors_header parse_safetensors(std::string_view json,
                                                          std::uint64_t data_bytes) {
  if (!json.starts_with('{')) throw file_error{"its header does not begin with '{'"};
  if (json.find('\0') != json.npos) throw file_error{"its header has a zero byte"};
  auto events = detail::safetensors_events{};
  if (!nlohmann::json::sax_parse(json, &events)) throw file_error{events.problem()};
  return std::move(events).header(data_bytes);
}

}  // namespace fssdp
