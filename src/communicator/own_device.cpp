// Device names become devices. Without a name, a rank uses the device that is current for CUDA.
#include "src/communicator/own_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "src/device/runs/device_parts.hpp"

namespace wreath {
namespace {

constexpr std::string_view kCuda = "cuda:";

// Returns the parts between commas. Empty parts count.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

// Returns CUDA's number in a name, or -1 where the name has another form.
int cuda_number(std::string_view name) {
  if (!name.starts_with(kCuda)) return -1;
  name.remove_prefix(kCuda.size());
  int number = -1;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  return code == std::errc() && end == name.data() + name.size() ? number : -1;
}

Result<Device*> device_named(std::string_view name) {
  if (name == "none") return static_cast<Device*>(nullptr);
  const auto refused = [&](const Error& error) {
    return Error{error.code, fmt::format("device (WREATH_DEVICE) = {}: {}", name, error.message), -1};
  };
  if (const Status built = has_devices(); !built) return refused(built.error());
  if (name == "host") return &host_device();
  const auto device = cuda_device(cuda_number(name));
  return device ? device : refused(device.error());
}

}  // namespace

Status check_device_names(std::string_view text) {
  if (text.empty()) return {};
  for (const std::string_view name : parts_of(text)) {
    if (name == "host" || name == "none" || cuda_number(name) >= 0) continue;
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("device (WREATH_DEVICE) = {}: '{}' must be cuda:N, host or none", text, name), -1};
  }
  return {};
}

Result<std::vector<Device*>> devices_of_ranks(const std::string& text, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  if (text.empty()) return std::vector<Device*>(count, current_cuda_device());
  const std::vector<std::string_view> names = parts_of(text);
  std::vector<Device*> devices;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto device = device_named(names[rank % names.size()]);
    if (!device) return device.error();
    devices.push_back(*device);
  }
  return devices;
}

}  // namespace wreath
