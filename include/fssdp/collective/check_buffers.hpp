// SPDX-License-Identifier: Apache-2.0
/// Rejects buffers that do not fit a plan, before anything is sent.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/transfer_plan.hpp"

namespace fssdp::detail {

/// @throws argument_error unless the plan is for this number of ranks
inline void check_ranks(char const* collective, int ranks, transfer_plan const& plan) {
  require(ranks == plan.ranks(), collective, ": the communicator has ", ranks, " ranks; expected ",
          plan.ranks(), ", as in the plan");
}

/// A buffer and its name in error messages.
struct named_tensors {
  char const* name;
  std::span<tensor_view const> tensors;
};

/// @throws argument_error unless every tensor has memory, a size that std::size_t can count, and
///         slots that do not overlap
inline void check_memory(char const* collective, named_tensors const& buffer) {
  for (std::size_t k = 0; k < buffer.tensors.size(); ++k) {
    auto const& tensor = buffer.tensors[k];
    auto const has_rows = tensor.offsets != nullptr;
    auto const rows = has_rows ? tensor.offsets[tensor.slots] - tensor.offsets[0] : 1;
    auto const empty = tensor.slots == 0 || tensor.elements == 0 || rows == 0;
    auto const most = std::numeric_limits<std::size_t>::max() / 2 / tensor.element_bytes;
    require(empty || tensor.elements <= most, collective, ": tensor ", k, " of ", buffer.name,
            " has ", tensor.elements, " elements; expected at most ", most);
    require(empty || rows <= most / tensor.elements, collective, ": tensor ", k, " of ",
            buffer.name, " has ", rows, " rows of ", tensor.elements,
            " elements; expected at most ", most, " elements in all");
    if (tensor.is_scattered()) {
      for (std::size_t slot = 0; slot < tensor.slots; ++slot)
        require(empty || tensor.rows(slot) == 0 || tensor[slot].data != nullptr, collective,
                ": slot ", slot, " of tensor ", k, " of ", buffer.name,
                " is null; expected memory for ", tensor.elements, " elements");
      continue;
    }
    require(empty || tensor.data != nullptr, collective, ": tensor ", k, " of ", buffer.name,
            " is null; expected memory for ", tensor.slots, " slots of ", tensor.elements,
            " elements");
    if (has_rows) continue;
    require(tensor.slots <= 1 || tensor.stride >= tensor.elements, collective, ": tensor ", k,
            " of ", buffer.name, " has a stride of ", tensor.stride, "; expected at least its ",
            tensor.elements, " elements, so that slots do not overlap");
    require(tensor.slots <= 1 || tensor.stride <= (most - tensor.elements) / (tensor.slots - 1),
            collective, ": tensor ", k, " of ", buffer.name, " has ", tensor.slots,
            " slots with a stride of ", tensor.stride, "; expected at most ", most,
            " elements in all");
  }
}

/// @throws argument_error unless slots have the numbers of rows that the plan says
/// @param offsets of the plan for these slots; empty if its experts are of equal size
inline void check_rows(char const* collective, named_tensors const& buffer,
                       std::span<std::size_t const> offsets) {
  for (std::size_t k = 0; k < buffer.tensors.size(); ++k) {
    auto const* const has = buffer.tensors[k].offsets;
    if (has == offsets.data()) continue;
    require(!offsets.empty(), collective, ": tensor ", k, " of ", buffer.name,
            " has row offsets; expected none, as the plan is for experts of equal size");
    require(has != nullptr, collective, ": tensor ", k, " of ", buffer.name,
            " has no row offsets; expected those of the plan, as its experts differ in size: "
            "make_shard, make_replicas and make_partials of the plan have them");
    for (std::size_t slot = 0; slot + 1 < offsets.size(); ++slot)
      require(has[slot + 1] - has[slot] == offsets[slot + 1] - offsets[slot], collective, ": slot ",
              slot, " of tensor ", k, " of ", buffer.name, " has ", has[slot + 1] - has[slot],
              " rows; expected ", offsets[slot + 1] - offsets[slot], ", as the plan says");
  }
}

/// @throws argument_error unless check_memory accepts it and every tensor has the expected slots
/// @param offsets of the plan, where experts differ in size
inline void check_slots(char const* collective, named_tensors const& buffer, std::size_t expected,
                        char const* shape, std::span<std::size_t const> offsets = {}) {
  for (auto const& tensor : buffer.tensors)
    require(tensor.slots == expected, collective, ": ", buffer.name, " has ", tensor.slots,
            " slots; expected ", expected, " (", shape, ")");
  check_rows(collective, buffer, offsets);
  check_memory(collective, buffer);
}

/// @throws argument_error unless each of the slots has room for a whole expert of these sizes
inline void check_partials(char const* collective, named_tensors const& buffer,
                           std::span<std::size_t const> elements, std::size_t slots) {
  require(buffer.tensors.size() == elements.size(), collective, ": ", buffer.name, " has ",
          buffer.tensors.size(), " tensors; expected ", elements.size());
  for (std::size_t k = 0; k < elements.size(); ++k)
    require(buffer.tensors[k].elements == elements[k], collective, ": tensor ", k, " of ",
            buffer.name, " has ", buffer.tensors[k].elements, " elements; expected ", elements[k]);
  check_slots(collective, buffer, slots, "experts that the rank holds");
}

/// @throws argument_error unless there are enough slots, each for one slice of such an expert
inline void check_arena(char const* collective, named_tensors const& buffer,
                        std::span<std::size_t const> elements, int slices, std::size_t slots) {
  require(buffer.tensors.size() == elements.size(), collective, ": ", buffer.name, " has ",
          buffer.tensors.size(), " tensors; expected ", elements.size());
  for (std::size_t k = 0; k < elements.size(); ++k) {
    auto const& tensor = buffer.tensors[k];
    auto const expected = slice_elements(elements[k], slices);
    require(tensor.elements == expected, collective, ": tensor ", k, " of ", buffer.name, " has ",
            tensor.elements, " elements; expected ", expected,
            slices == 1 ? "" : " (an even slice)");
    require(tensor.slots >= slots, collective, ": tensor ", k, " of ", buffer.name, " has ",
            tensor.slots, " slots; expected ", slots, " or more (chunks that the rank owns)");
  }
  check_rows(collective, buffer, {});
  check_memory(collective, buffer);
}

/// @throws argument_error unless both have the same tensors, `sharded` in slices and `whole` whole
inline void check_sizes(char const* collective, int slices, named_tensors const& sharded,
                        named_tensors const& whole) {
  require(sharded.tensors.size() == whole.tensors.size(), collective, ": ", sharded.name, " has ",
          sharded.tensors.size(), " tensors, ", whole.name, " has ", whole.tensors.size(),
          "; expected equal numbers");
  for (std::size_t k = 0; k < sharded.tensors.size(); ++k) {
    auto const expected = slice_elements(whole.tensors[k].elements, slices);
    require(sharded.tensors[k].elements == expected, collective, ": tensor ", k, " has ",
            sharded.tensors[k].elements, " elements in ", sharded.name, ", ",
            whole.tensors[k].elements, " in ", whole.name, "; expected ", expected, " in ",
            sharded.name, slices == 1 ? "" : " (an even slice)");
  }
}

/// @throws argument_error if tensors of a buffer, or slots of one tensor, share memory
inline void check_disjoint(char const* collective, named_tensors const& buffer) {
  for (std::size_t k = 0; k < buffer.tensors.size(); ++k) {
    require(!overlaps_itself(buffer.tensors[k]), collective, ": slots of tensor ", k, " of ",
            buffer.name, " share memory; expected disjoint slots");
    for (std::size_t j = 0; j < k; ++j)
      require(!overlap(buffer.tensors[k], buffer.tensors[j]), collective, ": tensors ", j, " and ",
              k, " of ", buffer.name, " share memory; expected disjoint tensors");
  }
}

/// @throws argument_error if the written buffer shares memory with the other one, or within itself
inline void check_aliases(char const* collective, named_tensors const& from,
                          named_tensors const& to) {
  for (std::size_t k = 0; k < to.tensors.size(); ++k)
    for (auto const& other : from.tensors)
      require(!overlap(to.tensors[k], other), collective, ": ", from.name, " and ", to.name,
              " share memory in tensor ", k, "; expected disjoint buffers");
  check_disjoint(collective, to);
}

}  // namespace fssdp::detail
