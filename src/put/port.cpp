// Events are handed out as they are read, so that none waits in a second queue.
#include "src/put/port.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/socket.hpp"

namespace wreath {
namespace {

// Puts of one message over several adapters arrive in any order.
PutLimits of_all(const std::vector<std::unique_ptr<Adapter>>& adapters) {
  PutLimits all = adapters.front()->limits();
  for (const auto& adapter : adapters) {
    const PutLimits each = adapter->limits();
    all.inline_bytes = std::min(all.inline_bytes, each.inline_bytes);
    all.put_bytes = std::min(all.put_bytes, each.put_bytes);
    all.outstanding = std::min(all.outstanding, each.outstanding);
    all.told_bits = std::min(all.told_bits, each.told_bits);
    all.polled = all.polled || each.polled;
    all.shared = all.shared || each.shared;
  }
  all.rails = static_cast<std::uint32_t>(adapters.size());
  all.ordered = all.ordered && all.rails == 1;
  return all;
}

std::vector<std::unique_ptr<Adapter>> alone(std::unique_ptr<Adapter> adapter) {
  std::vector<std::unique_ptr<Adapter>> one;
  one.push_back(std::move(adapter));
  return one;
}

}  // namespace

PutPort::PutPort(std::unique_ptr<Adapter> adapter) : PutPort(alone(std::move(adapter))) {}

PutPort::PutPort(std::vector<std::unique_ptr<Adapter>> adapters) : limits_(of_all(adapters)) {
  for (auto& adapter : adapters) rails_.push_back(std::make_unique<Rail>(std::move(adapter)));
}

Result<std::shared_ptr<PutPort>> PutPort::make(Result<std::vector<std::unique_ptr<Adapter>>> adapters) {
  if (!adapters) return adapters.error();
  std::shared_ptr<PutPort> port(new PutPort(*std::move(adapters)));
  if (port->rails() == 1) return port;
  port->events_of_all_ = Fd::of_process(::epoll_create1(EPOLL_CLOEXEC));
  if (!port->events_of_all_) return os_error("wait for several adapters", errno);
  return port;
}

std::string PutPort::describe(std::uint32_t rails) const {
  std::string text;
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    if ((rails & 1U << i) != 0) text.append(text.empty() ? "" : " + ").append(rails_[i]->name);
  }
  return text;
}

WireCounts PutPort::wire_counts() const {
  const PutCounts& all = counts_;
  std::uint64_t registrations = all.registrations;
  for (const auto& rail : rails_) registrations += rail->registrations.made();
  return {{},
          all.bytes,
          {{"messages", all.messages()},
           {"puts", all.puts},
           {"doorbells", all.doorbells},
           {"completions", all.completions},
           {"registrations", registrations},
           {"copied_bytes", all.copied_bytes},
           {"landed_bytes", all.landed_bytes}}};
}

Result<std::unique_ptr<Channel>> PutPort::make_channel(std::size_t rail, std::uint32_t tells, PutEventTaker& taker) {
  auto channel = adapter(rail).make_channel(tells);
  if (!channel) return channel;
  std::vector<PutEventTaker*>& takers = rails_[rail]->takers;
  const std::size_t index = (*channel)->index();
  WREATH_TRY(watch(rail));
  if (takers.size() <= index) takers.resize(index + 1);
  takers[index] = &taker;
  return channel;
}

Status PutPort::watch(std::size_t rail) {
  epoll_event event{};
  event.events = EPOLLIN;
  const bool watches = !events_of_all_ ||
                       ::epoll_ctl(events_of_all_.get(), EPOLL_CTL_ADD, adapter(rail).descriptor(), &event) == 0 ||
                       errno == EEXIST;
  return watches ? Status() : os_error("wait for several adapters", errno);
}

void PutPort::remove(std::size_t rail, const Channel& channel) { rails_[rail]->takers[channel.index()] = nullptr; }

Status PutPort::poll() {
  armed_.reset();
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) WREATH_TRY(poll(rail));
  return {};
}

Status PutPort::poll_in_turn(std::uint64_t& turn) {
  const bool polls = turn == turn_;
  if (polls) ++turn_;
  turn = turn_;
  return polls ? poll() : Status();
}

