// Everything happens under one lock, so that adapters may be driven by threads.
#include "tests/unit/put/network.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace wreath {

void TestNetwork::breach(const std::string& what) {
  ++violations_;
  violation_ = what;
}

std::unique_ptr<Adapter> TestNetwork::make_adapter(std::string name) {
  return std::make_unique<TestAdapter>(*this, std::move(name));
}

TestChannel* TestNetwork::find(std::uint64_t id, std::uint32_t generation) const {
  for (TestChannel* channel : channels_) {
    if (channel->id_ == id && channel->generation_ == generation) return channel;
  }
  return nullptr;
}

bool TestNetwork::step() {
  const std::lock_guard lock(mutex_);
  if (channels_.empty() || chance(whims_.idle_chance)) return false;
  const std::size_t first = random_() % channels_.size();
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    if (channels_[(first + i) % channels_.size()]->step()) return true;
  }
  return false;
}

bool TestNetwork::step(const Adapter& adapter) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(channels_,
                             [&](TestChannel* channel) { return &channel->adapter_ == &adapter && channel->step(); });
}

bool TestNetwork::step_newest(const Adapter& adapter) {
  const std::lock_guard lock(mutex_);
  for (TestChannel* channel : channels_) {
    const std::size_t count = channel->pending_.size();
    if (&channel->adapter_ == &adapter && count > 0) return channel->move(count - 1);
  }
  return false;
}

void TestNetwork::lose(const Adapter& adapter, bool retryable, ErrorCode code) {
  const std::lock_guard lock(mutex_);
  for (TestChannel* channel : channels_) {
    if (&channel->adapter_ == &adapter) return channel->lose("the link went down", retryable, code);
  }
}

void TestNetwork::forge_told(const Adapter& adapter, std::uint32_t told) {
  const std::lock_guard lock(mutex_);
  for (TestChannel* channel : channels_) {
    if (&channel->adapter_ != &adapter) continue;
    return channel->event({.kind = PutEvent::Kind::Told, .channel = channel->index_, .told = told});
  }
}

std::span<std::byte> TestNetwork::remote_memory(std::uint64_t address) const {
  for (const auto& [key, memory] : memories_) {
    if (reinterpret_cast<std::uintptr_t>(memory.bytes.data()) == address) return memory.bytes;
  }
  return {};
}

std::size_t TestNetwork::under_way(const Adapter& adapter) const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const TestChannel* channel : channels_) count += &channel->adapter_ == &adapter ? channel->pending_.size() : 0;
  return count;
}

TestChannel::TestChannel(TestNetwork& network, TestAdapter& adapter, std::uint16_t index, std::uint32_t tells)
    : network_(network), adapter_(adapter), index_(index), tells_(tells), id_(network.next_number_++) {
  network.channels_.push_back(this);
}

TestChannel::~TestChannel() {
  const std::lock_guard lock(network_.mutex_);
  std::erase(network_.channels_, this);
  std::erase_if(adapter_.events_, [&](const PutEvent& event) { return event.channel == index_; });
}

std::vector<std::byte> TestChannel::address() const {
  std::vector<std::byte> bytes(sizeof id_ + sizeof generation_);
  std::memcpy(bytes.data(), &id_, sizeof id_);
  std::memcpy(bytes.data() + sizeof id_, &generation_, sizeof generation_);
  return bytes;
}

Status TestChannel::connect(std::span<const std::byte> theirs) {
  const std::lock_guard lock(network_.mutex_);
  if (theirs.size() != sizeof peer_ + sizeof peer_generation_) {
    return Error{ErrorCode::Mismatch, fmt::format("a channel's address has {} bytes", theirs.size())};
  }
  if (state_ != State::Fresh) network_.breach("a channel that is not new is connected");
  const bool refuses = network_.whims_.refuses_connections || adapter_.down;
  if (refuses && generation_ > 1) return Error{ErrorCode::System, "the port is down"};
  if (adapter_.renamed && generation_ > 1) return Error{ErrorCode::Mismatch, "the peer's address is of another kind"};
  std::memcpy(&peer_, theirs.data(), sizeof peer_);
  std::memcpy(&peer_generation_, theirs.data() + sizeof peer_, sizeof peer_generation_);
  state_ = State::Connected;
  return {};
}

