// Moves messages over all rails: see rail_link.hpp.
#include "transports/tcp/rail_link.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "transports/tcp/rail.hpp"

namespace wreath {
namespace {

// Returns "eth0 + eth1" or "eth0 (3 sockets)".
std::string listed(const std::vector<std::string>& interfaces) {
  std::vector<std::string> texts;
  for (auto at = interfaces.begin(); at != interfaces.end(); ++at) {
    if (at->empty() || std::find(interfaces.begin(), at, *at) != at) continue;
    const auto count = std::count(at, interfaces.end(), *at);
    texts.push_back(count == 1 ? *at : fmt::format("{} ({} sockets)", *at, count));
  }
  return fmt::format("{}", fmt::join(texts, " + "));
}

}  // namespace

// A part may be under way on several rails, each of which may be lost in the middle of it. All of them write the same
// bytes to its place until it is whole by one of them. The others' rest is thrown away then, since the place may soon
// belong to another message.
void RailLink::Receiver::take_payload(const WireHeader& header, const std::byte*) {
  if (is_part(header.kind)) {
    for (const auto& rail : link_.rails_) {
      if (&rail->receiver != this) rail->receiver.abandon(header);
    }
  }
  link_.inbox_.add(header);
}

Result<std::unique_ptr<RailLink>> RailLink::make(Rank self, Rank peer, std::vector<RailSocket> sockets,
                                                 const FifoShape& shape, std::shared_ptr<TcpCounts> counts,
                                                 bool same_host) {
  std::unique_ptr<RailLink> link(new RailLink(self, peer, std::move(sockets), shape, std::move(counts)));
  link->same_host_ = same_host;
  if (link->growth_) {
    link->sender_.keep(false);
  } else {
    WREATH_TRY(link->watch_all());
  }
  return link;
}

Status RailLink::watch_all() {
  events_ = Fd::of_process(::epoll_create1(EPOLL_CLOEXEC));
  if (!events_) return os_error("wait for several sockets", errno);
  for (const auto& rail : rails_) {
    const Status watched = watch(rail->socket.get());
    if (watched) continue;
    events_ = Fd();
    return watched;
  }
  return {};
}

Status RailLink::watch(int socket) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket, &event) == 0) return {};
  return os_error("wait for several sockets", errno);
}

RailLink::RailLink(Rank self, Rank peer, std::vector<RailSocket> sockets, const FifoShape& shape,
                   std::shared_ptr<TcpCounts> counts)
    : self_(self),
      peer_(peer),
      counts_(std::move(counts)),
      lanes_(shape),
      inbox_(lanes_),
      sender_(lanes_, inbox_, sockets.size(), *counts_),
      alive_(sockets.size()),
      carriers_(sockets.size()),
      opening_(self < peer) {
  if (sockets.size() == 1) growth_.emplace();
  for (RailSocket& each : sockets) {
    rails_.push_back(std::make_unique<Rail>(static_cast<std::uint8_t>(rails_.size()), std::move(each), *this));
  }
}

// The peer may still be reading bytes that the kernel accepted, and they must reach it.
RailLink::~RailLink() {
  if (broken_) return;
  for (const auto& rail : rails_) {
    if (rail->socket) finish_sending(rail->socket.get());
  }
}

// An error is reported when everything that arrived before it has been read, and did its work.
Result<std::size_t> RailLink::progress(bool expecting) {
  if (broken_) return *broken_;
  if (alive_ == 0) return fail(*last_loss_);
  const auto sent = send_all();
  if (!sent) return fail(sent.error());
  std::size_t moved = *sent;
  if (expecting || armed_ || sender_.waits() || ++idle_calls_ >= kIdleCalls) {
    idle_calls_ = 0;
    armed_ = false;
    const auto received = receive_all();
    if (!received) return fail(received.error());
    moved += *received;
  }
  moved += std::exchange(moved_, 0);
  // The only socket is not looked after each time, since that costs a small message its share.
  const bool rests = alive_ == rails_.size() && !(growth_ && (growth_->measures() || opening_.under_way()));
  if (rests && (growth_ ? rails_.size() == 1 && ++unlooked_calls_ < kIdleCalls : moved > 0)) return moved;
  unlooked_calls_ = 0;
  const auto drained = look_after_rails();
  if (!drained) return fail(drained.error());
  if (alive_ == 0 && moved + *drained == 0) return fail(*last_loss_);
  return moved + *drained;
}

