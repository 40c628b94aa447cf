// SPDX-License-Identifier: Apache-2.0
/// Transfers between distributions that lie in the same memory: the bits of those between separate
/// buffers, nothing else changed, and where chunks change their slots no more than two set aside.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "catch.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/collective/transfer_between.hpp"
#include "fssdp/comm/queued_communicator.hpp"
#include "fssdp/comm/thread.hpp"
#include "fssdp/memory/expert_buffer.hpp"
#include "fssdp/stream/host_stream.hpp"
#include "support/any_buffer.hpp"
#include "support/communicator_archetype.hpp"
#include "support/device_archetype.hpp"
#include "support/dice.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/random_distribution.hpp"

using fssdp::chunk_id;
using fssdp::distribution;
using fssdp::expert_id;
using fssdp::rank_id;
using fssdp::redistribution;
using fssdp::thread_communicator;

namespace {

constexpr auto overlap_laws = std::uint64_t{support::law_instances / 2 + 20};

[[nodiscard]] std::vector<fssdp::dtype> some_types(support::dice& draw, std::size_t count) {
  auto types = std::vector<fssdp::dtype>{};
  for (std::size_t k = 0; k < count; ++k)
    types.push_back(fssdp::all_dtypes[static_cast<std::size_t>(draw.between(0, 2))]);
  return types;
}

/// A transfer, and how its buffers lie on each rank.
struct overlapping_transfer {
  fssdp::topology topo;
  std::vector<std::size_t> elements;
  std::vector<fssdp::dtype> from_types;
  std::vector<fssdp::dtype> to_types;
  redistribution plan;

  explicit overlapping_transfer(std::uint64_t seed) : overlapping_transfer{support::dice{seed}} {}

 private:
  explicit overlapping_transfer(support::dice draw)
      : topo{some_topology(draw)},
        elements{some_elements(draw)},
        from_types{some_types(draw, elements.size())},
        to_types{draw.chance(50) ? from_types : some_types(draw, elements.size())},
        plan{some_plan(draw, topo, elements)} {}
  static fssdp::topology some_topology(support::dice& draw) {
    auto const ranks = draw.between(2, 6);
    return fssdp::topology{{.nodes = draw.between(1, std::min(ranks, 3)), .ranks = ranks}};
  }
  static std::vector<std::size_t> some_elements(support::dice& draw) {
    auto sizes = std::vector<std::size_t>(static_cast<std::size_t>(draw.between(1, 3)));
    for (auto& size : sizes)
      size = static_cast<std::size_t>(draw.chance(20) ? draw.between(1, 900) : draw.between(1, 20));
    if (sizes.size() > 1 && draw.chance(50)) sizes[1] = sizes[0];
    return sizes;
  }
  static redistribution some_plan(support::dice& draw, fssdp::topology const& topo,
                                  std::span<std::size_t const> elements) {
    auto const experts = draw.between(1, 8);
    auto const from = support::random_distribution(draw, experts, topo.ranks(), true);
    auto const to = support::random_distribution(draw, experts, topo.ranks(), false);
    return {from,
            to,
            elements,
            topo,
            {.element_bytes = draw.chance(50) ? 4U : 2U,
             .schedule = {.least_bytes = draw.chance(50) ? 64U : 1024U},
             .in_place = draw.chance(70),
             .source_element_bytes = draw.chance(50) ? 4U : 0U}};
  }
};

/// One block of memory of a rank, and two lists of tensors in it.
class shared_block {
 public:
  shared_block(overlapping_transfer const& of, rank_id rank, support::dice draw)
      : of_{of}, rank_{rank} {
    auto const from_bytes = lay(draw, of.plan.from(), of.from_types, 0, from_);
    auto const way = draw.between(0, 3);  // the same address, apart, or in between
    auto const shift =
        way == 0 ? std::size_t{0}
        : way == 1
            ? from_bytes
            : 8 * static_cast<std::size_t>(draw.between(0, static_cast<int>(from_bytes / 8)));
    auto const end = lay(draw, of.plan.to(), of.to_types, shift, to_);
    memory_.resize(std::max(from_bytes, end) / sizeof(double) + 1);
    for (auto& number : memory_) number = draw.between(-1000, 1000);
    for (auto* const list : {&from_, &to_})
      for (auto& tensor : *list) {
        tensor.view.data = bytes() + tensor.begin;
        for (auto const place : tensor.offsets) tensor.places.push_back(bytes() + place);
        if (tensor.is_scattered) tensor.view.places = tensor.places.data();
      }
    for_each_slot(of.plan.from(), from_, [&](std::size_t k, std::size_t slot, std::byte* place) {
      auto values = std::vector<double>(elements(of.plan.from(), k, slot));
      for (auto& value : values) value = draw.between(-1000, 1000) / 8.0;
      auto one = from_[k].view;
      one.data = place;
      one.places = nullptr;
      support::write(one, 0, values);
    });
  }
  shared_block(shared_block const&) = delete;

