// Replaces everything in the folders beside this one, in a build without devices (cmake -DWREATH_DEVICE=OFF). Such a
// build has no memory of a device. Each call that would make something of a device says why it cannot.
#include "src/device/call_memory.hpp"
#include "src/device/library_stream.hpp"
#include "src/device/runs/device_parts.hpp"
#include "wreath/kernel.hpp"

namespace wreath {
namespace {

Error no_devices() {
  return {ErrorCode::Unavailable, "this build has no devices (cmake -DWREATH_DEVICE=ON adds them)", -1};
}

// The device that host_device() returns. A program that does not check for devices gets an error from its first call.
class NoDevice final : public Device {
 public:
  std::string_view name() const override { return "none"; }
  Result<std::unique_ptr<Stream>> make_stream() override { return no_devices(); }
  Result<std::unique_ptr<Event>> make_event(EventUse) override { return no_devices(); }
  Status copy(void*, const void*, std::size_t) override { return no_devices(); }

 private:
  Result<DeviceMemory> make(std::size_t, MemoryUse) override { return no_devices(); }
  void release(std::byte*, std::size_t) override {}
};

}  // namespace

// ---- wreath/device.hpp and wreath/kernel.hpp ----

Device& host_device() {
  static NoDevice none;
  return none;
}
Result<int> cuda_devices() { return no_devices(); }
Result<Device*> cuda_device(int) { return no_devices(); }
Device* current_cuda_device() { return nullptr; }
Result<std::unique_ptr<Stream>> use_cuda_stream(Device&, void*) { return no_devices(); }
Device* device_of_memory(const void*) { return nullptr; }
Status launch(Stream&, const Kernel&, const Grid&) { return no_devices(); }
Status add_cuda_work(Stream&, const std::function<Status(void*)>&) { return no_devices(); }
Result<int> resident_blocks(Device&, const Kernel&, int) { return no_devices(); }
std::byte* address_in_kernels(Device&, const void* data) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(data));
}

// ---- functions that src/communicator calls ----

LibraryDevice* find_device_of(const void*) { return nullptr; }
Status compare_call_memory(const CallBuffer&, const CallBuffer&, const Stream*) { return {}; }
Status check_inside(const CallBuffer&, std::size_t) { return {}; }
LibraryStream* capturing(Stream*) { return nullptr; }
Status takes_calls(const Stream*) { return {}; }
std::uint64_t capture_number(const LibraryStream&) { return 0; }
Status guard_graph(const LibraryStream&, std::shared_ptr<GraphGuard>) { return no_devices(); }
Status has_devices() { return no_devices(); }
EndpointDevice identity_of(const Device*) { return {}; }
DeviceSegments device_segments(Device*, const std::vector<std::string>&) { return {}; }
MakeOuterRuns device_runs(Device*) {
  return [](Engine&) { return nullptr; };
}

}  // namespace wreath
