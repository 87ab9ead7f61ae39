// Moves messages over all rails, and drops rails that are lost: see rail_link.hpp.
#include "transports/tcp/rail_link.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "transports/tcp/streams.hpp"

namespace wreath {
namespace {

// A rail is looked at so often while nothing moves.
constexpr std::int64_t kRailLookNs = 100 * kNsPerMs;
// A loss is said so long after it. When a peer leaves, all rails end within this time, and that is no loss.
constexpr std::int64_t kRailSayNs = 1000 * kNsPerMs;
// A rail that is lost sooner after it was replaced waits longer, up to a minute, for the next socket.
constexpr std::int64_t kRailSteadyNs = 60'000 * kNsPerMs;
constexpr std::int64_t kLongestRailPauseNs = 60'000 * kNsPerMs;

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

// Reads one rail.
class RailLink::Receiver final : public FrameReader {
 public:
  Receiver(int socket, RailLink& link)
      : FrameReader(socket, link.lanes_.shape(), Framing::Parts, *link.counts_), link_(link) {}

 private:
  Status check(const WireHeader& header) const override {
    if (has_message(header.kind)) WREATH_TRY(link_.inbox_.check(header));
    return link_.sender_.check(header);
  }
  void take_report(const WireHeader& header) override { link_.sender_.take_report(header); }
  Result<std::byte*> destination(const WireHeader& header) override { return link_.inbox_.place(header); }
  void take_payload(const WireHeader& header, const std::byte*) override;

  RailLink& link_;
};

struct RailLink::Rail {
  Rail(std::uint8_t its_number, RailSocket own, RailLink& link)
      : number(its_number),
        socket(std::move(own.socket)),
        interface(std::move(own.interface)),
        addresses{local_address(socket.get()), peer_address(socket.get())},
        first(addresses),
        name(fmt::format("{}{}to {}", interface, interface.empty() ? "" : " ", addresses.remote.text())),
        batch(socket.get(), *link.counts_),
        receiver(socket.get(), link) {}

  // Returns whether a lost socket can be replaced: others have no addresses.
  bool can_return() const { return first.known(); }

  std::uint8_t number;
  Fd socket;  // empty once the rail is lost
  std::string interface;
  RailAddresses addresses;
  RailAddresses first;  // of its first socket: they name the rail while it has none
  std::string name;
  FrameBatch batch;
  Receiver receiver;
  std::string why;  // it was lost
  std::int64_t lost_ns = 0;
  bool said = false;
  std::optional<RailReturn> replacement;  // while the rail is lost
  // The socket replaced another one then, after this pause.
  std::int64_t replaced_ns = 0;
  std::int64_t pause_ns = 0;
};

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
  Fd events = Fd::of_process(::epoll_create1(EPOLL_CLOEXEC));
  if (!events) return os_error("wait for several sockets", errno);
  std::unique_ptr<RailLink> link(
      new RailLink(self, peer, std::move(sockets), shape, std::move(events), std::move(counts)));
  link->same_host_ = same_host;
  for (const auto& rail : link->rails_) WREATH_TRY(link->watch(rail->socket.get()));
  return link;
}

Status RailLink::watch(int socket) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket, &event) == 0) return {};
  return os_error("wait for several sockets", errno);
}

RailLink::RailLink(Rank self, Rank peer, std::vector<RailSocket> sockets, const FifoShape& shape, Fd events,
                   std::shared_ptr<TcpCounts> counts)
    : self_(self),
      peer_(peer),
      counts_(std::move(counts)),
      lanes_(shape),
      inbox_(lanes_),
      sender_(lanes_, inbox_, sockets.size(), *counts_),
      events_(std::move(events)),
      alive_(sockets.size()) {
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
  if (moved > 0 && alive_ == rails_.size()) return moved;
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
      Rail& rail = *rails_[(turn_ + i) % rails_.size()];
      if (!rail.socket) continue;
      const auto sent = send(rail);
      if (!sent && sent.error().code != ErrorCode::PeerLost) return sent;
      // A peer that left may have said that it needs nothing more.
      const auto received = sent ? Result<std::size_t>(0) : lose(rail, sent.error());
      if (!received) return received;
      moved += *received + (sent ? *sent : 0);
      more = more || (sent && *sent > 0 && rail.batch.unsent() == 0);
    }
  }
  turn_ = (turn_ + 1) % rails_.size();
  return moved;
}

