// SPDX-License-Identifier: Apache-2.0
/// How fast ranks on one device move, sum and code experts, beside a plain copy of the same device.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "fssdp/codec/bf16_codec.hpp"
#include "fssdp/codec/fp8_e4m3_codec.hpp"
#include "fssdp/codec/fp8_e5m2_codec.hpp"
#include "fssdp/codec/int8_codec.hpp"
#include "fssdp/collective/sparse_all_gather.hpp"
#include "fssdp/collective/sparse_reduce_scatter.hpp"
#include "fssdp/comm/peer.hpp"
#include "fssdp/layout/block_layout.hpp"
#include "fssdp/memory/scratch_memory.hpp"
#include "fssdp/plan/make_plan.hpp"
#include "fssdp/solver/everywhere.hpp"
#include "gpu/copies_by_cub.hpp"
#include "gpu_double/gpu_double.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
constexpr auto mib = std::size_t{1} << 20U;

[[nodiscard]] double microseconds_since(clock_type::time_point start) {
  return std::chrono::duration<double, std::micro>(clock_type::now() - start).count();
}
void require(cudaError_t code, char const* what) { fssdp::detail::cuda_require(code, {}, what); }

/// How often each thing is enqueued, so that the wait at the end, which all have, counts as little.
constexpr auto times = 64;

