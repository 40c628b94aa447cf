// SPDX-License-Identifier: Apache-2.0
/// Coded gathers and reductions where ranks are devices leave the bits that threads leave. Each
/// check is given results_of(ranks, work) and limits, as those of laws_on_devices.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/link_coding.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/comm/thread.hpp"
#include "gpu_double/gpu_double.hpp"
#include "support/any_buffer.hpp"
#include "support/coded_instance.hpp"
#include "support/device_bits.hpp"
#include "support/device_codecs.hpp"
#include "support/laws.hpp"
#include "support/on_all_ranks.hpp"
#include "support/types.hpp"

namespace support {

inline constexpr auto few_coding_devices = size_limits{.ranks = 6, .nodes = 3, .experts = 12};

/// The element types at either end of both collectives: of owners, of replicas, of partial gradients.
struct coded_types {
  fssdp::dtype shard;
  fssdp::dtype replicas;
  fssdp::dtype partials;
};

/// The bits of a buffer of any dtype.
[[nodiscard]] inline std::vector<std::byte> bytes_of(any_buffer& buffer) {
  auto all = std::vector<std::byte>{};
  for (auto const& tensor : buffer.bytes().tensors())
    for (std::size_t slot = 0; slot < tensor.slots; ++slot)
      all.insert(all.end(), tensor[slot].begin(), tensor[slot].end());
  return all;
}

/// The bits of a gather and a reduction on one rank, twice.
/// @param put put(comm, buffer) where the communicator's memory is, as long as what it returns
///            lives
template <class Comm, class Put>
[[nodiscard]] std::vector<std::byte> any_coded_bits(Comm& comm, coded_instance const& of,
                                                    coded_types const& types,
                                                    fssdp::link_coding const& coding, Put put) {
  auto const me = comm.rank();
  auto shard = any_shard(of, me, types.shard);
  auto partials = any_partials(of, me, types.partials);
  auto result = std::vector<std::byte>{};
  for (std::size_t turn = 0; turn < 2; ++turn) {
    fill_like_gradients(shard, 2 * me.index() + turn + 1);
    fill_like_gradients(partials, 2 * me.index() + turn + 1);
    auto all = any_partials(of, me, types.replicas);
    auto gradients = any_shard(of, me, types.shard);
    {
      auto&& from = put(comm, shard);
      auto&& to = put(comm, all);
      auto&& back = put(comm, partials);
      auto&& sums = put(comm, gradients);
      fssdp::sparse_all_gather(comm, of.plan, from.tensors(), to.tensors(), coding);
      fssdp::sparse_reduce_scatter(comm, of.plan, back.tensors(), sums.tensors(), coding,
                                   {.scale = 0.3});
      fssdp::synchronize(comm);
    }
    for (auto* const buffer : {&all, &gradients}) {
      auto const part = bytes_of(*buffer);
      result.insert(result.end(), part.begin(), part.end());
    }
  }
  return result;
}

/// The bits of reductions with feedback on one rank, three in a row, and of the residuals.
template <class Codec, class Comm, class Put>
[[nodiscard]] std::vector<std::uint64_t> fed_back_bits(Comm& comm, coded_instance const& of,
                                                       Put put) {
  auto const me = comm.rank();
  auto partials = fssdp::make_partials<fssdp::bf16>(of.plan, me, of.elements);
  auto residuals = fssdp::make_partials<float>(of.plan, me, of.elements);
  auto result = std::vector<std::uint64_t>{};
  for (std::size_t turn = 0; turn < 3; ++turn) {
    fill_like_gradients(partials, 2 * me.index() + turn + 1);
    auto gradients = fssdp::make_shard<float>(of.layout, me, of.elements);
    {
      auto&& back = put(comm, partials);
      auto&& left = put(comm, residuals);
      auto&& sums = put(comm, gradients);
      fssdp::sparse_reduce_scatter(comm, of.plan, back.tensors(), sums.tensors(),
                                   fssdp::coded_links{Codec{}, of.on}, left.tensors());
      fssdp::synchronize(comm);
    }
    for (auto const& part : {bits(gradients), bits(residuals)})
      result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

/// What stays on the host.
inline constexpr auto stay = [](auto&, auto& buffer) -> auto& { return buffer; };

/// Of every codec, and of all dtypes at either end in turn.
template <class ResultsOf>
void check_coded_bits_on_devices(ResultsOf results_of,
                                 size_limits const& limits = few_coding_devices) {
  gpu_double::reset({.only_device_memory = true});
  auto const dtypes = dtypes_of_a_test();
  auto seed = std::uint64_t{0};
  auto coded = 0;   // transfers
  auto summed = 0;  // of those back, that bring a sum
  for_each_device_codec([&](auto const& codec) {
    for (auto instance = 0; instance < some_instances * 2; ++instance) {
      auto const of = coded_instance{++seed, limits};
      auto draw = dice{seed};
      auto const types = coded_types{draw.one_of(dtypes), draw.one_of(dtypes), draw.one_of(dtypes)};
      auto const coding = fssdp::link_coding{fssdp::coded_links{codec, of.on}};
      CAPTURE(seed, coding.coder().name(), fssdp::name_of(types.shard),
              fssdp::name_of(types.replicas), fssdp::name_of(types.partials));
      auto const& back = of.plan.reduction();
      for (auto const& t : of.plan.transfers()) coded += goes_over(of, of.on, t) ? 1 : 0;
      for (auto const& t : back.transfers())
        if (goes_over(of, of.on, t) &&
            std::ranges::binary_search(back.forwarded(t.destination), t.what()))
          ++summed;
      auto const ranks = of.plan.ranks();
      auto const here = on_all_ranks(ranks, [&](fssdp::thread_communicator& comm) {
        return any_coded_bits(comm, of, types, coding, stay);
      });
      auto const there = results_of(ranks, [&](auto& comm) {
        return any_coded_bits(comm, of, types, coding, [](auto& on, auto& buffer) {
          return any_on_device{on, buffer};
        });
      });
      REQUIRE(here == there);
    }
  });
  REQUIRE((limits.ranks < 2 || coded > 100));  // of what the law is about there is something
  REQUIRE((limits.ranks < 4 || summed > 10));
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

/// What a payload lacks is left on the device, too.
template <class ResultsOf>
void check_feedback_on_devices(ResultsOf results_of,
                               size_limits const& limits = few_coding_devices) {
  gpu_double::reset({.only_device_memory = true});
  for_each_device_codec([&]<class Codec>(Codec const&) {
    for (auto seed = std::uint64_t{5000}; seed < 5000 + some_instances; ++seed) {
      CAPTURE(seed);
      auto const of = coded_instance{seed, limits};
      auto const ranks = of.plan.ranks();
      auto const here = on_all_ranks(ranks, [&](fssdp::thread_communicator& comm) {
        return fed_back_bits<Codec>(comm, of, stay);
      });
      auto const there = results_of(ranks, [&](auto& comm) {
        return fed_back_bits<Codec>(comm, of, [](auto& on, auto& buffer) {
          return on_device{on, buffer};
        });
      });
      REQUIRE(here == there);
    }
  });
  REQUIRE(gpu_double::violations() == std::vector<std::string>{});
}

}  // namespace support
