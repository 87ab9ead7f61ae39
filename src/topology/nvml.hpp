// Asks NVIDIA's management library what only it knows of GPUs and of the way between them. The library is loaded while
// the program runs, where it is installed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/shared_library.hpp"
#include "src/topology/nvml_abi.hpp"
#include "wreath/result.hpp"
#include "wreath/topology.hpp"

namespace wreath {

class Nvml {
 public:
  // Loads the library. Fails with Unavailable where there is none, it lacks a function, or it refuses; the message says
  // which.
  static Result<std::unique_ptr<Nvml>> open(const char* file = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Returns the memory of the GPU at a PCI address ("0000:17:00.0"); 0 where the library does not say.
  std::uint64_t memory_bytes(const std::string& address) const;
  // Returns the UUID of the GPU at a PCI address; empty where the library does not say.
  std::string uuid(const std::string& address) const;
  // Returns the way between two GPUs. Where the library does not say, `pci` stays Unknown and there are no links.
  GpuLink link(const std::string& first, const std::string& second) const;

 private:
  explicit Nvml(SharedLibrary library) : library_(std::move(library)) {}
  NvmlDevice device_at(const std::string& address) const;
  template <typename Visit>
  void each_nvlink(NvmlDevice device, Visit visit) const;

  SharedLibrary library_;
  NvmlFunctions functions_{};
  bool begun_ = false;
};

}  // namespace wreath
