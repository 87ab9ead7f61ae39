// The host device: its memory, its copies, its streams.
#include <fmt/format.h>

#include <cstring>
#include <system_error>

#include "src/device/device_memory.hpp"
#include "src/device/host_stream.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

class HostDevice final : public Device {
 public:
  std::string_view name() const override { return "host"; }

  Result<DeviceMemory> allocate(std::size_t bytes) override {
    if (bytes == 0) return Error{ErrorCode::InvalidArgument, "host device: bytes = 0"};
    const auto data = map_device_memory(bytes);
    if (!data) return data.error();
    return DeviceMemory(*this, *data, bytes);
  }
  Result<std::unique_ptr<Stream>> make_stream() override {
    try {
      return std::unique_ptr<Stream>(std::make_unique<HostStream>(*this));
    } catch (const std::system_error& refused) {
      return Error{ErrorCode::System, fmt::format("host device: cannot start a stream's thread: {}", refused.what())};
    }
  }
  Result<std::unique_ptr<Event>> make_event() override { return std::unique_ptr<Event>(std::make_unique<HostEvent>()); }

  Status copy(void* target, const void* source, std::size_t bytes) override {
    if (bytes == 0) return {};
    if (target == nullptr || source == nullptr) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("host device: copy of {} bytes {} null", bytes, target == nullptr ? "to" : "from")};
    }
    std::memmove(reachable(target, bytes), reachable(source, bytes), bytes);
    return {};
  }

 private:
  void release(std::byte* data, std::size_t bytes) override { unmap_device_memory(data, bytes); }
};

}  // namespace

Device& host_device() {
  static HostDevice* const device = new HostDevice;  // NOLINT(cppcoreguidelines-*): lives as long as the process
  return *device;
}

}  // namespace wreath
