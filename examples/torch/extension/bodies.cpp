// SPDX-License-Identifier: Apache-2.0
// The bodies of the library that this module uses, compiled once for all of its files.
#include "fssdp/collective/reshard_inl.hpp"
#include "fssdp/collective/sparse_all_gather_inl.hpp"
#include "fssdp/collective/sparse_reduce_scatter_inl.hpp"
#include "fssdp/element/runtime_work_inl.hpp"
#include "fssdp/plan/make_plan_inl.hpp"
#include "fssdp/plan/schedule_inl.hpp"
#include "fssdp/plan/transfer_plan_inl.hpp"
#include "fssdp/runtime/materializer_inl.hpp"