Result<std::size_t> TestChannel::put(std::span<const Put> puts) {
  const std::lock_guard lock(network_.mutex_);
  if (state_ == State::Fresh) network_.breach("a put before connect()");
  if (state_ != State::Connected) return puts.size();
  std::size_t most = network_.whims_.limits.outstanding - pending_.size();
  if (network_.whims_.full) most = 0;
  if (network_.chance(network_.whims_.full_chance)) most = std::min<std::size_t>(most, network_.below(2));
  if (puts.size() > most + pending_.size() + network_.whims_.limits.outstanding) network_.breach("too many puts");
  const std::size_t taken = std::min(most, puts.size());
  for (const Put& put : puts.first(taken)) {
    Pending pending{put, {}, 0};
    if (put.registration == 0) {
      if (put.bytes > network_.whims_.limits.inline_bytes) network_.breach("a long put without registration");
      if (put.bytes > 0) pending.inlined.assign(put.from, put.from + put.bytes);
    }
    if (put.bytes > network_.whims_.limits.put_bytes) network_.breach("a put is too long");
    if (put.tells.value_or(0) >> (network_.whims_.limits.told_bits - 1) > 1) network_.breach("a put tells too much");
    pending_.push_back(std::move(pending));
  }
  return taken;
}

// Moves a piece of a put, of the first one where the network is ordered.
bool TestChannel::step() {
  if (state_ != State::Connected || pending_.empty() || (adapter_.silent && generation_ == 1)) return false;
  return move(network_.whims_.limits.ordered ? 0 : network_.random_() % pending_.size());
}

bool TestChannel::move(std::size_t at) {
  Pending& pending = pending_[at];
  const Put& put = pending.put;
  const TestChannel* peer = network_.find(peer_, peer_generation_);
  if (peer == nullptr || peer->state_ != State::Connected || adapter_.down || peer->adapter_.down) {
    lose("retries ran out", true);
    return true;
  }
  const std::byte* from = pending.inlined.data();
  if (put.registration != 0 && put.bytes > 0) {
    const auto own = network_.memories_.find(put.registration);
    const bool known = own != network_.memories_.end() && put.from >= own->second.bytes.data() &&
                       put.from + put.bytes <= own->second.bytes.data() + own->second.bytes.size();
    if (!known) network_.breach("a put from memory that is not registered");
    if (!known) return pending_.clear(), true;
    from = put.from;
  }
  const std::uint32_t left = put.bytes - pending.done;
  const std::uint32_t piece = network_.whims_.torn && left > 1 ? 1 + network_.below(left) : left;
  if (piece > 0) {
    const auto target = network_.memories_.find(put.key);
    const auto begin =
        target == network_.memories_.end() ? 0 : reinterpret_cast<std::uintptr_t>(target->second.bytes.data());
    if (begin == 0 || !target->second.remote || put.to < begin ||
        put.to + put.bytes > begin + target->second.bytes.size()) {
      lose("remote access error", false);
      return true;
    }
    std::memcpy(target->second.bytes.data() + (put.to - begin) + pending.done, from + pending.done, piece);
  }
  pending.done += piece;
  if (pending.done == put.bytes) finish(at);
  return true;
}

// A put that is lost may have arrived or not.
void TestChannel::finish(std::size_t at) {
  const Put put = pending_[at].put;
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(at));
  adapter_.bytes += put.bytes;
  ++network_.executed_;
  const bool lost = network_.executed_ == network_.whims_.lose_put || network_.chance(network_.whims_.lose_chance);
  const bool arrives = !lost || network_.random_() % 2 == 0;
  TestChannel* peer = network_.find(peer_, peer_generation_);
  if (arrives && put.tells) {
    const auto waiting = std::ranges::count_if(peer->adapter_.events_, [&](const PutEvent& event) {
      return event.channel == peer->index_ && event.kind == PutEvent::Kind::Told;
    });
    if (waiting >= static_cast<std::ptrdiff_t>(peer->tells_)) network_.breach("more puts tell than were agreed");
    peer->event({.kind = PutEvent::Kind::Told, .channel = peer->index_, .told = *put.tells});
  }
  if (lost) return lose("retries ran out", network_.whims_.retryable);
  if (put.reports) event({.kind = PutEvent::Kind::Ended, .channel = index_, .number = put.number});
}

