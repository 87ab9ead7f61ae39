// Defines the extension module, which wreath_torch calls from Python.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/torch/backend.hpp"

namespace {

namespace py = pybind11;
using Milliseconds = std::chrono::milliseconds;

c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               Milliseconds timeout, const std::string& name,
                                               const std::vector<std::int64_t>& global_ranks) {
  return c10::make_intrusive<wreath_torch::WreathBackend>(
      wreath_torch::Membership{store, rank, size, timeout, {name, global_ranks}});
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.def("make_backend", &make_backend, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
             py::arg("name"), py::arg("global_ranks"), py::call_guard<py::gil_scoped_release>());
  module.def("shut_down_all", &wreath_torch::shut_down_all, py::call_guard<py::gil_scoped_release>());
}
