// SPDX-License-Identifier: Apache-2.0
/// Between arrays of Python and values of the library. Whole numbers that leave are int64, numpy's
/// own integers; what comes in may be any array, list or tensor that numpy reads.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fssdp/core/error.hpp"
#include "fssdp/core/index.hpp"
#include "fssdp/placement/loads.hpp"
#include "fssdp/topology/topology.hpp"

namespace python {

namespace nb = nanobind;

/// An argument that numpy, or DLPack, can read.
struct array_like {
  nb::object object;
};
/// A structured array of numpy's.
struct record_array {
  nb::object object;
};

/// An array that is an object of Python's already, so that no policy of a property applies to it.
template <class T, std::size_t Dimensions>
using numpy_array =
    decltype(std::declval<nb::ndarray<nb::numpy, T, nb::ndim<Dimensions>>&>().cast());
template <std::size_t Dimensions>
using integers = numpy_array<std::int64_t, Dimensions>;

/// Whole numbers from 0 with their shape.
struct whole_numbers {
  std::vector<std::uint64_t> values;
  std::vector<std::size_t> shape;
};

/// What an argument holds, in rows: [shape...].
/// @throws fssdp::argument_error that names the argument and the first number that is negative or
///         not whole, or says how many dimensions were expected
[[nodiscard]] whole_numbers read_whole_numbers(array_like const& from, char const* name,
                                               std::size_t dimensions);
/// The same for numbers that become ints: ranks, experts.
[[nodiscard]] std::vector<int> read_ints(array_like const& from, char const* name);
[[nodiscard]] std::vector<double> read_reals(array_like const& from, char const* name);
/// @throws fssdp::argument_error on another shape
[[nodiscard]] std::vector<bool> read_booleans(array_like const& from, char const* name,
                                              std::size_t rows, std::size_t columns);
/// A whole number that an object has under a name.
/// @throws fssdp::argument_error if it is negative or not whole
[[nodiscard]] std::uint64_t read_whole_member(nb::handle of, char const* name);

/// Loads of one layer: [experts].
[[nodiscard]] fssdp::expert_loads read_loads(array_like const& from);
/// Loads of all layers: [layers, experts].
[[nodiscard]] std::vector<fssdp::expert_loads> read_layer_loads(array_like const& from);

/// An array of numpy's that owns its values.
template <std::size_t Dimensions, class T>
[[nodiscard]] numpy_array<T, Dimensions> as_array(
    std::vector<T> values, std::array<std::size_t, Dimensions> const& shape) {
  values.reserve(1);  // so that an empty one has an address, too
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  auto* const data = owned->data();
  auto owner = nb::capsule{owned.release(), [](void* pointer) noexcept {
                             delete static_cast<std::vector<T>*>(pointer);
                           }};
  return nb::ndarray<nb::numpy, T, nb::ndim<Dimensions>>{data, Dimensions, shape.data(), owner}
      .cast();
}
template <class T>
[[nodiscard]] numpy_array<T, 1> as_array(std::vector<T> values) {
  auto const shape = std::array{values.size()};
  return as_array(std::move(values), shape);
}
/// Tokens, as int64.
/// @throws fssdp::argument_error if int64 cannot hold one
[[nodiscard]] integers<1> token_array(std::span<std::uint64_t const> counts);
/// Ranks, experts: any strong indices.
template <class Indices>
[[nodiscard]] integers<1> index_array(Indices const& indices) {
  auto values = std::vector<std::int64_t>{};
  for (auto const index : indices) values.push_back(index.value());
  return as_array(std::move(values));
}
[[nodiscard]] numpy_array<bool, 2> boolean_array(std::vector<bool> const& values, std::size_t rows,
                                                 std::size_t columns);
/// Rows of int64 with named columns.
/// @param values [rows * names.size()]
[[nodiscard]] record_array as_records(std::vector<std::int64_t> values,
                                      std::initializer_list<char const*> names);

/// The index that a number is.
/// @throws fssdp::argument_error unless 0 <= value < count
template <class Index>
[[nodiscard]] Index checked(char const* what, int value, int count) {
  fssdp::detail::require(value >= 0 && value < count, what, " ", value, "; expected 0 to ",
                         count - 1);
  return Index{value};
}
[[nodiscard]] inline fssdp::rank_id rank_of(int rank, int ranks) {
  return checked<fssdp::rank_id>("rank", rank, ranks);
}
[[nodiscard]] inline fssdp::expert_id expert_of(int expert, int experts) {
  return checked<fssdp::expert_id>("expert", expert, experts);
}

/// None stands for a topology without ranks: all on one node.
[[nodiscard]] inline fssdp::topology topology_of(fssdp::topology const* given) {
  return given == nullptr ? fssdp::topology{} : *given;
}

/// The enumerator of a name.
/// @throws fssdp::argument_error that lists the names
template <class Enum, std::size_t Count>
[[nodiscard]] Enum named(char const* what, std::string_view name,
                         std::array<std::pair<std::string_view, Enum>, Count> const& choices) {
  auto known = std::string{};
  for (auto const& [text, value] : choices) {
    if (text == name) return value;
    known += (known.empty() ? "'" : " or '") + std::string{text} + "'";
  }
  throw fssdp::argument_error{
      fssdp::detail::text(what, " is '", name, "'; expected ", std::string_view{known})};
}

}  // namespace python

namespace nanobind::detail {

template <>
struct type_caster<python::array_like> {
  NB_TYPE_CASTER(python::array_like, const_name("numpy.typing.ArrayLike"))
  bool from_python(handle from, std::uint32_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    value.object = borrow(from);
    return true;
  }
};
template <>
struct type_caster<python::record_array> {
  NB_TYPE_CASTER(python::record_array, const_name("numpy.typing.NDArray[numpy.void]"))
  static handle from_cpp(python::record_array const& from, rv_policy /*policy*/,
                         cleanup_list* /*cleanup*/) noexcept {
    return borrow(from.object).release();
  }
};

}  // namespace nanobind::detail
