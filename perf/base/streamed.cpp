// Streams of a measurement, which are timed by events.
#include "perf/base/streamed.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace wreath::perf {

namespace {

constexpr std::array<std::string_view, 5> kPlaces{"host", "shared", "device", "pinned", "host-device"};

}  // namespace

std::string_view name(MemoryPlace place) { return kPlaces[static_cast<std::size_t>(place)]; }

std::optional<MemoryPlace> parse_memory_place(std::string_view text) {
  const auto found = std::find(kPlaces.begin(), kPlaces.end(), text);
  if (found == kPlaces.end()) return std::nullopt;
  return static_cast<MemoryPlace>(found - kPlaces.begin());
}

bool streams(MemoryPlace place) { return place != MemoryPlace::Host && place != MemoryPlace::Shared; }

bool has_gpu() {
  const auto devices = cuda_devices();
  return devices && *devices > 0;
}

void set_cuda_environment() {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

Result<Device*> device_of(MemoryPlace place, int rank) {
  if (!streams(place)) return static_cast<Device*>(nullptr);
  if (place == MemoryPlace::HostDevice) return &host_device();
  const auto devices = cuda_devices();
  if (devices && *devices > 0) return cuda_device(rank % *devices);
  const std::string why = devices ? "CUDA finds no device" : devices.error().message;
  return Error{ErrorCode::Unavailable, "--memory " + std::string(name(place)) + ": " + why +
                                           "; host-device is the device made of host threads"};
}

std::string device_names(MemoryPlace place, int rank) {
  if (!streams(place)) return {};
  if (place == MemoryPlace::HostDevice) return "host";
  const int devices = cuda_devices().value();
  if (rank >= 0) return "cuda:" + std::to_string(rank % devices);
  std::string names = "cuda:0";
  for (int i = 1; i < devices; ++i) names += ",cuda:" + std::to_string(i);
  return names;
}

Status StreamMember::run(const Call& call) {
  Call in_stream = call;
  in_stream.stream = &stream_;
  return under_.start(in_stream);
}

Result<std::int64_t> time_on(Stream& stream, const std::function<Status()>& work) {
  const auto begin = stream.device().make_event(EventUse::Timing);
  if (!begin) return begin.error();
  const auto end = stream.device().make_event(EventUse::Timing);
  if (!end) return end.error();
  WREATH_TRY(stream.record(**begin));
  WREATH_TRY(work());
  WREATH_TRY(stream.record(**end));
  WREATH_TRY(stream.synchronize());
  return (*end)->ns_since(**begin);
}

Result<std::int64_t> time_graph(Stream& stream, int launches, const std::function<Status()>& work,
                                const std::function<Status()>& meet) {
  WREATH_TRY(stream.begin_capture());
  const Status added = work();
  auto graph = stream.end_capture();
  WREATH_TRY(added);
  if (!graph) return graph.error();
  WREATH_TRY(meet());
  WREATH_TRY((*graph)->launch(stream));
  WREATH_TRY(stream.synchronize());
  return time_on(stream, [&]() -> Status {
    for (int i = 0; i < launches; ++i) WREATH_TRY((*graph)->launch(stream));
    return {};
  });
}

}  // namespace wreath::perf