Result<std::size_t> RailLink::send_all() {
  std::size_t moved = 0;
  for (bool more = true; more && moved < kTurnBytes;) {
    more = false;
    for (std::size_t i = 0; i < rails_.size(); ++i) {
      // Waiters come here without end, so this does not divide.
      const std::size_t at = turn_ + i;
      Rail& rail = *rails_[at < rails_.size() ? at : at - rails_.size()];
      if (!rail.socket) continue;
      const auto sent = send(rail);
      if (!sent && sent.error().code != ErrorCode::PeerLost) return sent;
      // A peer that left may have said that it needs nothing more.
      const auto received = sent ? Result<std::size_t>(0) : lose(rail, sent.error());
      if (!received) return received;
      moved += *received + (sent ? *sent : 0);
      more = more || (sent && *sent > 0 && rail.batch.unsent() == 0 && alive_ > 1);
    }
  }
  turn_ = turn_ + 1 < rails_.size() ? turn_ + 1 : 0;
  return moved;
}

// Sends the rest of a rail's batch, or else a new one.
Result<std::size_t> RailLink::send(Rail& rail) {
  if (rail.batch.unsent() == 0 && carries(rail)) WREATH_TRY(sender_.gather(rail.number, rail.batch));
  if (rail.batch.unsent() == 0) return std::size_t{0};
  const auto sent = rail.batch.send();
  if (sent) sender_.on_sent(rail.number, rail.batch.sent());
  return sent;
}

// Where all rails that should carry messages are lost, the others do.
bool RailLink::carries(const Rail& rail) const {
  return rail.number < carriers_ ||
         std::none_of(rails_.begin(), rails_.begin() + static_cast<std::ptrdiff_t>(carriers_),
                      [](const auto& each) { return static_cast<bool>(each->socket); });
}

Result<std::size_t> RailLink::receive_all() {
  std::size_t moved = 0;
  for (const auto& rail : rails_) {
    if (!rail->socket) continue;
    const auto received = rail->receiver.receive_some();
    const bool ended = !received && rail->receiver.stream_ended() && received.error().code == ErrorCode::PeerLost;
    const auto counted = ended ? lose(*rail, received.error()) : received;
    if (!counted) return counted;
    moved += *counted;
  }
  return moved;
}

std::optional<Offer> RailLink::take_word() {
  if (words_.empty()) return std::nullopt;
  Offer word = encode_rail_word(words_.front());
  words_.pop_front();
  return word;
}

Status RailLink::on_word(Offer word) {
  if (broken_) return {};
  const auto decoded = decode_rail_word(word.bytes);
  const Status taken = decoded ? take(*decoded) : Status(decoded.error());
  return taken ? taken : Status(fail(taken.error()));
}

int RailLink::descriptor() const {
  if (events_) return events_.get();
  return broken_ ? -1 : rails_.front()->socket.get();
}

bool RailLink::send_blocked() const {
  return !broken_ && std::ranges::any_of(rails_, [](const auto& rail) { return rail->batch.unsent() > 0; });
}

bool RailLink::closing_loses_data() const {
  // Messages of a lost rail wait for another one.
  if (!broken_ && (needs_progress() || send_blocked())) return true;
  return std::ranges::any_of(
      rails_, [](const auto& rail) { return rail->socket && unacknowledged_bytes(rail->socket.get()) > 0; });
}

bool RailLink::arm() {
  std::array<epoll_event, 16> events;
  while (events_ && ::epoll_wait(events_.get(), events.data(), events.size(), 0) == static_cast<int>(events.size())) {
  }
  armed_ = true;
  return true;
}

std::string RailLink::path() const {
  const std::lock_guard lock(path_mutex_);
  std::vector<std::string> interfaces;
  for (const auto& rail : rails_) interfaces.push_back(rail->interface);
  for (const std::string& lost : lost_) interfaces.erase(std::find(interfaces.begin(), interfaces.end(), lost));
  const std::string left = listed(interfaces);
  return lost_.empty() ? left : fmt::format("{}{}lost: {}", left, left.empty() ? "" : ", ", listed(lost_));
}

// Names the peer once, here. An error that is not the peer's doing keeps its code.
Error RailLink::explain(const Error& error) const {
  return {error.code, fmt::format("tcp link to rank {}: {}", peer_, error.message),
          error.code == ErrorCode::PeerLost ? peer_ : -1};
}

Error RailLink::fail(const Error& error) {
  broken_ = explain(error);
  return *broken_;
}

}  // namespace wreath
