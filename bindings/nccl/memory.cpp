// Implements allocations and registrations of this process.
#include "bindings/nccl/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "bindings/nccl/errors.hpp"
#include "wreath/device.hpp"
#include "wreath/memory.hpp"

namespace wreath::nccl {
namespace {

struct MemoryRange {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool holds(const MemoryRange& other) const {
    return std::less_equal<>()(data, other.data) && other.bytes <= bytes &&
           static_cast<std::size_t>(other.data - data) <= bytes - other.bytes;
  }
};

// Holds the registration of one buffer, however many handles there are. Memory that is shared anyway has none of its
// own.
struct Registered {
  MemoryRange range;
  Registration registration;
};

struct Handle {
  const Member* owner;
  bool window;
  std::shared_ptr<Registered> registered;
};

// Holds allocations and registrations. Any thread may call it.
class Memories {
 public:
  Result<void*> allocate(std::size_t bytes);
  bool release(void* data);
  Result<void*> add(const Member& owner, bool window, const MemoryRange& range);
  bool remove(const Member& owner, bool window, const void* handle);
  void remove_all(const Member& owner);

 private:
  Result<std::shared_ptr<Registered>> registered(const MemoryRange& range);

  std::mutex mutex_;
  std::map<const void*, Memory> allocations_;
  std::map<const void*, DeviceMemory> on_devices_;
  std::map<const void*, std::unique_ptr<Handle>> handles_;
};

Result<void*> Memories::allocate(std::size_t bytes) {
  if (Device* const device = current_cuda_device()) {
    auto made = device->allocate(bytes, MemoryUse::Exportable);
    if (!made) return made.error();
    const std::lock_guard lock(mutex_);
    void* const data = made->data();
    on_devices_.emplace(data, std::move(*made));
    return data;
  }
  auto made = wreath::allocate(bytes);
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  void* const data = made->data();
  allocations_.emplace(data, std::move(*made));
  return data;
}

bool Memories::release(void* data) {
  const std::lock_guard lock(mutex_);
  return allocations_.erase(data) == 1 || on_devices_.erase(data) == 1;
}

// Returns the registration of a range. A device's memory needs none: its blocks find it.
Result<std::shared_ptr<Registered>> Memories::registered(const MemoryRange& range) {
  if (device_of_memory(range.data) != nullptr) return std::make_shared<Registered>(Registered{range, {}});
  for (const auto& [key, handle] : handles_) {
    if (handle->registered->range.holds(range)) return handle->registered;
  }
  for (const auto& [data, memory] : allocations_) {
    if (MemoryRange{memory.data(), memory.size()}.holds(range))
      return std::make_shared<Registered>(Registered{range, {}});
  }
  auto made = register_memory(const_cast<std::byte*>(range.data), range.bytes);
  if (!made) return made.error();
  return std::make_shared<Registered>(Registered{range, std::move(*made)});
}

Result<void*> Memories::add(const Member& owner, bool window, const MemoryRange& range) {
  const std::lock_guard lock(mutex_);
  auto memory = registered(range);
  if (!memory) return memory.error();
  auto handle = std::make_unique<Handle>(Handle{&owner, window, std::move(*memory)});
  void* const key = handle.get();
  handles_.emplace(key, std::move(handle));
  return key;
}

bool Memories::remove(const Member& owner, bool window, const void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second->owner != &owner || found->second->window != window) return false;
  handles_.erase(found);
  return true;
}

void Memories::remove_all(const Member& owner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(handles_, [&](const auto& entry) { return entry.second->owner == &owner; });
}

// Returns an object that is never destroyed: what a program leaves allocated at its end stays as it is.
Memories& memories() {
  static Memories* const all = new Memories;  // NOLINT(cppcoreguidelines-*): never deleted
  return *all;
}

// Registers memory for a handle, or for a window.
template <typename HandleType>
ncclResult_t add(const char* function, ncclComm_t comm, const MemoryRange& range, HandleType* handle) {
  constexpr bool kWindow = std::is_same_v<HandleType, ncclWindow_t>;
  return with_member(function, comm, [&](const std::shared_ptr<Member>& member) {
    if (handle == nullptr) return bad_argument(function, "nowhere to put the handle: null");
    *handle = nullptr;
    if (range.data == nullptr) return bad_argument(function, "buff = null");
    if (range.bytes == 0) return bad_argument(function, "size = 0");
    const auto made = memories().add(*member, kWindow, range);
    if (!made) return refuse(code_of(made.error(), -1), std::string(function) + ": " + made.error().message);
    *handle = static_cast<HandleType>(*made);
    return ncclSuccess;
  });
}

ncclResult_t remove(const char* function, ncclComm_t comm, bool window, const void* handle) {
  return with_member(function, comm, [&](const std::shared_ptr<Member>& member) {
    if (memories().remove(*member, window, handle)) return ncclSuccess;
    return bad_argument(function, "the handle is none that this communicator has given");
  });
}

}  // namespace

void release_registrations(const Member& member) { memories().remove_all(member); }

}  // namespace wreath::nccl

using namespace wreath::nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return guarded([&] {
    if (ptr == nullptr) return bad_argument("ncclMemAlloc", "ptr = null");
    *ptr = nullptr;
    if (size == 0) return ncclSuccess;
    const auto made = memories().allocate(size);
    if (!made) return refuse(code_of(made.error(), -1), "ncclMemAlloc: " + made.error().message);
    *ptr = *made;
    return ncclSuccess;
  });
}

ncclResult_t pncclMemFree(void* ptr) {
  return guarded([&] {
    if (ptr == nullptr || memories().release(ptr)) return ncclSuccess;
    return bad_argument("ncclMemFree", "ptr is no memory of ncclMemAlloc");
  });
}

ncclResult_t pncclCommRegister(ncclComm_t comm, void* buff, size_t size, void** handle) {
  return add("ncclCommRegister", comm, {static_cast<std::byte*>(buff), size}, handle);
}

ncclResult_t pncclCommDeregister(ncclComm_t comm, void* handle) {
  return remove("ncclCommDeregister", comm, false, handle);
}

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int window_flags) {
  constexpr const char* kName = "ncclCommWindowRegister";
  if (window_flags != NCCL_WIN_DEFAULT && window_flags != NCCL_WIN_COLL_SYMMETRIC)
    return guarded([&] { return bad_argument(kName, "winFlags = " + std::to_string(window_flags)); });
  if (reinterpret_cast<std::uintptr_t>(buff) % NCCL_WIN_REQUIRED_ALIGNMENT != 0)
    return bad_argument(kName, "buff does not begin at a multiple of 4096");
  return add(kName, comm, {static_cast<std::byte*>(buff), size}, win);
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return remove("ncclCommWindowDeregister", comm, true, win);
}
}

WREATH_NCCL_EXPORT(MemAlloc);
WREATH_NCCL_EXPORT(MemFree);
WREATH_NCCL_EXPORT(CommRegister);
WREATH_NCCL_EXPORT(CommDeregister);
WREATH_NCCL_EXPORT(CommWindowRegister);
WREATH_NCCL_EXPORT(CommWindowDeregister);
