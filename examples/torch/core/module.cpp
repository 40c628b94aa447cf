// SPDX-License-Identifier: Apache-2.0
// The module fssdp._core: the parts of the library that need neither torch nor a communicator.
// Users see the package around it: src/fssdp/__init__.py.
#include "module.hpp"

#include "fssdp/core/error.hpp"
#include "fssdp/version.hpp"

namespace python {
namespace {

namespace nb = nanobind;

nb::object error_class(char const* name) { return nb::module_::import_("fssdp.errors").attr(name); }
void raise(char const* name, fssdp::error const& failure) {
  PyErr_SetString(error_class(name).ptr(), failure.what());
}
void raise(char const* name, fssdp::transport_error const& failure) {
  auto const type = error_class(name);
  PyErr_SetObject(type.ptr(), type(failure.what(), failure.failed_rank().value()).ptr());
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator([](std::exception_ptr const& failure, void* /*payload*/) {
    try {
      std::rethrow_exception(failure);
    } catch (fssdp::argument_error const& error) {
      raise("ArgumentError", error);
    } catch (fssdp::plan_error const& error) {
      raise("PlanError", error);
    } catch (fssdp::peer_failed const& error) {
      raise("PeerFailed", error);
    } catch (fssdp::deadline_exceeded const& error) {
      raise("DeadlineExceeded", error);
    } catch (fssdp::ranks_disagree const& error) {
      raise("RanksDisagree", error);
    } catch (fssdp::transport_error const& error) {
      raise("TransportError", error);
    } catch (fssdp::file_error const& error) {
      raise("FileError", error);
    } catch (fssdp::poisoned_stream const& error) {
      raise("PoisonedStream", error);
    } catch (fssdp::error const& error) {
      raise("Error", error);
    }
  });
}

}  // namespace python

NB_MODULE(_core, to) {
  nanobind::set_leak_warnings(false);  // a program may end while values are alive
  to.attr("version") = fssdp::version_string.data();
  python::translate_errors();
  python::add_topology(to);
  python::add_layout(to);
  python::add_placement(to);
  python::add_predictors(to);
  python::add_physical_experts(to);
  python::add_costs(to);
  python::add_solvers(to);
  python::add_sharding(to);
  python::add_plans(to);
  python::add_tokens(to);
  python::add_advice(to);
}
