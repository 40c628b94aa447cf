// SPDX-License-Identifier: Apache-2.0
/// Stands for a profiler: NVTX finds it in the program and calls it.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace profiler {

/// What it has been told of one range.
struct seen_range {
  std::string domain;
  std::uint32_t category = 0;
  std::string message;
  std::optional<std::int64_t> payload;
  bool has_ended = false;
};

/// What it has been told at all.
struct report {
  std::mutex mutex;
  std::vector<std::string> domains;  ///< their handles are their numbers, from 1
  std::size_t destroyed = 0;
  std::map<std::string, std::uint32_t> categories;
  std::vector<seen_range> ranges;  ///< their ids are their numbers, from 1
  int ended_twice = 0;
};
inline report told = {};

inline nvtxDomainHandle_t create_domain(char const* name) {
  auto const lock = std::scoped_lock{told.mutex};
  told.domains.emplace_back(name);
  return reinterpret_cast<nvtxDomainHandle_t>(told.domains.size());  // NOLINT: a handle is a number
}
inline void destroy_domain(nvtxDomainHandle_t) {
  auto const lock = std::scoped_lock{told.mutex};
  ++told.destroyed;
}
inline void name_category(nvtxDomainHandle_t, std::uint32_t category, char const* name) {
  auto const lock = std::scoped_lock{told.mutex};
  told.categories[name] = category;
}
inline nvtxRangeId_t start_range(nvtxDomainHandle_t domain, nvtxEventAttributes_t const* about) {
  auto const lock = std::scoped_lock{told.mutex};
  auto range = seen_range{told.domains.at(reinterpret_cast<std::size_t>(domain) - 1),
                          about->category,
                          about->message.ascii,
                          {},
                          false};
  if (about->payloadType == NVTX_PAYLOAD_TYPE_INT64) range.payload = about->payload.llValue;
  told.ranges.push_back(range);
  return told.ranges.size();
}
inline void end_range(nvtxDomainHandle_t, nvtxRangeId_t id) {
  auto const lock = std::scoped_lock{told.mutex};
  auto& range = told.ranges.at(id - 1);
  if (range.has_ended) ++told.ended_twice;
  range.has_ended = true;
}

/// Puts the functions above into NVTX's table.
inline int inject(NvtxGetExportTableFunc_t exports) {
  auto const* table = static_cast<NvtxExportTableCallbacks const*>(exports(NVTX_ETID_CALLBACKS));
  auto functions = NvtxFunctionTable{};
  auto size = 0U;
  if (table == nullptr ||
      table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0)
    return 0;
  auto const put = [&](unsigned which, auto function) {
    *functions[which] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  put(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  put(NVTX_CBID_CORE2_DomainDestroy, destroy_domain);
  put(NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  put(NVTX_CBID_CORE2_DomainRangeStartEx, start_range);
  put(NVTX_CBID_CORE2_DomainRangeEnd, end_range);
  return 1;
}

}  // namespace profiler
