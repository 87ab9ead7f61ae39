// What only NVIDIA's management library knows of a GPU: the size of its memory. Loaded where it is installed.
#include <algorithm>

#include "src/base/shared_library.hpp"
#include "src/topology/parts.hpp"

namespace wreath {
namespace {

// As nvml.h declares it.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

}  // namespace

void ask_nvml(const char* file, Topology& topology) {
  const auto is_unknown = [](const Gpu& gpu) { return gpu.driver == "nvidia" && gpu.bytes == 0; };
  if (std::none_of(topology.gpus.begin(), topology.gpus.end(), is_unknown)) return;
  const auto library = SharedLibrary::open(file);
  if (!library) return;
  auto* const begin = library->find<int()>("nvmlInit_v2");
  auto* const end = library->find<int()>("nvmlShutdown");
  auto* const find = library->find<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  auto* const ask = library->find<int(void*, NvmlMemory*)>("nvmlDeviceGetMemoryInfo");
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
