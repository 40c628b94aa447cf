// SPDX-License-Identifier: Apache-2.0
/// What a transfer between two distributions does on one rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fssdp/collective/communicator_work.hpp"
#include "fssdp/collective/gather_pass.hpp"
#include "fssdp/collective/in_place_order.hpp"
#include "fssdp/collective/pass_scratch.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/comm/communicator_ref.hpp"
#include "fssdp/element/element_work.hpp"
#include "fssdp/memory/aligned_memory.hpp"
#include "fssdp/memory/byte_count.hpp"
#include "fssdp/memory/tensor_list.hpp"
#include "fssdp/plan/blocked_writes.hpp"
#include "fssdp/plan/redistribution.hpp"

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
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  /// One of them lies elsewhere.
  void set(std::size_t slot, std::byte* place) { places_[slot] = place; }
  /// @pre this lives as long
  [[nodiscard]] tensor_view view() const {
    auto view = shape(of_, offsets_);
    view.slots = places_.size();
    view.places = places_.data();
    return view;
  }
  /// A view without memory.
  [[nodiscard]] static tensor_view shape(tensor_view const& of,
                                         std::span<std::size_t const> offsets) {
    auto view = of;
    view.data = nullptr;
    view.slots = 0;
    view.elements = 1;
    view.stride = 1;
    view.places = nullptr;
    view.offsets = offsets.data();
    return view;
  }

 private:
  tensor_view of_;
  std::span<std::size_t const> offsets_;
  std::vector<std::byte*> places_;
};

/// A transfer on one rank.
class rank_transfer {
 public:
  rank_transfer(redistribution const& plan, rank_id rank, std::span<tensor_view const> from,
                std::span<tensor_view const> to, find_conversion find)
      : plan_{plan}, rank_{rank}, from_{from}, to_{to}, find_{find} {
    for (std::size_t c = 0; c < plan.classes().size(); ++c)
      for (auto const& step : plan.classes()[c].steps) steps_.push_back({c, &step});
  }

  /// Whether anything is written where something is read.
  [[nodiscard]] bool is_in_place() const {
    return std::ranges::any_of(to_, [this](tensor_view const& target) {
      return std::ranges::any_of(
          from_, [&](tensor_view const& source) { return overlap(source, target); });
    });
  }
  [[nodiscard]] std::size_t scratch_bytes() const {
    if (!is_in_place()) return gather_bytes();
    return add_bytes(padded(gather_bytes()), order_in_place(lists().work).staging_bytes);
  }

  void run(communicator_ref const& comm, gather_options const& options) const {
    if (is_in_place()) return run_in_place(comm, options);
    make_conversions(comm, [&](conversion_batch& batch) {
      for_each_copy([&](std::size_t k, local_part const& part) {
        batch.add(conversion(k), source(k, part.from, part.elements),
                  target(k, part.to, part.elements));
      });
    });
    for (auto const& step : steps_) {
      auto scratch = pass_scratch{comm, options.scratch, options.device_scratch};
      gather(comm, step, scratch, [](part_slots&) {});
    }
  }

 private:
  struct step_of_class {
    std::size_t of;
    part_step const* step;
  };
  struct copied_part {
    std::size_t k;
    element_range from;
    element_range to;
  };
  /// What is read and written, and where, in the order of steps, tensors and parts.
  struct all_parts {
    in_place_work work;
    std::vector<element_range> arrivals;
    std::vector<copied_part> copies;
  };

  template <class Visit>
  void for_each_tensor(std::size_t of_class, Visit visit) const {
    for (std::size_t k = 0; k < from_.size(); ++k)
      if (plan_.class_of(k) == of_class) visit(k);
  }
  template <class Visit>
  void for_each_copy(Visit visit) const {
    for (std::size_t k = 0; k < from_.size(); ++k)
      for (auto const& part : plan_.classes()[plan_.class_of(k)].local.of(rank_)) visit(k, part);
  }
  [[nodiscard]] bool changes_type(std::size_t k) const { return from_[k].type != to_[k].type; }
  [[nodiscard]] element_conversion conversion(std::size_t k) const {
    return find_(from_[k].type, to_[k].type);
  }
  [[nodiscard]] element_range source(std::size_t k, slot_part const& part,
                                     std::size_t elements) const {
    return from_[k][part.slot].part(part.first, elements);
  }
  [[nodiscard]] element_range target(std::size_t k, slot_part const& part,
                                     std::size_t elements) const {
    return to_[k][part.slot].part(part.first, elements);
  }

