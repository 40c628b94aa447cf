// SPDX-License-Identifier: Apache-2.0
/// Codecs without kernels are refused by name, and a kernel that encodes wrongly is detected.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "fssdp/codec/coded_links.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/codec/link_coding.hpp"
#include "fssdp/collective/any_tensors.hpp"
#include "fssdp/comm/thread.hpp"
#include "peer/devices.hpp"
#include "support/coded_instance.hpp"
#include "support/coded_laws_on_devices.hpp"
#include "support/hundreds_codec.hpp"
#include "support/on_all_ranks.hpp"

using fssdp::peer_communicator;

static_assert(fssdp::coding_communicator<peer_communicator>);
static_assert(fssdp::detail::can_code<peer_communicator, fssdp::int8_codec>);
static_assert(!fssdp::detail::can_code<peer_communicator, support::hundreds_codec>);
static_assert(fssdp::detail::can_code<fssdp::thread_communicator, support::hundreds_codec>);

namespace {

/// A codec that derives from one of the library's, and does something else: devices do not know it.
struct louder_codec : fssdp::int8_codec {};
static_assert(!fssdp::detail::can_code<peer_communicator, louder_codec>);

constexpr auto fp32_at_all_ends =
    support::coded_types{fssdp::dtype::fp32, fssdp::dtype::fp32, fssdp::dtype::fp32};

/// Kernels whose first scale of every payload is twice what it should be.
cudaError_t encode_with_another_scale(cudaStream_t stream, fssdp::device_encoding const& of) {
  auto const code = gpu_double::kernels().encode(stream, of);
  if (code != cudaSuccess) return code;
  return gpu_double::enqueue(stream, [payload = of.payload] {
    auto scale = 0.0F;
    std::memcpy(&scale, payload, sizeof scale);
    scale *= 2;
    std::memcpy(payload, &scale, sizeof scale);
  });
}

}  // namespace

TEST_CASE("a codec that devices have no kernels for is refused by name") {
  gpu_double::reset();
  auto const of = support::coded_instance{1};
  auto const coding = fssdp::link_coding{fssdp::coded_links{support::hundreds_codec{}, of.on}};
  auto const code_something = [&](peer_communicator& comm) {
    (void)support::any_coded_bits(comm, of, fp32_at_all_ends, coding, support::stay);
  };
  REQUIRE_THROWS_WITH(peer_tests::on_devices({.ranks = of.plan.ranks()}, code_something),
                      mentions("expected one that has device kernels: int8_codec"));
}

TEST_CASE("payloads on a device without kernels are refused by name") {
  gpu_double::reset();
  auto const comm_without = [](peer_communicator& comm) {
    auto payload = std::vector<std::byte>(8);
    comm.encode(fssdp::device_encoding{.elements = 1, .payload = payload.data()});
  };
  REQUIRE_THROWS_WITH(fssdp::peer_world{{.ranks = 1}}.run(comm_without),
                      mentions("payloads on a device without kernels"));
}

TEST_CASE("a kernel that writes another scale does not leave the bits of threads") {
  gpu_double::reset();
  auto different = 0;
  auto coded = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const of = support::coded_instance{seed, support::few_coding_devices};
    auto const coding = fssdp::link_coding{fssdp::coded_links{fssdp::int8_codec{}, of.on}};
    auto const ranks = of.plan.ranks();
    auto const here = support::on_all_ranks(ranks, [&](fssdp::thread_communicator& comm) {
      return support::any_coded_bits(comm, of, fp32_at_all_ends, coding, support::stay);
    });
    auto there = here;
    auto options = peer_tests::options_of({.ranks = ranks});
    options.kernels.encode = encode_with_another_scale;
    fssdp::peer_world{options}.run([&](peer_communicator& comm) {
      there[comm.rank().index()] =
          support::any_coded_bits(comm, of, fp32_at_all_ends, coding, support::stay);
    });
    different += here == there ? 0 : 1;
    for (auto const& t : of.plan.transfers())
      if (support::goes_over(of, of.on, t)) {
        ++coded;
        break;
      }
  }
  REQUIRE(coded > 5);
  REQUIRE(different == coded);
}
