// SPDX-License-Identifier: Apache-2.0
// Collectives, communicators, memory, sums, the materializer. A part of compiled.cpp.
#include "fssdp/collective/all_gather_inl.hpp"
#include "fssdp/collective/materialized_experts_inl.hpp"
#include "fssdp/collective/memory_required_inl.hpp"
#include "fssdp/collective/reshard_inl.hpp"
#include "fssdp/collective/sparse_all_gather_inl.hpp"
#include "fssdp/collective/sparse_reduce_scatter_inl.hpp"
#include "fssdp/collective/sum_loads_inl.hpp"
#include "fssdp/collective/transfer_between_inl.hpp"
#include "fssdp/comm/communicator_ref_inl.hpp"
#include "fssdp/comm/group_inl.hpp"
#include "fssdp/comm/thread/thread_communicator_inl.hpp"
#include "fssdp/comm/thread/thread_inl.hpp"
#include "fssdp/core/error_inl.hpp"
#include "fssdp/element/accumulate.hpp"
#include "fssdp/element/runtime_work_inl.hpp"
#include "fssdp/memory/any_tensor_inl.hpp"
#include "fssdp/memory/byte_count_inl.hpp"
#include "fssdp/memory/expert_tensor_inl.hpp"
#include "fssdp/memory/tensor_list_inl.hpp"
#include "fssdp/runtime/materializer_inl.hpp"
#include "fssdp/trace/trace_recorder_inl.hpp"

namespace fssdp {

// The templates that most programs need.
template void accumulate<float, float>(std::span<summand const>, std::span<float>, float,
                                       write_mode);

}  // namespace fssdp
