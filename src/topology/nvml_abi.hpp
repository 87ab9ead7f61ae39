// Declares the part of NVIDIA's management library that Wreath uses, as nvml.h declares it.
// `tests/unit/topology/nvml_abi_test.cpp` compares the two where nvml.h is installed.
#pragma once

namespace wreath {

using NvmlResult = int;
using NvmlDevice = void*;

inline constexpr NvmlResult kNvmlSuccess = 0;

// These are common ancestors of two GPUs.
inline constexpr int kNvmlInternal = 0;
inline constexpr int kNvmlSingle = 10;
inline constexpr int kNvmlMultiple = 20;
inline constexpr int kNvmlHostBridge = 30;
inline constexpr int kNvmlNode = 40;
inline constexpr int kNvmlSystem = 50;

inline constexpr int kNvmlEnabled = 1;
inline constexpr int kNvmlRemoteGpu = 0;
inline constexpr int kNvmlRemoteSwitch = 2;
inline constexpr unsigned kNvmlUuidBytes = 96;

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct NvmlPci {
  char legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned numbers;
  unsigned subsystem;
  char address[32];
};

struct NvmlFunctions {
  NvmlResult (*init)();
  NvmlResult (*shutdown)();
  const char* (*error_string)(NvmlResult);
  NvmlResult (*handle_by_pci)(const char* address, NvmlDevice*);
  NvmlResult (*uuid)(NvmlDevice, char* text, unsigned length);
  NvmlResult (*memory_info)(NvmlDevice, NvmlMemory*);
  NvmlResult (*common_ancestor)(NvmlDevice, NvmlDevice, int*);
  NvmlResult (*nvlink_state)(NvmlDevice, unsigned link, int*);
  NvmlResult (*nvlink_version)(NvmlDevice, unsigned link, unsigned*);
  NvmlResult (*nvlink_remote_type)(NvmlDevice, unsigned link, int*);
  NvmlResult (*nvlink_remote_pci)(NvmlDevice, unsigned link, NvmlPci*);
};

}  // namespace wreath
