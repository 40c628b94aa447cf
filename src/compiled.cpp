// SPDX-License-Identifier: Apache-2.0
// The library fssdp_compiled (target fssdp::compiled): all bodies that are no templates, once for a
// whole program. It is compiled with FSSDP_COMPILED, as are the files that are linked to it.
#include "fssdp/collective/memory_required_inl.hpp"
#include "fssdp/collective/reshard_inl.hpp"
#include "fssdp/collective/sparse_all_gather_inl.hpp"
#include "fssdp/collective/sparse_reduce_scatter_inl.hpp"
#include "fssdp/comm/thread/thread_communicator_inl.hpp"
#include "fssdp/comm/thread/thread_inl.hpp"
#include "fssdp/element/runtime_work_inl.hpp"
#include "fssdp/plan/make_plan_inl.hpp"
#include "fssdp/plan/schedule_inl.hpp"
#include "fssdp/plan/transfer_plan_inl.hpp"
#include "fssdp/plan/verify_inl.hpp"
#include "fssdp/runtime/materializer_inl.hpp"
#include "fssdp/token/any_rows_inl.hpp"
