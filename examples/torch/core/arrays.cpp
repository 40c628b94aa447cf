// SPDX-License-Identifier: Apache-2.0
#include "arrays.hpp"

#include <nanobind/stl/string.h>

#include <cmath>
#include <limits>
#include <string>

namespace python {
namespace {

using fssdp::detail::require;

nb::module_ numpy() { return nb::module_::import_("numpy"); }

/// As a numpy array, not copied if it is one; other objects are read by DLPack.
nb::object as_numpy(array_like const& from) {
  auto const by_dlpack =
      nb::hasattr(from.object, "__dlpack__") && !nb::hasattr(from.object, "__array__");
  return numpy().attr(by_dlpack ? "from_dlpack" : "asarray")(from.object);
}

template <class T>
using view = nb::ndarray<T const, nb::c_contig, nb::device::cpu>;

/// The elements of an array in rows, converted by numpy if they are of another type.
template <class T>
view<T> elements(nb::handle array, char const* dtype) {
  return nb::cast<view<T>>(numpy().attr("ascontiguousarray")(array, dtype));
}

/// What an element is called in messages: loads[1, 5].
std::string place(char const* name, std::vector<std::size_t> const& shape, std::size_t at) {
  auto text = std::string{};
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    text = std::to_string(at % *size) + (text.empty() ? "" : ", ") + text;
    at /= *size;
  }
  return name + ("[" + text + "]");
}

std::vector<std::size_t> shape_of(nb::handle array) {
  auto shape = std::vector<std::size_t>{};
  for (auto const size : array.attr("shape")) shape.push_back(nb::cast<std::size_t>(size));
  return shape;
}

}  // namespace

whole_numbers read_whole_numbers(array_like const& from, char const* name, std::size_t dimensions) {
  auto const array = as_numpy(from);
  auto result = whole_numbers{{}, shape_of(array)};
  require(result.shape.size() == dimensions, name, " has ", result.shape.size(),
          " dimensions; expected ", dimensions);
  auto const kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  auto const take = [&](auto const& values, auto is_whole) {
    result.values.reserve(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const value = values.data()[i];
      if (!is_whole(value))
        require(false, place(name, result.shape, i), " is ", value,
                "; expected a whole number from 0");
      result.values.push_back(static_cast<std::uint64_t>(value));
    }
  };
  if (kind == "u" || kind == "b")
    take(elements<std::uint64_t>(array, "uint64"), [](std::uint64_t) { return true; });
  else if (kind == "i")
    take(elements<std::int64_t>(array, "int64"), [](std::int64_t value) { return value >= 0; });
  else if (kind == "f")
    take(elements<double>(array, "float64"),
         [](double value) { return value >= 0 && value < 0x1p63 && value == std::floor(value); });
  else
    require(false, name, " is of dtype ", nb::cast<std::string>(array.attr("dtype").attr("name")),
            "; expected whole numbers");
  return result;
}

std::vector<int> read_ints(array_like const& from, char const* name) {
  auto const numbers = read_whole_numbers(from, name, 1);
  auto ints = std::vector<int>{};
  for (auto const number : numbers.values) {
    require(number <= std::numeric_limits<int>::max(), name, ": ", number, "; expected at most ",
            std::numeric_limits<int>::max());
    ints.push_back(static_cast<int>(number));
  }
  return ints;
}

std::vector<double> read_reals(array_like const& from, char const* name) {
  auto const values = elements<double>(as_numpy(from), "float64");
  require(values.ndim() <= 1, name, " has ", values.ndim(), " dimensions; expected 1");
  return {values.data(), values.data() + values.size()};
}

std::vector<bool> read_booleans(array_like const& from, char const* name, std::size_t rows,
                                std::size_t columns) {
  auto const values = elements<bool>(as_numpy(from), "bool");
  auto const fits = values.ndim() == 2 && values.shape(0) == rows && values.shape(1) == columns;
  require(fits, name, " is not of the shape [", rows, ", ", columns, "]");
  return std::vector<bool>(values.data(), values.data() + values.size());
}

std::uint64_t read_whole_member(nb::handle of, char const* name) {
  return read_whole_numbers({nb::object{of.attr(name)}}, name, 0).values.front();
}

fssdp::expert_loads read_loads(array_like const& from) {
  return read_whole_numbers(from, "loads", 1).values;
}

std::vector<fssdp::expert_loads> read_layer_loads(array_like const& from) {
  auto const numbers = read_whole_numbers(from, "loads", 2);
  auto const experts = numbers.shape[1];
  auto layers = std::vector<fssdp::expert_loads>{};
  for (std::size_t layer = 0; layer < numbers.shape[0]; ++layer) {
    auto const row = std::span{numbers.values}.subspan(layer * experts, experts);
    layers.emplace_back(row.begin(), row.end());
  }
  return layers;
}

integers<1> token_array(std::span<std::uint64_t const> counts) {
  constexpr auto most = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  auto values = std::vector<std::int64_t>{};
  for (auto const count : counts) {
    require(count <= most, count, " tokens; expected at most ", most, ", what int64 can hold");
    values.push_back(static_cast<std::int64_t>(count));
  }
  return as_array(std::move(values));
}

numpy_array<bool, 2> boolean_array(std::vector<bool> const& values, std::size_t rows,
                                   std::size_t columns) {
  auto owned = std::make_unique<bool[]>(values.size() + 1);
  for (std::size_t i = 0; i < values.size(); ++i) owned[i] = values[i];
  auto* const data = owned.get();
  auto owner = nb::capsule{owned.release(),
                           [](void* pointer) noexcept { delete[] static_cast<bool*>(pointer); }};
  auto const shape = std::array{rows, columns};
  return nb::ndarray<nb::numpy, bool, nb::ndim<2>>{data, shape.size(), shape.data(), owner}.cast();
}

record_array as_records(std::vector<std::int64_t> values,
                        std::initializer_list<char const*> names) {
  auto fields = nb::list{};
  for (auto const* name : names) fields.append(nb::make_tuple(name, "<i8"));
  auto const shape = std::array{values.size() / names.size(), names.size()};
  auto const rows = as_array(std::move(values), shape);
  return {rows.attr("view")(numpy().attr("dtype")(fields)).attr("reshape")(-1)};
}

}  // namespace python