  [[nodiscard]] std::vector<fssdp::any_tensor> from() const { return views(from_); }
  [[nodiscard]] std::vector<fssdp::any_tensor> to() const { return views(to_); }

  /// What all of it becomes if a transfer from a copy of the source goes to other memory first.
  [[nodiscard]] std::vector<double> expected(thread_communicator& comm) {
    auto result = memory_;
    auto const source = apart(of_.plan.from(), of_.from_types);
    auto const target = apart(of_.plan.to(), of_.to_types);
    for_each_slot(of_.plan.from(), from_, [&](std::size_t k, std::size_t slot, std::byte* place) {
      std::memcpy(of_slot(source[k], slot), place,
                  elements(of_.plan.from(), k, slot) * fssdp::bytes_of(of_.from_types[k]));
    });
    transfer_between(comm, of_.plan, tensors_of(source), tensors_of(target));
    for_each_slot(of_.plan.to(), to_, [&](std::size_t k, std::size_t slot, std::byte* place) {
      std::memcpy(reinterpret_cast<std::byte*>(result.data()) + (place - bytes()),
                  of_slot(target[k], slot),
                  elements(of_.plan.to(), k, slot) * fssdp::bytes_of(of_.to_types[k]));
    });
    return result;
  }
  [[nodiscard]] bool is(std::vector<double> const& expected) const {
    return std::memcmp(expected.data(), memory_.data(), memory_.size() * sizeof(double)) == 0;
  }

 private:
  struct laid_tensor {
    fssdp::any_tensor view;
    std::size_t begin = 0;
    bool is_scattered = false;
    std::vector<std::size_t> offsets;  // [slots]
    std::vector<void*> places;
  };

  /// One tensor behind the other in any order, slots with gaps, some of them one by one.
  [[nodiscard]] std::size_t lay(support::dice& draw, distribution const& where,
                                std::vector<fssdp::dtype> const& types, std::size_t at,
                                std::vector<laid_tensor>& list) const {
    auto const tight = draw.chance(50);
    auto order = std::vector<std::size_t>{};
    for (std::size_t k = 0; k < types.size(); ++k) order.push_back(k);
    draw.shuffle(order);
    list.resize(types.size());
    for (auto const k : order) {
      auto const slots = where.slots(rank_).size();
      auto const room = fssdp::slice_elements(of_.elements[k], where.slices());
      auto const stride = room + static_cast<std::size_t>(tight ? 0 : draw.between(0, 3));
      auto& tensor = list[k];
      tensor.begin = at;
      tensor.is_scattered = draw.chance(20);
      tensor.view = {types[k], nullptr, slots, room, stride};
      for (std::size_t slot = 0; slot < slots; ++slot)
        tensor.offsets.push_back(at + slot * stride * fssdp::bytes_of(types[k]));
      if (tensor.is_scattered) draw.shuffle(tensor.offsets);
      at += (slots * stride * fssdp::bytes_of(types[k]) + 7) / 8 * 8;
    }
    return at;
  }
  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(memory_.data()); }
  /// Without padding.
  [[nodiscard]] std::size_t elements(distribution const& where, std::size_t k,
                                     std::size_t slot) const {
    auto const slice = where.slots(rank_)[slot].slice;
    return fssdp::slice_extent{of_.elements[k], slice, where.slices()}.elements;
  }
  template <class Visit>
  void for_each_slot(distribution const& where, std::vector<laid_tensor>& list, Visit visit) {
    for (std::size_t k = 0; k < list.size(); ++k)
      for (std::size_t slot = 0; slot < where.slots(rank_).size(); ++slot)
        visit(k, slot, bytes() + list[k].offsets[slot]);
  }
  [[nodiscard]] static std::vector<fssdp::any_tensor> views(std::vector<laid_tensor> const& list) {
    auto all = std::vector<fssdp::any_tensor>{};
    for (auto const& tensor : list) all.push_back(tensor.view);
    return all;
  }

