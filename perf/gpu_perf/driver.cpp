// The functions of libcuda.so.1 that this program needs, as cuda.h declares them.
#include "perf/gpu_perf/driver.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace wreath::perf {
namespace {

struct Driver {
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_get_name)(char* name, int length, int device) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*release)(int device) = nullptr;
  int (*push_current)(void* context) = nullptr;
  int (*stream_create)(void** stream, unsigned flags) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  bool complete = false;
};

constexpr unsigned kNonBlocking = 1;

Driver load() {
  Driver driver;
  // The library stays loaded.
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return driver;
  using Find = int (*)(const char*, void**, int, std::uint64_t, int*);
  const auto find = reinterpret_cast<Find>(::dlsym(library, "cuGetProcAddress_v2"));
  driver.complete = find != nullptr;
  const auto set = [&](const char* name, auto& function) {
    void* found = nullptr;
    int status = 0;
    driver.complete = driver.complete && find(name, &found, 12'000, 0, &status) == 0 && found != nullptr;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  set("cuDeviceGet", driver.device_get);
  set("cuDeviceGetName", driver.device_get_name);
  set("cuDevicePrimaryCtxRetain", driver.retain);
  set("cuDevicePrimaryCtxRelease", driver.release);
  set("cuCtxPushCurrent", driver.push_current);
  set("cuStreamCreate", driver.stream_create);
  set("cuStreamDestroy", driver.stream_destroy);
  return driver;
}

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

Error refused(const char* call, int code) {
  return {ErrorCode::System, std::string(call) + ": CUDA error " + std::to_string(code)};
}

}  // namespace

std::string card_name(int device) {
  int handle = 0;
  std::array<char, 256> name{};
  if (!driver().complete || driver().device_get(&handle, device) != 0) return {};
  return driver().device_get_name(name.data(), static_cast<int>(name.size()) - 1, handle) == 0 ? name.data() : "";
}

Result<DriverStreams> DriverStreams::make(int device, int count) {
  if (!driver().complete) return Error{ErrorCode::Unavailable, "libcuda.so.1 is not here, or too old"};
  DriverStreams made;
  int handle = 0;
  if (const int code = driver().device_get(&handle, device); code != 0) return refused("cuDeviceGet", code);
  if (const int code = driver().retain(&made.context_, handle); code != 0) {
    return refused("cuDevicePrimaryCtxRetain", code);
  }
  made.device_ = handle;
  WREATH_TRY(made.enter());
  for (int i = 0; i < count; ++i) {
    void* stream = nullptr;
    if (const int code = driver().stream_create(&stream, kNonBlocking); code != 0) {
      return refused("cuStreamCreate", code);
    }
    made.streams_.push_back(stream);
  }
  return made;
}

DriverStreams::DriverStreams(DriverStreams&& other) noexcept
    : device_(other.device_),
      context_(std::exchange(other.context_, nullptr)),
      streams_(std::exchange(other.streams_, {})) {}

DriverStreams::~DriverStreams() {
  for (void* const stream : streams_) driver().stream_destroy(stream);
  if (context_ != nullptr) driver().release(device_);
}

Status DriverStreams::enter() const {
  if (const int code = driver().push_current(context_); code != 0) return refused("cuCtxPushCurrent", code);
  return {};
}

}  // namespace wreath::perf
