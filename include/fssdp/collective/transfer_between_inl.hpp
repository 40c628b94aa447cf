// SPDX-License-Identifier: Apache-2.0
/// What a transfer between two distributions does on one rank.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "fssdp/collective/check_buffers.hpp"
#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/core/chunk.hpp"
#include "fssdp/core/error.hpp"
#include "fssdp/core/inline.hpp"

namespace fssdp::detail {

/// Parts of slots as slots of a plan in which every part is an expert.
class part_slots {
 public:
  /// @param parts in the order of the plan's slots
  /// @param offsets the rows of the parts
  part_slots(tensor_view const& of, std::span<slot_part const> parts,
             std::span<std::size_t const> offsets)
      : of_{of}, offsets_{offsets} {
    for (auto const& part : parts)
      places_.push_back(of[part.slot].data + part.first * of.element_bytes);
  }
  /// @pre this lives as long
  [[nodiscard]] tensor_view view() const {
    auto view = of_;
    view.data = nullptr;
    view.slots = places_.size();
    view.elements = 1;
    view.stride = 1;
    view.places = places_.data();
    view.offsets = offsets_.data();
    return view;
  }

 private:
  tensor_view of_;
  std::span<std::size_t const> offsets_;
  std::vector<std::byte*> places_;
};

FSSDP_INLINE void between_call::check(int ranks) const {
  constexpr auto name = "transfer_between";
  require(ranks == plan_.ranks(), name, ": ", ranks, " ranks; the plan is for ", plan_.ranks());
  auto const check_shape = [&](named_tensors const& buffer, distribution const& of) {
    require(buffer.tensors.size() == plan_.elements().size(), name, ": ", buffer.name, " has ",
            buffer.tensors.size(), " tensors; expected ", plan_.elements().size());
    check_slots(name, buffer, of.slots(rank_).size(), "chunks that the rank has there");
    for (std::size_t k = 0; k < buffer.tensors.size(); ++k) {
      auto const expected = slice_elements(plan_.elements()[k], of.slices());
      require(buffer.tensors[k].elements == expected, name, ": tensor ", k, " of ", buffer.name,
              " has ", buffer.tensors[k].elements, " elements; expected ", expected);
    }
  };
  auto const source = named_tensors{"from", from_.all()};
  auto const target = named_tensors{"to", to_.all()};
  check_shape(source, plan_.from());
  check_shape(target, plan_.to());
  check_aliases(name, source, target);
}

FSSDP_INLINE void between_call::run(communicator_ref const& comm) const {
  auto const from = from_.all();
  auto const to = to_.all();
  make_conversions(comm, [&](conversion_batch& batch) {
    for (std::size_t k = 0; k < from.size(); ++k)
      for (auto const& part : plan_.classes()[plan_.class_of(k)].local.of(rank_))
        batch.add(find_(from[k].type, to[k].type),
                  from[k][part.from.slot].part(part.from.first, part.elements),
                  to[k][part.to.slot].part(part.to.first, part.elements));
  });
  for (std::size_t c = 0; c < plan_.classes().size(); ++c)
    for (auto const& plan : plan_.classes()[c].plan) {
      auto sources = std::vector<part_slots>{};
      auto targets = std::vector<part_slots>{};
      auto const& parts = plan_.classes()[c];
      for (std::size_t k = 0; k < from.size(); ++k) {
        if (plan_.class_of(k) != c) continue;
        sources.emplace_back(from[k], parts.sources.of(rank_), plan.owned_offsets(rank_));
        targets.emplace_back(to[k], parts.targets.of(rank_), plan.remote_offsets(rank_));
      }
      auto source_views = std::vector<tensor_view>{};
      auto target_views = std::vector<tensor_view>{};
      for (auto const& slots : sources) source_views.push_back(slots.view());
      for (auto const& slots : targets) target_views.push_back(slots.view());
      auto scratch = pass_scratch{comm, options_.scratch, options_.device_scratch};
      auto buffers =
          gather_buffers{plan, rank_, source_views, target_views, plan.remote(rank_), find_};
      buffers.label =
          plan_.hash_value();  // the plan alone does not say which experts its parts are
      auto const memory = gather_memory{buffers};
      gather_pass{plan, rank_, memory}.run(comm, scratch);
    }
}

}  // namespace fssdp::detail