  [[nodiscard]] std::vector<support::any_buffer> apart(
      distribution const& where, std::vector<fssdp::dtype> const& types) const {
    auto const sizes = fssdp::slice_sizes(of_.elements, where.slices());
    auto list = std::vector<support::any_buffer>{};
    for (std::size_t k = 0; k < types.size(); ++k)
      list.emplace_back(types[k], where.slots(rank_).size(), std::span{&sizes[k], 1});
    return list;
  }
  [[nodiscard]] static std::vector<fssdp::any_tensor> tensors_of(
      std::vector<support::any_buffer> const& list) {
    auto all = std::vector<fssdp::any_tensor>{};
    for (auto const& buffer : list) all.push_back(buffer.tensors()[0]);
    return all;
  }
  [[nodiscard]] static std::byte* of_slot(support::any_buffer const& buffer, std::size_t slot) {
    auto const& tensor = buffer.tensors()[0];
    return static_cast<std::byte*>(tensor.data) +
           slot * tensor.stride * fssdp::bytes_of(tensor.type);
  }

  overlapping_transfer const& of_;
  rank_id rank_;
  std::vector<laid_tensor> from_;
  std::vector<laid_tensor> to_;
  std::vector<double> memory_;
};

/// What is not as it should be on a rank, after a transfer within a block.
/// @param run(comm, from, to, scratch that it needs) makes it, and says whether scratch was enough
template <class Run>
[[nodiscard]] int wrong_within(thread_communicator& comm, overlapping_transfer const& of,
                               std::uint64_t seed, Run run) {
  auto const me = comm.rank();
  auto block = shared_block{of, me, support::dice{10 * seed + me.index()}};
  auto const expected = block.expected(comm);
  auto const from = block.from();
  auto const to = block.to();
  auto const enough = run(from, to, scratch_required(of.plan, me, from, to));
  return (block.is(expected) ? 0 : 1) + (enough ? 0 : 2);
}

/// Transfers by one of the ways that there are.
[[nodiscard]] int wrong_in_some_way(thread_communicator& comm, overlapping_transfer const& of,
                                    std::uint64_t seed) {
  using tensors = std::vector<fssdp::any_tensor>;
  auto const on_host = [&](auto& over) {
    return [&](tensors const& from, tensors const& to, std::size_t bytes) {
      auto scratch = fssdp::scratch_memory{};
      transfer_between(over, of.plan, from, to, {.scratch = &scratch});
      synchronize(over);
      return scratch.bytes() == bytes;
    };
  };
  if (seed % 4 == 1) {
    auto by_rounds = support::exchange_only{comm};
    return wrong_within(comm, of, seed, on_host(by_rounds));
  }
  if (seed % 4 == 2) {
    auto stream = fssdp::host_stream{};
    auto queued = on_stream(comm, stream);
    return wrong_within(comm, of, seed, on_host(queued));
  }
  if (seed % 4 == 3) {
    auto device = support::on_a_device{comm};
    return wrong_within(comm, of, seed,
                        [&](tensors const& from, tensors const& to, std::size_t bytes) {
                          if (seed % 8 == 3) {  // what it allocates it frees
                            transfer_between(device, of.plan, from, to);
                            return device.live() == 0;
                          }
                          auto memory = fssdp::scratch_memory{};
                          auto const given = memory.reserve(bytes + 64).first(bytes);
                          transfer_between(device, of.plan, from, to, {.device_scratch = given});
                          return device.allocations() == 0 && device.live() == 0;
                        });
  }
  return wrong_within(comm, of, seed, on_host(comm));
}

