// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <nanobind/stl/string.h>

#include <utility>

namespace python {
namespace {

/// What torch counts references of, at the address that Python has of it.
template <class Impl>
c10::intrusive_ptr<Impl> referred(nb::handle object) {
  auto const address = nb::cast<std::uintptr_t>(object.attr("_cdata"));
  return c10::intrusive_ptr<Impl>::reclaim_copy(reinterpret_cast<Impl*>(address));
}
nb::object torch(char const* name) { return nb::module_::import_("torch").attr(name); }

}  // namespace

at::Tensor tensor_of(nb::handle object) {
  if (!nb::isinstance(object, torch("Tensor"))) throw nb::type_error("expected a torch.Tensor");
  return at::Tensor{referred<c10::TensorImpl>(object)};
}

c10::intrusive_ptr<c10::StorageImpl> storage_of(nb::handle object) {
  if (!nb::isinstance(object, torch("UntypedStorage")))
    throw nb::type_error("expected a torch.UntypedStorage");
  return referred<c10::StorageImpl>(object);
}

fssdp::torch_tensors tensors_of(nb::list const& list, c10::Device device) {
  auto tensors = fssdp::torch_tensors{device};
  for (auto const& item : list) {
    auto const entry = nb::cast<nb::tuple>(item);
    auto const name = nb::cast<std::string>(entry[0]);
    if (entry.size() == 2) {
      tensors.add(name, tensor_of(entry[1]));
      continue;
    }
    auto slots = std::vector<at::Tensor>{};
    for (auto const& slot : nb::cast<nb::list>(entry[1])) slots.push_back(tensor_of(slot));
    tensors.add(name, slots, tensor_of(entry[2]));
  }
  return tensors;
}

}  // namespace python
