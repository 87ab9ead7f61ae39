// Events are handed out as they are read, so that none waits in a second queue.
#include "src/put/port.hpp"

#include <utility>

#include "src/base/log.hpp"

namespace wreath {

PutPort::PutPort(std::unique_ptr<Adapter> adapter)
    : adapter_(std::move(adapter)), limits_(adapter_->limits()), registrations_(*adapter_) {}

WireCounts PutPort::wire_counts() const {
  const PutCounts& all = counts_;
  return {{},
          all.bytes,
          {{"messages", all.messages()},
           {"puts", all.puts},
           {"doorbells", all.doorbells},
           {"completions", all.completions},
           {"registrations", all.registrations + registrations_.made()},
           {"copied_bytes", all.copied_bytes}}};
}

Result<std::unique_ptr<Channel>> PutPort::make_channel(std::uint32_t tells, PutEventTaker& taker) {
  auto channel = adapter_->make_channel(tells);
  if (!channel) return channel;
  const std::size_t index = (*channel)->index();
  if (takers_.size() <= index) takers_.resize(index + 1);
  takers_[index] = &taker;
  return channel;
}

void PutPort::remove(const Channel& channel) { takers_[channel.index()] = nullptr; }

// Events of a channel that is gone are dropped.
Status PutPort::poll() {
  for (;;) {
    const auto count = adapter_->poll(events_);
    if (!count) return count.error();
    counts_.completions += *count;
    for (std::size_t i = 0; i < *count; ++i) {
      const std::size_t index = events_[i].channel;
      if (index < takers_.size() && takers_[index] != nullptr) takers_[index]->take(events_[i]);
    }
    if (*count < events_.size()) return {};
  }
}

bool PutPort::arm() {
  listen();
  return adapter_->arm();
}

void PutPort::listen() {
  while (auto trouble = adapter_->trouble()) {
    log_warning("{}", *trouble);
    trouble_ = *std::move(trouble);
  }
}

Result<std::uint64_t> PutPort::register_memory(std::span<std::byte> memory, bool remote) {
  ++counts_.registrations;
  return adapter_->register_memory(memory, remote);
}

void PutPort::add_staging(std::span<std::byte> memory) { staging_.try_emplace(memory.data(), Staging{memory}); }

void PutPort::remove_staging(const std::byte* begin) {
  const auto found = staging_.find(begin);
  if (found == staging_.end()) return;
  if (found->second.registration != 0) adapter_->deregister_memory(found->second.registration);
  staging_.erase(found);
}

Result<std::optional<std::uint64_t>> PutPort::find(const std::byte* data, std::size_t bytes) {
  auto after = staging_.upper_bound(data);
  if (after != staging_.begin()) {
    Staging& staging = (--after)->second;
    const auto offset = static_cast<std::size_t>(data - staging.memory.data());
    if (offset < staging.memory.size() && bytes <= staging.memory.size() - offset) {
      if (staging.registration == 0) {
        const auto made = register_memory(staging.memory, false);
        if (!made) return made.error();
        staging.registration = *made;
      }
      return std::optional(staging.registration);
    }
  }
  const auto found = registrations_.find(data, bytes);
  return found ? std::optional(found->registration) : std::optional<std::uint64_t>();
}

SlotMemory::~SlotMemory() {
  if (registration_ != 0) port_.adapter().deregister_memory(registration_);
}

Status SlotMemory::allocate(std::size_t bytes) {
  WREATH_TRY(memory_.allocate(bytes, "slots"));
  bytes_ = bytes;
  return {};
}

Status SlotMemory::make_registered(bool remote) {
  if (registration_ != 0) return {};
  const auto made = port_.register_memory({memory_.data(), bytes_}, remote);
  if (!made) return made.error();
  registration_ = *made;
  return {};
}

}  // namespace wreath