// Sends the rest of a rail's batch, or else a new one.
Result<std::size_t> RailLink::send(Rail& rail) {
  if (rail.batch.unsent() == 0) WREATH_TRY(sender_.gather(rail.number, rail.batch));
  if (rail.batch.unsent() == 0) return std::size_t{0};
  const auto sent = rail.batch.send();
  if (sent && rail.batch.unsent() == 0) sender_.on_sent(rail.number);
  return sent;
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

// Closes a rail. What it and the others have received counts, and the bytes are returned.
Result<std::size_t> RailLink::lose(Rail& rail, const Error& error) {
  std::size_t moved = 0;
  for (bool more = true; more;) {
    const auto received = rail.receiver.receive_some();
    if (!received && !rail.receiver.stream_ended()) return received;
    more = received && *received > 0;
    if (more) moved += *received;
  }
  rail.socket = Fd();
  rail.batch.clear();
  rail.why = error.message;
  rail.lost_ns = now_ns();
  if (rail.can_return()) {
    // A way that loses what is large takes a new socket at once, and each time a message waits for its loss.
    const bool soon = rail.replaced_ns != 0 && rail.lost_ns - rail.replaced_ns < kRailSteadyNs;
    rail.pause_ns = soon ? std::clamp(2 * rail.pause_ns, kRailSayNs, kLongestRailPauseNs) : 0;
    rail.replacement.emplace(rail.first, self_ < peer_, rail.lost_ns + rail.pause_ns);
    // A socket that was reset at once has no address.
    if (rail.addresses.known()) words_.emplace_back(RailLost{rail.addresses});
  }
  last_loss_ = error;
  --alive_;
  sender_.on_lost(rail.number);
  inbox_.owe_all();
  const auto others = receive_all();
  if (!others) return others;
  return moved + *others;
}

// A rail whose bytes nobody acknowledges is lost, while another one is left. The control connection tells of a peer
// that is lost as a whole.
Result<std::size_t> RailLink::look_after_rails() {
  std::size_t moved = 0;
  const std::int64_t now = now_ns();
  say_losses(now);
  if (now - looked_ns_ < kRailLookNs) return moved;
  looked_ns_ = now;
  replace_lost(now);
  for (const auto& rail : rails_) {
    if (alive_ < 2 || !rail->socket || !lost_for_good(rail->socket.get())) continue;
    const auto received = lose(*rail, {ErrorCode::PeerLost, "no answer"});
    if (!received) return received;
    moved += *received;
  }
  return moved;
}

// Names a lost socket once others have gone on without it, for a peer that leaves closes all of its sockets.
void RailLink::say_losses(std::int64_t now_ns) {
  const LogRank log_rank(self_);
  for (const auto& rail : rails_) {
    if (alive_ == 0 || rail->socket || rail->said || now_ns - rail->lost_ns < kRailSayNs) continue;
    rail->said = true;
    {
      const std::lock_guard lock(path_mutex_);
      lost_.push_back(rail->interface);
    }
    log_warning("tcp link to rank {}: the socket {} is lost: {}; its messages go over the other {}", peer_, rail->name,
                rail->why, alive_ == 1 ? "one" : std::to_string(alive_));
  }
}

// A rail whose loss was said may come back. Where a new socket fails at once, the ends try again later.
void RailLink::replace_lost(std::int64_t now_ns) {
  for (const auto& rail : rails_) {
    if (!rail->replacement || !rail->said) continue;
    std::optional<RailWord> word;
    std::optional<Fd> socket = rail->replacement->step(now_ns, word);
    if (word) words_.push_back(*word);
    if (!socket) continue;
    const Status taken = take_back(*rail, *std::move(socket));
    if (!taken) log_info("{}", taken.error().message);
  }
}

// Begins anew with another socket. The peer may have sent over it already.
Status RailLink::take_back(Rail& rail, Fd socket) {
  set_stream_options(socket.get());
  WREATH_TRY(prepare_stream(socket.get(), peer_, same_host_, true));
  WREATH_TRY(watch(socket.get()));
  auto fresh = std::make_unique<Rail>(rail.number, RailSocket{std::move(socket), rail.interface}, *this);
  fresh->first = rail.first;
  fresh->replaced_ns = now_ns();
  fresh->pause_ns = rail.pause_ns;
  ++alive_;
  const LogRank log_rank(self_);
  log_warning("tcp link to rank {}: the socket {} replaces the one that was lost", peer_, fresh->name);
  const std::lock_guard lock(path_mutex_);
  lost_.erase(std::find(lost_.begin(), lost_.end(), rail.interface));
  rails_[rail.number] = std::move(fresh);
  return {};
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

// Words about a socket that has been replaced, or whose addresses a network changes, are of no use.
Status RailLink::take(const RailWord& word) {
  const auto* const awaited = std::get_if<RailAwaited>(&word);
  const RailAddresses& theirs = awaited == nullptr ? std::get<RailLost>(word).socket : awaited->socket;
  for (const auto& rail : rails_) {
    const RailAddresses& own = awaited == nullptr ? rail->addresses : rail->first;
    if (!rail->can_return() || !own.is_other_end_of(theirs)) continue;
    if (rail->socket) {
      const auto received = lose(*rail, {ErrorCode::PeerLost, "the peer has lost it"});
      if (!received) return received.error();
      moved_ += *received;
    }
    if (awaited != nullptr) rail->replacement->on_awaited(*awaited, now_ns());
  }
  return {};
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
  while (::epoll_wait(events_.get(), events.data(), events.size(), 0) == static_cast<int>(events.size())) {
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