/// Chunks change places at random: among all ranks, in slots that stay full, or wherever.
[[nodiscard]] redistribution random_permutation(support::dice& draw, int ranks, int slots,
                                                std::size_t elements, int slices, bool in_place) {
  auto const experts = ranks * slots;
  auto chunks = std::vector<chunk_id>{};
  for (auto const chunk : fssdp::chunk_range{0, experts * slices, slices}) chunks.push_back(chunk);
  auto const lists = [&] {
    draw.shuffle(chunks);
    auto each = std::vector<std::vector<chunk_id>>(static_cast<std::size_t>(ranks));
    auto const full = draw.chance(60);
    for (int i = 0; auto const chunk : chunks)
      each[static_cast<std::size_t>(full ? i++ % ranks : draw.between(0, ranks - 1))].push_back(
          chunk);
    return distribution{experts, slices, std::move(each)};
  };
  auto const from = lists();
  auto const to = lists();
  return {from, to, std::vector{elements}, {}, {.in_place = in_place}};
}

/// The most that a rank of a plan needs beside one buffer for all.
[[nodiscard]] std::size_t most_beside(redistribution const& plan) {
  auto most = std::size_t{0};
  for (auto const rank : fssdp::first_n<rank_id>(plan.ranks())) {
    auto const slots = [&](distribution const& of) { return of.slots(rank).size(); };
    auto const room = std::max(slots(plan.from()), slots(plan.to()));
    auto memory = fssdp::expert_buffer<float>{
        room, fssdp::slice_sizes(plan.elements(), plan.from().slices())};
    auto const some = [&](std::size_t count) {
      auto tensor = memory.tensors()[0];
      tensor.slots = count;
      return tensor;
    };
    most = std::max(most,
                    scratch_required(plan, rank, some(slots(plan.from())), some(slots(plan.to()))));
  }
  return most;
}

}  // namespace

TEST_CASE("a transfer within one block of memory leaves the bits of one between two",
          "[collective]") {
  for (std::uint64_t seed = 0; seed < overlap_laws; ++seed) {
    auto const of = overlapping_transfer{seed};
    auto const wrong = support::on_all_ranks(of.topo.ranks(), [&](thread_communicator& comm) {
      return wrong_in_some_way(comm, of, seed);
    });
    INFO("seed " << seed);
    CHECK(wrong == std::vector<int>(wrong.size(), 0));
  }
}

TEST_CASE("where chunks change their slots in place, two at most are set aside on a rank",
          "[collective]") {
  constexpr auto elements = std::size_t{96};
  auto more_at_once = 0;
  for (std::uint64_t seed = 0; seed < overlap_laws; ++seed) {
    auto draw = support::dice{seed};
    auto const ranks = draw.between(2, 8);
    auto const slots = draw.between(1, 9);
    auto const slices = draw.between(1, 3);
    auto const chunk = sizeof(float) * elements / static_cast<std::size_t>(slices);
    auto again = draw;
    auto const plan = random_permutation(draw, ranks, slots, elements, slices, true);
    INFO("seed " << seed);
    CHECK(most_beside(plan) <= 2 * chunk);
    auto const at_once = random_permutation(again, ranks, slots, elements, slices, false);
    CHECK(at_once.bytes().total == plan.bytes().total);
    auto const in_steps = plan.classes()[0].steps.size() > 1;
    CHECK((at_once.hash_value() != plan.hash_value()) == in_steps);
    more_at_once += most_beside(at_once) > 2 * chunk ? 1 : 0;
  }
  CHECK(more_at_once > 0);
}