/// Microseconds of work(stream, i) for i from 0 on: the best of five.
template <class Work>
[[nodiscard]] double time_of(Work work) {
  auto const stream = fssdp::make_cuda_stream();
  auto best = 1e30;
  for (int trial = 0; trial < 6; ++trial) {  // the first warms up
    require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    auto const start = clock_type::now();
    for (std::size_t i = 0; i < times; ++i) work(stream.get(), i);
    require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    if (trial != 0) best = std::min(best, microseconds_since(start) / times);
  }
  return best;
}
/// Of one plain copy from device to device; of several in turn, so that none finds its bytes in a
/// cache.
[[nodiscard]] double copy_time(std::size_t bytes, std::size_t in_turn = 1) {
  auto const memory = fssdp::cuda_memory{2 * bytes * in_turn};
  return time_of([&](cudaStream_t stream, std::size_t i) {
    auto* const from = memory.bytes().data() + 2 * bytes * (i % in_turn);
    require(cudaMemcpyAsync(from + bytes, from, bytes, cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync");
  });
}

/// The experts of one rank, all in device memory: an owned one, and a slot for each.
struct rank_experts {
  std::size_t elements;
  fssdp::cuda_memory arena;
  fssdp::expert_tensor<float> shard;
  fssdp::expert_tensor<float> all;
  fssdp::expert_tensor<float> gradients;

  rank_experts(int ranks, std::size_t bytes)
      : elements{bytes / sizeof(float)}, arena{(static_cast<std::size_t>(ranks) + 2) * bytes} {
    auto* const first = reinterpret_cast<float*>(arena.bytes().data());
    shard = {first, 1, elements};
    gradients = {first + elements, 1, elements};
    all = {first + 2 * elements, static_cast<std::size_t>(ranks), elements};
    require(cudaMemset(first, 0, arena.bytes().size()), "cudaMemset");
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the ranks' streams do not wait
  }
};

struct collective_times {
  double gather;          // microseconds, of all ranks together
  double reduce;          // likewise
  double enqueue_gather;  // until the call has returned, on average
};

/// Nobody waits at a barrier for a rank that has thrown.
struct leaves_barrier {
  std::barrier<>& of;
  ~leaves_barrier() { of.arrive_and_drop(); }
};

/// Every rank owns an expert, all hold it.
[[nodiscard]] collective_times times_of(int ranks, std::size_t bytes, fssdp::copied_by copies) {
  auto const layout = fssdp::block_layout{{.experts = ranks, .ranks = ranks}};
  auto const plan = make_plan(layout, fssdp::everywhere{}(layout));
  auto meets = std::barrier{ranks};
  auto result = collective_times{1e30, 1e30, 1e30};
  fssdp::peer_world{
      {.ranks = ranks, .devices = 1, .kernels = gpu_double::kernels(), .copies = copies}}
      .run([&](fssdp::peer_communicator& comm) {
        auto const leaves = leaves_barrier{meets};
        auto const mine = rank_experts{ranks, bytes};
        auto lists = fssdp::scratch_memory{};
        auto const measure = [&](auto collective, double& best, double* enqueuing) {
          for (int trial = 0; trial < 6; ++trial) {
            comm.synchronize();
            meets.arrive_and_wait();
            auto const start = clock_type::now();
            for (int i = 0; i < times; ++i) collective();
            auto const enqueued = microseconds_since(start) / times;
            comm.synchronize();
            meets.arrive_and_wait();
            auto const took = microseconds_since(start) / times;
            if (comm.rank() != fssdp::rank_id{0} || trial == 0) continue;
            best = std::min(best, took);
            if (enqueuing != nullptr) *enqueuing = std::min(*enqueuing, enqueued);
          }
        };
        measure(
            [&] {
              fssdp::sparse_all_gather(comm, plan, mine.shard, mine.all, {.scratch = &lists});
            },
            result.gather, &result.enqueue_gather);
        measure(
            [&] {
              fssdp::sparse_reduce_scatter(comm, plan, mine.all, mine.gradients,
                                           {.scratch = &lists});
            },
            result.reduce, nullptr);
      });
  return result;
}

[[nodiscard]] char const* name_of(fssdp::copied_by copies) {
  return copies == fssdp::copied_by::engines ? "engines" : "kernels";
}

/// A gather is set beside a copy of all that it writes, and beside the least that memory has to do:
/// a shard of a few MiB is read once, and by others from a cache.
void print_verbs(int ranks, std::size_t bytes) {
  auto const n = static_cast<double>(ranks);
  auto const moved = bytes * static_cast<std::size_t>(ranks * ranks);  // own slots are written too
  auto const copied = copy_time(moved);
  auto const rate = 2e-3 * static_cast<double>(moved) / copied;  // GB/s, read and written
  auto const bound =
      1e-3 * n * (n + 1) * static_cast<double>(bytes) / rate;  // of either collective
  for (auto const copies : {fssdp::copied_by::engines, fssdp::copied_by::kernels}) {
    auto const took = times_of(ranks, bytes, copies);
    std::printf(
        "%2d ranks, %3zu MiB, %-7s | gather %8.1f us, a copy of as much %8.1f us: %.2f of its "
        "rate, "
        "%.2f of memory's | reduction %8.1f us, (k+1) S at that rate %8.1f us: %.2f\n",
        ranks, bytes / mib, name_of(copies), took.gather, copied, copied / took.gather,
        bound / took.gather, took.reduce, bound, bound / took.reduce);
  }
}

/// Batches of many copies, used in turn.
class many_copies {
 public:
  static constexpr auto one = std::size_t{64} << 10U;
  static constexpr auto count = std::size_t{64};

  explicit many_copies(std::size_t in_turn)
      : memory_{4 * count * one * in_turn}, batches_(in_turn), lists_(in_turn) {
    for (std::size_t turn = 0; turn < in_turn; ++turn) {
      auto const part = memory_.bytes().subspan(4 * count * one * turn, 4 * count * one);
      batches_[turn].count = count;
      for (std::size_t i = 0; i < count; ++i) {
        auto const from = part.subspan((2 * i) * one, one);
        auto const to = part.subspan((2 * (count + i) + 1) * one, one);
        batches_[turn].copies[i] = {to.data(), from.data(), one};
        lists_[turn].add(fssdp::detail::copy_way::within_device, to, from);
      }
    }
  }
  [[nodiscard]] fssdp::device_copies const& batch(std::size_t i) const {
    return batches_[i % batches_.size()];
  }
  [[nodiscard]] fssdp::detail::peer_copies& list(std::size_t i) {
    return lists_[i % lists_.size()];
  }

 private:
  fssdp::cuda_memory memory_;
  std::vector<fssdp::device_copies> batches_;
  std::vector<fssdp::detail::peer_copies> lists_;
};

void print_batch(char const* where, std::size_t in_turn) {
  auto copies = many_copies{in_turn};
  auto const kernels = gpu_double::kernels();
  auto const plain = copy_time(many_copies::count * many_copies::one, in_turn);
  auto const launched = time_of([&](cudaStream_t stream, std::size_t i) {
    require(kernels.copy(stream, copies.batch(i)), "a kernel that copies");
  });
  auto const engines = time_of([&](cudaStream_t stream, std::size_t i) {
    copies.list(i).enqueue_on_engines(stream, fssdp::rank_id{});
  });
  auto cub = std::vector<std::function<void(cudaStream_t)>>{};
  for (std::size_t i = 0; i < in_turn; ++i)
    cub.push_back(gpu_tests::copies_by_cub(copies.batch(i)));
  auto const by_cub =
      time_of([&](cudaStream_t stream, std::size_t i) { cub[i % in_turn](stream); });
  std::printf(
      "64 copies of 64 KiB, %s: one launch %.1f us, %.2f of the rate of one copy of 4 MiB, which "
      "takes %.1f us; cudaMemcpyBatchAsync %.1f us, cub::DeviceMemcpy::Batched %.1f us\n",
      where, launched, plain / launched, plain, engines, by_cub);
}

/// Sums over as many payloads as an expert of 8 ranks has.
constexpr auto coded_operands = std::size_t{8};

struct coding_times {
  double encode;  // microseconds
  double decode;
  double sum;  // of coded_operands payloads
};

/// Of fp32 elements, several sets in turn, so that none finds its bytes in a cache.
[[nodiscard]] coding_times times_of_coding(fssdp::payload_code code, std::size_t elements,
                                           std::size_t payload_bytes) {
  constexpr auto in_turn = std::size_t{4};
  auto const kernels = gpu_double::kernels();
  auto const bytes = elements * sizeof(float);
  auto const payload_room = (payload_bytes + 255) / 256 * 256;
  auto const set = bytes + coded_operands * payload_room;
  auto const memory = fssdp::cuda_memory{in_turn * set};
  require(cudaMemset(memory.bytes().data(), 0, memory.bytes().size()), "cudaMemset");
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  auto const begin = [&](std::size_t i) { return memory.bytes().data() + i % in_turn * set; };
  auto const payload = [&](std::size_t i, std::size_t k) {
    return begin(i) + bytes + k * payload_room;
  };
  auto const sum_of = [&](std::size_t operands) {
    return [&, operands](cudaStream_t stream, std::size_t i) {
      auto sum = fssdp::device_sums{};
      sum.code = code;
      sum.begin(begin(i), elements);
      for (std::size_t k = 0; k < operands; ++k)
        sum.add(
            {payload(i, (i / in_turn + k) % coded_operands), fssdp::device_sums::kind::payload});
      require(kernels.sum(stream, sum), "a kernel that decodes");
    };
  };
  auto const encode = [&](cudaStream_t stream, std::size_t i) {
    require(kernels.encode(stream, {.code = code,
                                    .elements = elements,
                                    .from = begin(i),
                                    .payload = payload(i, i / in_turn % coded_operands)}),
            "a kernel that encodes");
  };
  return {time_of(encode), time_of(sum_of(1)), time_of(sum_of(coded_operands))};
}

/// Payloads of experts in fp32, in GB/s of all that is read and written, beside a plain copy's.
template <class Codec>
void print_coding(char const* name, Codec const& codec, std::size_t bytes) {
  auto const elements = bytes / sizeof(float);
  auto const payload = codec.encoded_bytes(elements);
  auto const took = times_of_coding(*fssdp::detail::code_on_devices<Codec>, elements, payload);
  auto const copied = 2e-3 * static_cast<double>(bytes) / copy_time(bytes, 4);
  auto const rate = [](std::size_t moved, double microseconds) {
    return 1e-3 * static_cast<double>(moved) / microseconds;
  };
  auto const encode = rate(bytes + payload, took.encode);
  auto const decode = rate(bytes + payload, took.decode);
  auto const sum = rate(bytes + coded_operands * payload, took.sum);
  std::printf(
      "%-8s of %3zu MiB in fp32 | encode %6.0f GB/s, %.2f of a copy's rate | decode %6.0f GB/s, "
      "%.2f | sum of %zu payloads %6.0f GB/s, %.2f\n",
      name, bytes / mib, encode, encode / copied, decode, decode / copied, coded_operands, sum,
      sum / copied);
}

/// A sum of k operands is set beside a copy that reads and writes as many bytes as it.
void print_sum(fssdp::dtype partials, fssdp::dtype results, std::size_t k) {
  auto const elements = 128 * mib / fssdp::bytes_of(partials);
  auto const kernels = gpu_double::kernels();
  auto const of_operand = elements * fssdp::bytes_of(partials);
  auto const of_result = elements * fssdp::bytes_of(results);
  auto const moved = k * of_operand + of_result;
  auto const memory = fssdp::cuda_memory{moved};
  require(cudaMemset(memory.bytes().data(), 0, moved), "cudaMemset");
  auto sum = fssdp::device_sums{};
  sum.partials = partials;
  sum.results = results;
  sum.begin(memory.bytes().data(), elements);
  for (std::size_t i = 0; i < k; ++i) sum.add({memory.bytes().data() + of_result + i * of_operand});
  auto const took = time_of([&](cudaStream_t stream, std::size_t) {
    require(kernels.sum(stream, sum), "a kernel that sums");
  });
  auto const copied = copy_time(moved / 2);
  std::printf(
      "sum of %zu operands, %s to %s, %4zu MiB read and written: %7.1f us, %.2f TB/s, %.2f of a "
      "copy's rate\n",
      k, fssdp::name_of(partials).data(), fssdp::name_of(results).data(), moved / mib, took,
      1e-6 * static_cast<double>(moved) / took, copied / took);
}
void print_sums() {
  using enum fssdp::dtype;
  for (auto const k : {std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
    print_sum(fp32, fp32, k);
    print_sum(bf16, fp32, k);
    print_sum(bf16, bf16, k);
    print_sum(e4m3, bf16, k);
    print_sum(e4m3, e4m3, k);
  }
}

void print_overhead() {
  auto const memory = fssdp::cuda_memory{4096};
  auto const kernels = gpu_double::kernels();
  auto sum = fssdp::device_sums{};
  sum.begin(memory.bytes().data() + 256, 4);
  sum.add({memory.bytes().data()});
  auto const launch = time_of([&](cudaStream_t stream, std::size_t) {
    require(kernels.sum(stream, sum), "a kernel that sums");
  });
  auto const tiny = times_of(8, 256, fssdp::copied_by::kernels);
  std::printf(
      "overhead: a launch of a tiny sum %.1f us; a gather of 8 ranks, 256 bytes each %.1f us, "
      "of which the call %.1f us; a reduction %.1f us; nothing of a plan is brought to the "
      "device\n",
      launch, tiny.gather, tiny.enqueue_gather, tiny.reduce);
}

}  // namespace

int main() {
  auto of_device = cudaDeviceProp{};
  require(cudaGetDeviceProperties(&of_device, 0), "cudaGetDeviceProperties");
  std::printf("on one %s\n", of_device.name);
  for (auto const bytes : {mib, 4 * mib, 16 * mib, 48 * mib}) print_verbs(8, bytes);
  for (auto const ranks : {2, 4, 16}) print_verbs(ranks, 16 * mib);
  print_batch("in the cache", 1);
  print_batch("in memory", 32);  // 512 MiB
  print_sums();
  for (auto const bytes : {4 * mib, 64 * mib}) {
    print_coding("int8", fssdp::int8_codec{}, bytes);
    print_coding("fp8_e4m3", fssdp::fp8_e4m3_codec{}, bytes);
    print_coding("fp8_e5m2", fssdp::fp8_e5m2_codec{}, bytes);
    print_coding("bf16", fssdp::bf16_codec{}, bytes);
  }
  print_overhead();
}
