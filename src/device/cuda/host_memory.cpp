// The process has one registered_pages: registering twice is an error, and ranks that are threads share their memory.
#include "src/device/cuda/host_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <utility>

#include "src/device/cuda/cuda_device.hpp"
#include "src/device/cuda/stream_waits.hpp"

namespace wreath {
namespace {

struct PageUsers {
  // The pages stay mapped until the driver has let go of them.
  HostPages pages;
  std::size_t count = 0;
  bool own = false;  // false: the program registered them
};

struct RegisteredPages {
  // The mutex is held while the driver works, so that nobody finds memory that is half registered.
  std::mutex mutex;
  std::map<std::byte*, PageUsers> registered;
};

// Returns an object that stays reachable until the process ends, because destructors of late objects still use it.
RegisteredPages& registered_pages() {
  static RegisteredPages* const instance = new RegisteredPages;  // NOLINT(cppcoreguidelines-*): never deleted
  return *instance;
}

// Unregisters the pages, unless somebody has asked for them again.
void unregister(const CudaContext& context, std::byte* data) {
  // The pages are unmapped after the lock is released.
  HostPages pages;
  const std::lock_guard lock(registered_pages().mutex);
  const auto entry = registered_pages().registered.find(data);
  if (entry == registered_pages().registered.end() || entry->second.count > 0) return;
  if (entry->second.own) with_context(context, [&] { return context.driver.mem_host_unregister(data); });
  pages = std::move(entry->second.pages);
  registered_pages().registered.erase(entry);
}

class Registration {
 public:
  Registration(CudaContext context, std::byte* data) : context_(std::move(context)), data_(data) {}
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    {
      const std::lock_guard lock(registered_pages().mutex);
      if (--registered_pages().registered.at(data_).count > 0) return;
    }
    StreamWaits::of_process().when_none([context = context_, data = data_] { unregister(context, data); });
  }

 private:
  CudaContext context_;
  std::byte* data_;
};

// Returns whether the program has registered all of the pages. Memory that is registered in part is of no use.
bool is_registered(const CudaContext& context, const HostPages& pages) {
  return ask_pointer(context.driver, pages.data).kind == MemoryKind::Pinned &&
         ask_pointer(context.driver, pages.data + pages.bytes - 1).kind == MemoryKind::Pinned;
}

// Registers the pages with the driver. Few drivers take pages that are not writable. They look only when the pages are
// registered, and afterwards this process writes the pages as little as before.
CudaResult enter(const CudaContext& context, const HostPages& pages, bool reads_only) {
  const unsigned flags = kCudaRegisterPortable | kCudaRegisterDeviceMap;
  const auto call = [&](unsigned more) {
    return with_context(context,
                        [&] { return context.driver.mem_host_register(pages.data, pages.bytes, flags | more); });
  };
  if (pages.writable) return call(0);
  if (reads_only) return call(kCudaRegisterReadOnly);
  if (::mprotect(pages.data, pages.bytes, PROT_READ | PROT_WRITE) != 0) return kCudaNotSupported;
  const CudaResult result = call(0);
  ::mprotect(pages.data, pages.bytes, PROT_READ);
  return result;
}

Status enter(const CudaContext& context, const HostPages& pages, bool reads_only, PageUsers& users) {
  const CudaResult result = enter(context, pages, reads_only);
  users.own = result == kCudaSuccess;
  if (result == kCudaAlreadyRegistered && is_registered(context, pages)) return {};
  return context.check(result, "cuMemHostRegister");
}

}  // namespace

Result<std::shared_ptr<const void>> register_host_memory(const CudaContext& context, const HostPages& pages,
                                                         bool reads_only) {
  const std::lock_guard lock(registered_pages().mutex);
  const auto [entry, is_new] = registered_pages().registered.try_emplace(pages.data);
  PageUsers& users = entry->second;
  if (is_new) {
    if (const Status entered = enter(context, pages, reads_only, users); !entered) {
      registered_pages().registered.erase(entry);
      return entered.error();
    }
    users.pages = pages;
  } else if (users.pages.owner != pages.owner || users.pages.bytes < pages.bytes) {
    return Error{ErrorCode::Unavailable, fmt::format("{}: other memory was registered at {}, and is not yet let go of",
                                                     context.name, static_cast<const void*>(pages.data))};
  }
  ++users.count;
  return std::shared_ptr<const void>(std::make_shared<Registration>(context, pages.data));
}

}  // namespace wreath
