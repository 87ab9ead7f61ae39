// Registers memory of devices with an adapter. A registration has the number of its allocation, so that memory at the
// address of freed memory is never taken for the old.
#include "src/device/runs/device_adapter_memory.hpp"

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/fifo/access.hpp"

namespace wreath {

AdapterMemory::AdapterMemory(MemoryAdapter& adapter) : adapter_(adapter) { add_release_watcher(*this); }

AdapterMemory::~AdapterMemory() {
  remove_release_watcher(*this);
  for (const auto& [begin, entry] : entries_) adapter_.deregister_memory(entry.registration);
}

Error AdapterMemory::staged(const Device* device, const std::string& why) {
  const std::string_view name = device == nullptr ? "host" : device->name();
  if (!told_[device]) log_info("memory of {} is staged for {}: {}", name, adapter_.name(), why);
  told_[device] = true;
  return {ErrorCode::Unavailable, fmt::format("{}: memory of {} must be staged: {}", adapter_.name(), name, why)};
}

Result<AdapterPlace> AdapterMemory::find(const void* data, std::size_t bytes) {
  const PointerFacts facts = facts_of(data);
  const std::lock_guard lock(mutex_);
  if (facts.kind != MemoryKind::Device) return staged(nullptr, "it is no device's");
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - facts.begin);
  if (offset > facts.bytes || bytes > facts.bytes - offset) {
    return Error{ErrorCode::InvalidArgument, fmt::format("{} bytes at {} are not of one allocation", bytes, data)};
  }
  const auto found = entries_.find(facts.begin);
  if (found != entries_.end() && found->second.allocation == facts.allocation) {
    return AdapterPlace{found->second.registration, offset};
  }
  auto& device = static_cast<LibraryDevice&>(*facts.device);
  if (!device.is_exportable(facts.begin)) return staged(&device, "it was not allocated as MemoryUse::Exportable");
  const auto memory = device.dma_buf(facts.begin);
  if (!memory) return staged(&device, memory.error().message);
  const auto registration = adapter_.register_memory(*memory);
  if (!registration) return staged(&device, registration.error().message);
  entries_[facts.begin] = {facts.allocation, *registration};
  return AdapterPlace{*registration, offset};
}

std::size_t AdapterMemory::registrations() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void AdapterMemory::before_release(const std::byte* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(begin);
  if (found == entries_.end()) return;
  adapter_.deregister_memory(found->second.registration);
  entries_.erase(found);
}

Status publish_received(LibraryDevice& device, SendFifo& fifo) {
  WREATH_TRY(device.flush_adapter_writes());
  publish(fifo);
  return {};
}

}  // namespace wreath