// Events of a channel that is gone are dropped.
Status PutPort::poll(std::size_t rail) {
  const std::vector<PutEventTaker*>& takers = rails_[rail]->takers;
  for (;;) {
    const auto count = adapter(rail).poll(events_);
    if (!count) return count.error();
    counts_.completions += *count;
    for (std::size_t i = 0; i < *count; ++i) {
      const std::size_t index = events_[i].channel;
      if (index < takers.size() && takers[index] != nullptr) takers[index]->take(rail, events_[i]);
    }
    if (*count < events_.size()) return {};
  }
}

bool PutPort::arm() {
  listen();
  if (armed_) return *armed_;
  armed_ = true;
  for (const auto& rail : rails_) armed_ = rail->adapter->arm() && *armed_;
  return *armed_;
}

void PutPort::listen() {
  for (const auto& rail : rails_) {
    while (auto trouble = rail->adapter->trouble()) {
      log_warning("{}", *trouble);
      trouble_ = *std::move(trouble);
    }
  }
}

Result<PortMemory> PutPort::register_memory(std::span<std::byte> memory, bool remote) {
  PortMemory made;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    ++counts_.registrations;
    const auto number = adapter(rail).register_memory(memory, remote);
    if (!number) {
      deregister_memory(made);
      return number.error();
    }
    made.by_rail[rail] = *number;
  }
  return made;
}

void PutPort::deregister_memory(const PortMemory& memory) {
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    if (memory.by_rail[rail] != 0) adapter(rail).deregister_memory(memory.by_rail[rail]);
  }
}

RailMemories PutPort::remote(const PortMemory& memory) const {
  RailMemories names;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) names.push_back(adapter(rail).name(memory.by_rail[rail]));
  return names;
}

void PutPort::add_staging(std::span<std::byte> memory) { staging_.try_emplace(memory.data(), Staging{memory, {}}); }

void PutPort::remove_staging(const std::byte* begin) {
  const auto found = staging_.find(begin);
  if (found == staging_.end()) return;
  deregister_memory(found->second.registered);
  staging_.erase(found);
}

Result<std::optional<PortMemory>> PutPort::find(const std::byte* data, std::size_t bytes) {
  auto after = staging_.upper_bound(data);
  if (after != staging_.begin()) {
    Staging& staging = (--after)->second;
    const auto offset = static_cast<std::size_t>(data - staging.memory.data());
    if (offset < staging.memory.size() && bytes <= staging.memory.size() - offset) {
      if (!staging.registered.is_registered()) {
        const auto made = register_memory(staging.memory, false);
        if (!made) return made.error();
        staging.registered = *made;
      }
      return std::optional(staging.registered);
    }
  }
  PortMemory found;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    const auto at = rails_[rail]->registrations.find(data, bytes);
    if (!at) return std::optional<PortMemory>();
    found.by_rail[rail] = at->registration;
  }
  return std::optional(found);
}

Status PutPort::let_in(const DeviceRange& memory) {
  for (const auto& rail : rails_) WREATH_TRY(rail->registrations.let_in(memory));
  return {};
}

Status PutPort::flush(const std::byte* data, std::uint32_t rails) {
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    if ((rails & 1U << rail) == 0) continue;
    const auto flushed = rails_[rail]->registrations.flush(data);
    if (!flushed) return flushed.error();
    if (*flushed != Flusher::Adapter) break;
  }
  return {};
}

std::optional<RailMemories> PutPort::find_remote(const std::byte* data, std::size_t bytes) {
  RailMemories names;
  for (const auto& rail : rails_) {
    const auto at = rail->registrations.find(data, bytes);
    if (!at || !at->remote) return std::nullopt;
    names.push_back(*at->remote);
  }
  return names;
}

SlotMemory::~SlotMemory() { port_.deregister_memory(registered_); }

Status SlotMemory::allocate(std::size_t bytes) {
  WREATH_TRY(memory_.allocate(bytes, "slots"));
  bytes_ = bytes;
  return {};
}

Status SlotMemory::make_registered(bool remote) {
  if (is_registered()) return {};
  const auto made = port_.register_memory({memory_.data(), bytes_}, remote);
  if (!made) return made.error();
  registered_ = *made;
  return {};
}

}  // namespace wreath