  /// Runs a step; place(part_slots) may say where else the targets of a tensor are.
  template <class Place>
  void gather(communicator_ref const& comm, step_of_class const& of, pass_scratch& scratch,
              Place place) const {
    auto const& plan = of.step->plan;
    auto sources = std::vector<part_slots>{};
    auto targets = std::vector<part_slots>{};
    for_each_tensor(of.of, [&](std::size_t k) {
      sources.emplace_back(from_[k], of.step->sources.of(rank_), plan.owned_offsets(rank_));
      targets.emplace_back(to_[k], of.step->targets.of(rank_), plan.remote_offsets(rank_));
      place(targets.back());
    });
    auto source_views = std::vector<tensor_view>{};
    auto target_views = std::vector<tensor_view>{};
    for (auto const& slots : sources) source_views.push_back(slots.view());
    for (auto const& slots : targets) target_views.push_back(slots.view());
    auto buffers =
        gather_buffers{plan, rank_, source_views, target_views, plan.remote(rank_), find_};
    buffers.label = plan_.hash_value();  // the plan alone does not say which experts its parts are
    auto const memory = gather_memory{buffers};
    gather_pass{plan, rank_, memory}.run(comm, scratch);
  }

  /// The scratch of the step that takes most: for what it converts to send, and only relays.
  [[nodiscard]] std::size_t gather_bytes() const {
    auto most = std::size_t{0};
    for (auto const& of : steps_) {
      auto const& plan = of.step->plan;
      auto sources = std::vector<tensor_view>{};
      auto targets = std::vector<tensor_view>{};
      for_each_tensor(of.of, [&](std::size_t k) {
        sources.push_back(part_slots::shape(from_[k], plan.owned_offsets(rank_)));
        targets.push_back(part_slots::shape(to_[k], plan.remote_offsets(rank_)));
      });
      auto const buffers =
          gather_buffers{plan, rank_, sources, targets, plan.remote(rank_), nullptr};
      most = std::max(most, gather_scratch{buffers}.bytes());
    }
    return most;
  }

  [[nodiscard]] static byte_interval addresses(element_range const& of) {
    auto const begin = reinterpret_cast<std::uintptr_t>(of.data);
    return {begin, begin + of.bytes().size()};
  }
  [[nodiscard]] all_parts lists() const {
    auto all = all_parts{};
    auto const elements = [](std::span<std::size_t const> offsets, std::size_t slot) {
      return offsets[slot + 1] - offsets[slot];
    };
    all.work.steps = steps_.size();
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      auto const& step = *steps_[s].step;
      auto const sent = step.plan.owned_offsets(rank_);
      auto const wanted = step.plan.remote_offsets(rank_);
      for_each_tensor(steps_[s].of, [&](std::size_t k) {
        for (std::size_t i = 0; auto const& part : step.sources.of(rank_))
          all.work.sends.push_back(
              {addresses(source(k, part, elements(sent, i++))), s, changes_type(k)});
        for (std::size_t i = 0; auto const& part : step.targets.of(rank_)) {
          all.arrivals.push_back(target(k, part, elements(wanted, i++)));
          all.work.arrivals.push_back({addresses(all.arrivals.back()), s});
        }
      });
    }
    for_each_copy([&](std::size_t k, local_part const& part) {
      auto const from = source(k, part.from, part.elements);
      auto const to = target(k, part.to, part.elements);
      if (from.data == to.data && !changes_type(k)) return;  // already in place
      all.copies.push_back({k, from, to});
      all.work.copies.push_back({addresses(from), addresses(to)});
    });
    return all;
  }

  void run_in_place(communicator_ref const& comm, gather_options const& options) const {
    auto const all = lists();
    auto const order = order_in_place(all.work);
    auto const before_staging = padded(gather_bytes());
    auto const bytes = add_bytes(before_staging, order.staging_bytes);
    auto scratch = pass_scratch{comm, options.scratch, options.device_scratch};
    auto* const area = bytes == 0 ? nullptr : scratch.cut(0, bytes).data;
    auto const staged = [&](element_range const& of, std::size_t at) {
      return element_range{area + before_staging + at, of.count, of.element_bytes};
    };
    auto wave = order.waves.begin();
    auto landing = order.landing.begin();
    for (std::size_t s = 0; s <= steps_.size(); ++s) {
      for (; wave != order.waves.end() && wave->before == s; ++wave)
        make_conversions(comm, [&](conversion_batch& batch) {
          for (auto const& move : wave->moves) {
            auto const& to = move.arrives ? all.arrivals[move.item] : all.copies[move.item].to;
            if (move.how == in_place_order::how::placed) {
              batch.add({}, staged(to, move.at), to);
            } else {
              auto const& copy = all.copies[move.item];
              auto const is_aside = move.how == in_place_order::how::aside;
              batch.add(conversion(copy.k), copy.from, is_aside ? staged(to, move.at) : to);
            }
          }
        });
      if (s == steps_.size()) break;
      auto part = pass_scratch{comm, area};
      gather(comm, steps_[s], part, [&](part_slots& slots) {
        for (std::size_t i = 0; i < slots.size(); ++i, ++landing)
          if (*landing != in_place_order::none) slots.set(i, area + before_staging + *landing);
      });
    }
  }

  redistribution const& plan_;
  rank_id rank_;
  std::span<tensor_view const> from_;
  std::span<tensor_view const> to_;
  find_conversion find_;
  std::vector<step_of_class> steps_;
};

}  // namespace fssdp::detail
