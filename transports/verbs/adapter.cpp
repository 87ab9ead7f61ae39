// Polls completions, and rings a bell for sleepers: see adapter.hpp.
#include "transports/verbs/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace wreath {
namespace {

constexpr std::uint32_t kMostSends = 256;
constexpr std::uint32_t kFewestSends = 32;
// Acknowledging takes a lock, so it is done for so many events together.
constexpr unsigned kAcknowledgedAtOnce = 64;
constexpr std::size_t kPolledAtOnce = 32;
constexpr std::uint8_t kLeastTimeout = 16;  // 0.27 s

}  // namespace

Result<std::vector<std::unique_ptr<Adapter>>> VerbsAdapter::open(const VerbsSettings& settings, int rank, int ranks) {
  const auto ports = find_ports(settings, rank);
  if (!ports) return ports.error();
  std::vector<std::unique_ptr<Adapter>> adapters;
  for (const ChosenPort& port : *ports) {
    std::unique_ptr<VerbsAdapter> made(new VerbsAdapter(settings, port, std::max(ranks - 1, 1)));
    WREATH_TRY(made->prepare());
    adapters.push_back(std::move(made));
  }
  return adapters;
}

Status VerbsAdapter::prepare() {
  WREATH_TRY(look_again());
  bell_.reset(device_->library().create_comp_channel(device_->context()));
  if (bell_ != nullptr) bell_descriptor_ = LibraryDescriptor(bell_->fd);
  if (bell_ != nullptr && bell_descriptor_.set_nonblocking()) return {};
  return Error{ErrorCode::System, fmt::format("{}: no completion channel: {}", describe(), std::strerror(errno))};
}

VerbsAdapter::VerbsAdapter(const VerbsSettings& settings, const ChosenPort& port, int peers)
    : settings_(settings),
      device_(port.device),
      port_(port.facts),
      peers_(peers),
      bell_(nullptr, device_->library().destroy_comp_channel),
      queue_(nullptr, device_->library().destroy_cq),
      flush_(*this) {
  const ibv_device_attr& most = device_->limits();
  // Half of the completion queue is for sends, and each may complete in error.
  const auto share =
      static_cast<std::uint32_t>(most.max_cqe) / 2 / (static_cast<std::uint32_t>(peers) * settings.queue_pairs);
  const std::uint32_t sends = std::clamp(std::bit_floor(share), kFewestSends, kMostSends);
  limits_ = {device_->inline_bytes(), port_.put_bytes,
             std::bit_floor(std::min(sends, static_cast<std::uint32_t>(most.max_qp_wr))), true};
  // Some adapters take four times as long for their retries as they were told, and none of them is quick.
  limits_.silent_ms =
      2'000 + 4 * (settings.retry_count + 1) * (4096LL << std::max(settings.timeout, kLeastTimeout)) / 1'000'000;
  news_.port = port_.number;
  device_->subscribe(news_);
}

VerbsAdapter::~VerbsAdapter() {
  if (unacknowledged_ > 0) device_->library().ack_cq_events(queue_.get(), unacknowledged_);
  device_->unsubscribe(news_);
}

Status VerbsAdapter::look_again() {
  auto port = device_->port(port_.number);
  if (!port) return port.error();
  port_ = *std::move(port);
  const auto gid = choose_gid(port_, settings_.gid_index);
  if (!gid) return gid.error();
  gid_ = *gid;
  return {};
}

bool VerbsAdapter::disturbed_since(std::uint32_t disturbances) {
  const auto port = device_->port(port_.number);
  return device_->disturbances(news_) != disturbances || !port || !port->active();
}

unsigned VerbsAdapter::access(bool remote) const {
  const unsigned access = remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  // Puts that tell come after all others, whatever order these have. Nothing else relies on an order.
  return settings_.relaxed_ordering ? access | static_cast<unsigned>(IBV_ACCESS_RELAXED_ORDERING) : access;
}

Result<std::uint64_t> VerbsAdapter::register_memory(std::span<std::byte> memory, bool remote) {
  const auto made = device_->register_memory(memory, access(remote));
  if (!made) return made.error();
  return reinterpret_cast<std::uint64_t>(*made);
}

Result<RegisteredMemory> VerbsAdapter::register_device_memory(const DmaBuf& memory, std::byte* address,
                                                              Flusher flusher) {
  // No write overtakes another one where a read is to find all of them done.
  constexpr unsigned kRead = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const bool remote = flusher != Flusher::None;
  const auto made = device_->register_memory(memory, address, flusher == Flusher::Adapter ? kRead : access(remote));
  if (!made) return made.error();
  RegisteredMemory registered{reinterpret_cast<std::uint64_t>(*made), std::nullopt, flusher};
  if (remote) registered.remote = {reinterpret_cast<std::uintptr_t>(address), (*made)->rkey};
  return registered;
}

