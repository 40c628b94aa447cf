// SPDX-License-Identifier: Apache-2.0
#include "gpu/copies_by_cub.hpp"

#include <cub/device/device_memcpy.cuh>
#include <memory>
#include <span>
#include <vector>

#include "fssdp/comm/cuda/cuda_call.hpp"

namespace {

void require(cudaError_t code, char const* what) { fssdp::detail::cuda_require(code, {}, what); }

/// A list on the device.
template <class T>
struct device_list {
  fssdp::cuda_memory memory;

  explicit device_list(std::vector<T> const& from) : memory{from.size() * sizeof(T)} {
    require(cudaMemcpy(memory.bytes().data(), from.data(), from.size() * sizeof(T),
                       cudaMemcpyHostToDevice),
            "cudaMemcpy");
  }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory.bytes().data()); }
};

}  // namespace

std::function<void(cudaStream_t)> gpu_tests::copies_by_cub(fssdp::device_copies const& copies) {
  auto to = std::vector<std::byte*>{};
  auto from = std::vector<std::byte const*>{};
  auto bytes = std::vector<std::size_t>{};
  for (auto const& copy : std::span{copies.copies}.first(copies.count)) {
    to.push_back(copy.to);
    from.push_back(copy.from);
    bytes.push_back(copy.bytes);
  }
  struct lists {
    device_list<std::byte const*> from;
    device_list<std::byte*> to;
    device_list<std::size_t> bytes;
  };
  auto const on_device =
      std::make_shared<lists>(lists{device_list{from}, device_list{to}, device_list{bytes}});
  auto const call = [on_device, count = static_cast<std::int64_t>(copies.count)](
                        void* scratch, std::size_t& size, cudaStream_t stream) {
    require(cub::DeviceMemcpy::Batched(scratch, size, on_device->from.data(), on_device->to.data(),
                                       on_device->bytes.data(), count, stream),
            "cub::DeviceMemcpy::Batched");
  };
  auto size = std::size_t{0};
  call(nullptr, size, nullptr);
  auto const scratch = std::make_shared<fssdp::cuda_memory>(size);
  return [call, scratch](cudaStream_t stream) {
    auto all = scratch->bytes().size();
    call(scratch->bytes().data(), all, stream);
  };
}
