// Stands for NVIDIA's management library: of two GPUs, one at 0000:17:00.0, it knows the memory of that one.
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  static int one = 0;
  *device = &one;
  constexpr int kNotFound = 6;
  return std::strcmp(address, "0000:17:00.0") == 0 ? 0 : kNotFound;
}

int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = 80ULL << 30;
  total_free_used[1] = total_free_used[2] = 40ULL << 30;
  return 0;
}

}  // extern "C"