void TestChannel::lose(const std::string& reason, bool retryable, ErrorCode code) {
  if (state_ != State::Connected) return;
  state_ = State::Lost;
  pending_.clear();
  event({.kind = PutEvent::Kind::Lost, .channel = index_, .error = {code, reason}, .retryable = retryable});
}

void TestChannel::event(PutEvent event) {
  adapter_.events_.push_back(std::move(event));
  if (!std::exchange(adapter_.armed_, false)) return;
  const std::uint64_t one = 1;
  if (::write(adapter_.descriptor_.get(), &one, sizeof one) != sizeof one) network_.breach("no event");
}

bool TestChannel::stop() {
  const std::lock_guard lock(network_.mutex_);
  state_ = State::Stopped;
  pending_.clear();
  const bool waiting =
      std::ranges::any_of(adapter_.events_, [&](const PutEvent& event) { return event.channel == index_; });
  let_go_ = !waiting && (let_go_ || !network_.chance(network_.whims_.stop_chance));
  return let_go_;
}

Status TestChannel::reset() {
  const std::lock_guard lock(network_.mutex_);
  if (state_ != State::Stopped) network_.breach("a channel that is not stopped is reset");
  ++generation_;
  state_ = State::Fresh;
  let_go_ = false;
  return {};
}

bool TestChannel::settle(std::uint32_t /*peer_tells*/) { return !adapter_.held; }

void TestChannel::give_up() { ++adapter_.given_up; }

TestAdapter::TestAdapter(TestNetwork& network, std::string name)
    : network_(network), name_(std::move(name)), descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

TestAdapter::~TestAdapter() = default;

Result<std::uint64_t> TestAdapter::register_memory(std::span<std::byte> memory, bool remote) {
  const std::lock_guard lock(network_.mutex_);
  const std::uint64_t number = network_.next_number_++;
  network_.memories_[number] = {memory, remote};
  return number;
}

RemoteMemory TestAdapter::name(std::uint64_t registration) const {
  const std::lock_guard lock(network_.mutex_);
  return {reinterpret_cast<std::uintptr_t>(network_.memories_.at(registration).bytes.data()), registration};
}

void TestAdapter::deregister_memory(std::uint64_t registration) {
  const std::lock_guard lock(network_.mutex_);
  if (network_.memories_.erase(registration) == 0) network_.breach("an unknown registration ends");
}

Result<std::unique_ptr<Channel>> TestAdapter::make_channel(std::uint32_t tells) {
  const std::lock_guard lock(network_.mutex_);
  return std::unique_ptr<Channel>(std::make_unique<TestChannel>(network_, *this, next_index_++, tells));
}

Result<std::size_t> TestAdapter::poll(std::span<PutEvent> events) {
  const std::lock_guard lock(network_.mutex_);
  ++polls;
  if (network_.chance(network_.whims_.held_chance)) return std::size_t{0};
  std::size_t count = 0;
  while (count < events.size() && !events_.empty()) {
    events[count++] = std::move(events_.front());
    events_.pop_front();
  }
  return count;
}

bool TestAdapter::arm() {
  const std::lock_guard lock(network_.mutex_);
  ++arms;
  std::uint64_t count;
  static_cast<void>(!::read(descriptor_.get(), &count, sizeof count));
  armed_ = true;
  return events_.empty();
}

std::optional<std::string> TestAdapter::trouble() {
  const std::lock_guard lock(network_.mutex_);
  if (troubles_.empty()) return std::nullopt;
  std::string text = std::move(troubles_.front());
  troubles_.pop_front();
  return text;
}

}  // namespace wreath
