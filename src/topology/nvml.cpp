// What only NVIDIA's management library knows of a GPU: the size of its memory. Loaded where it is installed.
#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "src/topology/parts.hpp"

namespace wreath {
namespace {

using Library = std::unique_ptr<void, int (*)(void*)>;

// As nvml.h declares it.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

template <typename Function>
Function* symbol(const Library& library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library.get(), name));
}

}  // namespace

void ask_nvml(const char* file, Topology& topology) {
  const auto is_unknown = [](const Gpu& gpu) { return gpu.driver == "nvidia" && gpu.bytes == 0; };
  if (std::none_of(topology.gpus.begin(), topology.gpus.end(), is_unknown)) return;
  const Library library(::dlopen(file, RTLD_LAZY | RTLD_LOCAL), &::dlclose);
  if (library == nullptr) return;
  auto* const begin = symbol<int()>(library, "nvmlInit_v2");
  auto* const end = symbol<int()>(library, "nvmlShutdown");
  auto* const find = symbol<int(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  auto* const ask = symbol<int(void*, NvmlMemory*)>(library, "nvmlDeviceGetMemoryInfo");
  if (begin == nullptr || end == nullptr || find == nullptr || ask == nullptr || begin() != 0) return;
  for (Gpu& gpu : topology.gpus) {
    void* device = nullptr;
    NvmlMemory memory{};
    if (!is_unknown(gpu) || find(gpu.place.address.c_str(), &device) != 0) continue;
    if (ask(device, &memory) == 0) gpu.bytes = memory.total;
  }
  end();
}

}  // namespace wreath
