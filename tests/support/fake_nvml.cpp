// Stands for NVIDIA's management library. Its GPUs are at 0000:17 .. 1b:00.0. The GPUs 17 and 18 have four links to
// each other. The GPUs 19 and 1a have eighteen links to switches, and 1b has none.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "src/topology/nvml_abi.hpp"

using namespace wreath;

namespace {

struct Gpu {
  unsigned bus;
  unsigned links;
  unsigned version;
  unsigned peer;  // 0: a switch
  int socket;
};
Gpu the_gpus[] = {
    {0x17, 4, 4, 0x18, 0}, {0x18, 4, 4, 0x17, 0}, {0x19, 18, 5, 0, 0}, {0x1a, 18, 5, 0, 0}, {0x1b, 0, 0, 0, 1}};
constexpr NvmlResult kInvalid = 2;
constexpr NvmlResult kNotFound = 6;
constexpr NvmlResult kNoDriver = 9;

const Gpu& of(NvmlDevice device) { return *static_cast<const Gpu*>(device); }

}  // namespace

extern "C" {

NvmlResult nvmlInit_v2() { return std::getenv("FAKE_NVML_NO_DRIVER") == nullptr ? kNvmlSuccess : kNoDriver; }
NvmlResult nvmlShutdown() { return kNvmlSuccess; }
const char* nvmlErrorString(NvmlResult result) { return result == kNoDriver ? "Driver Not Loaded" : "Unknown Error"; }

NvmlResult nvmlDeviceGetHandleByPciBusId_v2(const char* address, NvmlDevice* device) {
  unsigned domain = 0;
  unsigned bus = 0;
  if (std::sscanf(address, "%x:%x", &domain, &bus) != 2) return kInvalid;
  for (Gpu& gpu : the_gpus) {
    if (gpu.bus == bus && domain == 0) return *device = &gpu, kNvmlSuccess;
  }
  return kNotFound;
}

NvmlResult nvmlDeviceGetUUID(NvmlDevice device, char* text, unsigned length) {
  std::snprintf(text, length, "GPU-00000000-0000-0000-0000-0000000000%02x", of(device).bus);
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetMemoryInfo(NvmlDevice, NvmlMemory* memory) {
  *memory = {80ULL << 30, 40ULL << 30, 40ULL << 30};
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetTopologyCommonAncestor(NvmlDevice a, NvmlDevice b, int* ancestor) {
  *ancestor = of(a).socket == of(b).socket ? kNvmlHostBridge : kNvmlSystem;
  return kNvmlSuccess;
}

// Reports a link behind the last one as present, but down.
NvmlResult nvmlDeviceGetNvLinkState(NvmlDevice device, unsigned link, int* active) {
  if (link >= of(device).links + 1) return kInvalid;
  *active = link < of(device).links ? kNvmlEnabled : 0;
  return kNvmlSuccess;
}

NvmlResult nvmlDeviceGetNvLinkVersion(NvmlDevice device, unsigned, unsigned* version) {
  return *version = of(device).version, kNvmlSuccess;
}

NvmlResult nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice device, unsigned, int* type) {
  return *type = of(device).peer == 0 ? kNvmlRemoteSwitch : kNvmlRemoteGpu, kNvmlSuccess;
}

NvmlResult nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice device, unsigned, NvmlPci* pci) {
  *pci = {};
  pci->bus = of(device).peer;
  return kNvmlSuccess;
}

}  // extern "C"
