// Implements work in flight, groups, and memory.
#include <map>
#include <mutex>
#include <sstream>

#include "bindings/c/handles.hpp"
#include "bindings/c/status.hpp"

using namespace wreath;
using namespace wreath::c_api;

namespace {

// Holds memory that wreath_allocate gave and wreath_free has not freed.
struct Allocations {
  std::mutex mutex;
  std::map<void*, Memory> memory;
};

// Returns an object that is never destroyed: other threads may free while the process ends.
Allocations& allocations() {
  static auto* const all = new Allocations;  // NOLINT(cppcoreguidelines-owning-memory)
  return *all;
}

Error not_allocated(const void* data) {
  std::ostringstream text;
  text << "data = " << data << ": not from wreath_allocate, or freed already";
  return {ErrorCode::InvalidArgument, text.str(), -1};
}

// Returns the device of `data`, or the current one where `data` is null.
Result<Device*> cuda_device_of(const void* data) {
  const auto devices = cuda_devices();
  if (!devices) return devices.error();
  Device* const device = data == nullptr ? current_cuda_device() : device_of_memory(data);
  if (device != nullptr) return device;
  if (data == nullptr) return cuda_device(0);
  std::ostringstream text;
  text << "data = " << data << ": not memory of a CUDA device";
  return Error{ErrorCode::InvalidArgument, text.str(), -1};
}

}  // namespace

extern "C" {

int wreath_work_wait(wreath_work* work, int64_t timeout_ms) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(work, "work"));
    return work->work.wait(timeout_ms);
  });
}

int wreath_work_done(const wreath_work* work) { return work == nullptr || work->work.done() ? 1 : 0; }

void wreath_work_free(wreath_work* work) {
  guarded([&] {
    delete work;  // NOLINT(cppcoreguidelines-owning-memory)
    return Status();
  });
}

int wreath_group_begin(wreath_group** group) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(group, "group"));
    *group = new wreath_group;  // NOLINT(cppcoreguidelines-owning-memory)
    return {};
  });
}

int wreath_group_end(wreath_group* group, wreath_work** work) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(group, "group"));
    const std::unique_ptr<wreath_group> owned(group);
    return work == nullptr ? owned->group.run() : hand_over(owned->group.launch(), work);
  });
}

void wreath_group_cancel(wreath_group* group) {
  guarded([&] {
    delete group;  // NOLINT(cppcoreguidelines-owning-memory)
    return Status();
  });
}

int wreath_allocate(size_t bytes, void** data) {
  return guarded([&]() -> Status {
    WREATH_TRY(given(data, "data"));
    auto memory = allocate(bytes);
    if (!memory) return memory.error();
    void* const address = memory->data();
    Allocations& all = allocations();
    const std::lock_guard lock(all.mutex);
    all.memory.insert_or_assign(address, *std::move(memory));
    *data = address;
    return {};
  });
}

int wreath_free(void* data) {
  return guarded([&]() -> Status {
    if (data == nullptr) return {};
    Allocations& all = allocations();
    const std::lock_guard lock(all.mutex);
    if (all.memory.erase(data) == 0) return not_allocated(data);
    return {};
  });
}

int wreath_await_cuda(const void* data, void* stream) {
  return guarded([&]() -> Status {
    const auto device = cuda_device_of(data);
    if (!device) return device.error();
    const auto theirs = use_cuda_stream(**device, stream);
    return theirs ? (*theirs)->synchronize() : Status(theirs.error());
  });
}
}
