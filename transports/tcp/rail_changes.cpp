// Closes rails that are lost or not needed, and adds others: see rail_link.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"
#include "transports/tcp/rail.hpp"
#include "transports/tcp/streams.hpp"

namespace wreath {
namespace {

// A rail is looked at so often while nothing moves.
constexpr std::int64_t kRailLookNs = 100 * kNsPerMs;
constexpr std::int64_t kRailOpeningLookNs = kNsPerMs;
// A loss is said so long after it. When a peer leaves, all rails end within this time, and that is no loss.
constexpr std::int64_t kRailSayNs = 1000 * kNsPerMs;
// A rail that is lost sooner after it was replaced waits longer, up to a minute, for the next socket.
constexpr std::int64_t kRailSteadyNs = 60'000 * kNsPerMs;
constexpr std::int64_t kLongestRailPauseNs = 60'000 * kNsPerMs;

}  // namespace

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
  if (rail.number >= shared_rails()) {
    rail.unneeded = true;
    opening_.give_up();
  }
  if (rail.can_return() && !rail.unneeded && rails_.size() > 1) {
    // A way that loses what is large takes a new socket at once, and each time a message waits for its loss.
    const bool soon = rail.replaced_ns != 0 && rail.lost_ns - rail.replaced_ns < kRailSteadyNs;
    rail.pause_ns = soon ? std::clamp(2 * rail.pause_ns, kRailSayNs, kLongestRailPauseNs) : 0;
    rail.replacement.emplace(rail.first, self_ < peer_, rail.lost_ns + rail.pause_ns);
    // A socket that was reset at once has no address.
    if (rail.addresses.known()) words_.push_back({.kind = RailWord::Kind::Lost, .socket = rail.addresses});
  }
  last_loss_ = error;
  --alive_;
  if (!sender_.on_lost(rail.number) && alive_ > 0) return error;
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
  if (alive_ < rails_.size()) say_losses(now);
  if (growth_ && growth_->measures()) measure(now);
  if (now - looked_ns_ < (opening_.under_way() ? kRailOpeningLookNs : kRailLookNs)) return moved;
  looked_ns_ = now;
  replace_lost(now);
  if (growth_ && rails_.front()->can_return()) {
    measure(now);
    const auto received = change_count(now);
    if (!received) return received;
    moved += *received;
  }
  for (const auto& rail : rails_) {
    if (alive_ < 2 || !rail->socket || !lost_for_good(rail->socket.get())) continue;
    const auto received = lose(*rail, {ErrorCode::PeerLost, "no answer"});
    if (!received) return received;
    moved += *received;
  }
  return moved;
}

// Lets the measuring see the traffic, and does as it says.
void RailLink::measure(std::int64_t now_ns) {
  RailTraffic traffic;
  traffic.now_ns = now_ns;
  traffic.rails = alive_ < rails_.size() || rails_.back()->unneeded ? 1 : shared_rails();
  traffic.sent_bytes = sender_.large_begun();
  traffic.arrived_bytes = sender_.large_arrived();
  traffic.under_way = sender_.large_under_way();
  growth_->observe(traffic);
  opening_.want(growth_->wants());
  carriers_ = std::min(growth_->uses(), shared_rails());
  if (const std::string news = growth_->take_news(); !news.empty()) {
    const LogRank log_rank(self_);
    log_info("tcp link to rank {}: {}", peer_, news);
  }
}

// Opens and closes sockets until there are as many as the ends want. One at a time comes or goes, and always the last
// one, so both ends number them alike.
Result<std::size_t> RailLink::change_count(std::int64_t now_ns) {
  if (rails_.back()->unneeded) return rails_.back()->socket ? Result<std::size_t>(0) : remove_last_rail();
  if (auto socket = opening_.step(now_ns, rails_.front()->first, rails_.size(), words_)) {
    if (const Status added = add_rail(*std::move(socket)); !added) {
      const LogRank log_rank(self_);
      log_info("tcp link to rank {}: {}", peer_, added.error().message);
    }
  }
  if (alive_ == rails_.size() && opening_.has_too_many(rails_.size())) {
    rails_.back()->unneeded = true;
    words_.push_back({.kind = RailWord::Kind::Unneeded, .socket = rails_.back()->addresses});
  }
  return std::size_t{0};
}