RemoteMemory VerbsAdapter::name(std::uint64_t registration) const {
  const auto* const region = reinterpret_cast<const ibv_mr*>(registration);
  return {reinterpret_cast<std::uintptr_t>(region->addr), region->rkey};
}

void VerbsAdapter::deregister_memory(std::uint64_t registration) {
  device_->library().dereg_mr(reinterpret_cast<ibv_mr*>(registration));
}

// Makes the completion queue large enough that it holds all that may complete at once, in success or in error.
Status VerbsAdapter::make_queue(std::uint32_t tells) {
  const std::uint64_t channels = static_cast<std::uint64_t>(peers_) * settings_.queue_pairs;
  const std::uint64_t wanted = channels * VerbsChannel::completions(limits_, tells);
  const auto entries = std::min<std::uint64_t>(wanted, static_cast<std::uint64_t>(device_->limits().max_cqe));
  queue_.reset(device_->library().create_cq(device_->context(), static_cast<int>(entries), &news_, bell_.get(), 0));
  if (queue_ != nullptr) return {};
  return Error{ErrorCode::System,
               fmt::format("{}: no completion queue of {} entries: {}", describe(), entries, std::strerror(errno))};
}

Result<std::unique_ptr<Channel>> VerbsAdapter::make_channel(std::uint32_t tells) {
  if (queue_ == nullptr) WREATH_TRY(make_queue(tells));
  const std::size_t index = channels_.next();
  if (index >= static_cast<std::uint32_t>(queue_->cqe) / VerbsChannel::completions(limits_, tells) ||
      index > UINT16_MAX) {
    return Error{ErrorCode::Unavailable,
                 fmt::format("{}: its completion queue has {} entries, which are too few for one more peer: take fewer "
                             "lanes (WREATH_LANES) or queue pairs (WREATH_IB_QUEUE_PAIRS)",
                             describe(), queue_->cqe)};
  }
  auto channel = VerbsChannel::make(*this, static_cast<std::uint16_t>(index), tells);
  if (!channel) return channel.error();
  channels_.add(**channel);
  return std::unique_ptr<Channel>(*std::move(channel));
}

void VerbsAdapter::remove(const VerbsChannel& channel) {
  if (!channels_.remove(channel)) return;
  std::erase_if(events_, [&](const PutEvent& event) { return event.channel == channel.index(); });
}

bool VerbsAdapter::has_events_of(const Channel& channel) const {
  return std::ranges::any_of(events_, [&](const PutEvent& event) { return event.channel == channel.index(); });
}

// Polls once, and writes the events that the completions make behind the `made` first ones. Returns how many
// completions there were.
Result<std::size_t> VerbsAdapter::take(std::span<PutEvent> events, std::size_t& made) {
  std::array<ibv_wc, kPolledAtOnce> completions;
  const int asked = static_cast<int>(std::min(events.size() - made, completions.size()));
  const int count = ibv_poll_cq(queue_.get(), asked, completions.data());
  if (count < 0) return Error{ErrorCode::System, fmt::format("{}: its completion queue failed", describe())};
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
    VerbsChannel* const channel = channels_.find(WorkNumber::unpack(completion.wr_id).channel);
    if (channel != nullptr && channel->on_completion(completion, events[made])) ++made;
  }
  return static_cast<std::size_t>(count);
}

Result<std::size_t> VerbsAdapter::poll(std::span<PutEvent> events) {
  std::size_t made = 0;
  while (made < events.size() && !events_.empty()) {
    events[made++] = std::move(events_.front());
    events_.pop_front();
  }
  while (made < events.size() && queue_ != nullptr) {
    const std::size_t asked = std::min(events.size() - made, kPolledAtOnce);
    const auto taken = take(events, made);
    if (!taken) return taken.error();
    if (*taken < asked) break;
  }
  return made;
}

void VerbsAdapter::clear_bell() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (device_->library().get_cq_event(bell_.get(), &queue, &context) == 0) {
    armed_ = false;
    if (++unacknowledged_ < kAcknowledgedAtOnce) continue;
    device_->library().ack_cq_events(queue_.get(), unacknowledged_);
    unacknowledged_ = 0;
  }
}

// The bell rings once, for the first completion after it was armed. So the queue is looked at once more after that.
bool VerbsAdapter::arm() {
  if (queue_ == nullptr) return true;
  clear_bell();
  if (!armed_) armed_ = ibv_req_notify_cq(queue_.get(), 0) == 0;
  std::array<PutEvent, kPolledAtOnce> events;
  std::size_t made = 0;
  const auto taken = take(events, made);
  std::move(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(made), std::back_inserter(events_));
  return armed_ && events_.empty() && taken && *taken == 0;
}

}  // namespace wreath
