// One table for the process: registering twice is an error, and ranks that are threads share their memory.
#include "src/device/cuda/host_memory.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace wreath {
namespace {

struct Users {
  std::size_t count = 0;
  bool own = false;  // else the program's
};

struct Table {
  std::mutex mutex;  // held while the driver works: nobody finds memory that is half registered
  std::map<std::byte*, Users> registered;
};

// Reachable until the process ends: destructors of late objects still use it.
Table& table() {
  static Table* const instance = new Table;  // NOLINT(cppcoreguidelines-*): never deleted
  return *instance;
}

class Registration {
 public:
  Registration(CudaContext context, std::byte* data) : context_(std::move(context)), data_(data) {}
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration() {
    const std::lock_guard lock(table().mutex);
    const auto entry = table().registered.find(data_);
    if (entry == table().registered.end() || --entry->second.count > 0) return;
    if (entry->second.own) with_context(context_, [&] { return context_.driver.mem_host_unregister(data_); });
    table().registered.erase(entry);
  }

 private:
  CudaContext context_;
  std::byte* data_;
};

}  // namespace

Result<std::shared_ptr<const void>> register_host_memory(const CudaContext& context, std::byte* data, std::size_t bytes,
                                                         bool writable) {
  auto registration = std::make_shared<Registration>(context, data);
  const std::lock_guard lock(table().mutex);
  Users& users = table().registered[data];
  if (users.count++ > 0) return std::shared_ptr<const void>(std::move(registration));
  const unsigned flags = kCudaRegisterPortable | kCudaRegisterDeviceMap | (writable ? 0U : kCudaRegisterReadOnly);
  const CudaResult result = with_context(context, [&] { return context.driver.mem_host_register(data, bytes, flags); });
  users.own = result == kCudaSuccess;
  if (result == kCudaSuccess || result == kCudaAlreadyRegistered) {
    return std::shared_ptr<const void>(std::move(registration));
  }
  return context.check(result, "cuMemHostRegister").error();
}

}  // namespace wreath