// Names a lost socket once others have gone on without it, for a peer that leaves closes all of its sockets.
void RailLink::say_losses(std::int64_t now_ns) {
  const LogRank log_rank(self_);
  for (const auto& rail : rails_) {
    if (alive_ == 0 || rail->socket || rail->said || rail->unneeded || now_ns - rail->lost_ns < kRailSayNs) continue;
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

// Returns how many rails both ends have: only these carry messages.
std::size_t RailLink::shared_rails() const { return growth_ ? opening_.shared(rails_.size()) : rails_.size(); }

// Makes a rail of a new socket. The peer may have sent over it already.
Result<std::unique_ptr<RailLink::Rail>> RailLink::prepare_rail(std::size_t number, Fd socket,
                                                               const std::string& interface) {
  set_stream_options(socket.get());
  WREATH_TRY(prepare_stream(socket.get(), peer_, same_host_, true));
  WREATH_TRY(watch(socket.get()));
  return std::make_unique<Rail>(static_cast<std::uint8_t>(number), RailSocket{std::move(socket), interface}, *this);
}

// Begins anew with another socket.
Status RailLink::take_back(Rail& rail, Fd socket) {
  auto made = prepare_rail(rail.number, std::move(socket), rail.interface);
  if (!made) return made.error();
  std::unique_ptr<Rail> fresh = *std::move(made);
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

// Tells the peer what has arrived, since it kept nothing of that while it had one rail.
Status RailLink::add_rail(Fd socket) {
  if (!events_) WREATH_TRY(watch_all());
  auto made = prepare_rail(rails_.size(), std::move(socket), rails_.front()->interface);
  if (!made) return made.error();
  if (rails_.front()->socket) limit_unsent(rails_.front()->socket.get(), true);
  sender_.add_rail();
  sender_.keep(true);
  inbox_.owe_all();
  ++alive_;
  const std::lock_guard lock(path_mutex_);
  rails_.push_back(*std::move(made));
  return {};
}

// Others send again what the last rail carried. The callers see to it that there are others.
Result<std::size_t> RailLink::remove_last_rail() {
  Rail& last = *rails_.back();
  last.unneeded = true;
  const auto received = last.socket ? lose(last, {ErrorCode::PeerLost, "nobody needs it"}) : Result<std::size_t>(0);
  if (!received) return received;
  {
    const std::lock_guard lock(path_mutex_);
    if (last.said) lost_.erase(std::find(lost_.begin(), lost_.end(), last.interface));
    rails_.pop_back();
  }
  carriers_ = std::min(carriers_, rails_.size());
  sender_.remove_rail();
  if (rails_.size() == 1) {
    sender_.keep(false);
    limit_unsent(rails_.front()->socket.get(), false);
  }
  return received;
}

Status RailLink::take(const RailWord& word) {
  using Kind = RailWord::Kind;
  if (word.kind == Kind::Lost || word.kind == Kind::Awaited) return take_loss(word);
  if (!growth_) return Error{ErrorCode::Mismatch, "word: it is about the number of sockets, which is fixed"};
  if (word.kind == Kind::Offered) {
    return opening_.on_offered(word, rails_.front()->first, rails_.size(), now_ns());
  }
  if (word.kind == Kind::Unneeded) return take_unneeded(word.socket);
  // From now on the peer keeps what it sends.
  inbox_.owe_all();
  return opening_.on_count(word.count);
}

// Words about a socket that has been replaced, or whose addresses a network changes, are of no use.
Status RailLink::take_loss(const RailWord& word) {
  const bool awaited = word.kind == RailWord::Kind::Awaited;
  for (const auto& rail : rails_) {
    const RailAddresses& own = awaited ? rail->first : rail->addresses;
    if (!rail->can_return() || !own.is_other_end_of(word.socket)) continue;
    if (rail->socket) {
      const auto received = lose(*rail, {ErrorCode::PeerLost, "the peer has lost it"});
      if (!received) return received.error();
      moved_ += *received;
    }
    if (awaited && rail->replacement) rail->replacement->on_awaited(word, now_ns());
  }
  return {};
}

// The last socket that works is not closed, whatever the peer says.
Status RailLink::take_unneeded(const RailAddresses& theirs) {
  WREATH_TRY(opening_.on_unneeded());
  const Rail& last = *rails_.back();
  const bool named = last.addresses.is_other_end_of(theirs) || last.first.is_other_end_of(theirs);
  if (!named || alive_ == (last.socket ? 1U : 0U)) return {};
  const auto received = remove_last_rail();
  if (!received) return received.error();
  moved_ += *received;
  return {};
}

}  // namespace wreath
