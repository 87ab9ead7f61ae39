// Accepts connections that prove the key: see acceptor.hpp.
#include "src/bootstrap/acceptor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "src/base/log.hpp"
#include "src/base/random.hpp"

namespace wreath {
namespace {

// With this limit handshakes go on during a flood.
constexpr int kAcceptsPerTurn = 64;
constexpr int kCalmMs = 1000;

}  // namespace

std::string Refused::text() const {
  std::string text;
  const auto add = [&text](std::size_t count, std::string_view what) {
    if (count == 0) return;
    text += fmt::format("{}{} connection{} {}", text.empty() ? "" : "; ", count, count == 1 ? "" : "s", what);
  };
  add(wrong, "did not prove the job's key: do all ranks have the same key?");
  add(foreign, "came from another user: ranks of one host are of one user");
  add(ended, "ended before a proof of the job's key");
  add(late, "came too late with a proof of the job's key");
  add(crowded, "gave way to others before a proof of the job's key");
  return text;
}

Acceptor::~Acceptor() {
  refused_.late += pending_.size();
  if (refused_.wrong + refused_.foreign > 0) {
    log_warning("start-up: {}", refused_.text());
  } else if (refused_.total() > 0) {
    log_info("start-up: {}", refused_.text());
  }
}

void Acceptor::add_to(std::vector<pollfd>& set) const {
  if (!backing_off_) {
    for (const Fd& listener : listeners_) set.push_back({listener.get(), POLLIN, 0});
  }
  for (const Pending& pending : pending_) {
    const bool sends = pending.handshake.state() == Handshake::State::Sending;
    set.push_back({pending.handshake.descriptor(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
  }
}

int Acceptor::wait_ms(Deadline deadline) const {
  Deadline first = deadline;
  if (!pending_.empty()) first = sooner(first, pending_.front().deadline);
  if (backing_off_) first = sooner(first, retry_);
  return first.left_ms();
}

// Backs off when the kernel refuses for want of descriptors and a connection waits at `listener`. The kernel refuses
// before it looks whether one waits; where none does, the next listener is asked.
void Acceptor::handle_refusal(int listener, int error) {
  if (!wait_for(listener, POLLIN, Deadline::after_ms(0))) return;
  if (trouble().empty()) {
    patience_ = Deadline::after_ms(kWithoutDescriptorsMs);
    refusals_ = 0;
  }
  ++refusals_;
  calm_ = Deadline::after_ms(kCalmMs);
  trouble_ = os_error("accept connections", error).message;
  backing_off_ = true;
  retry_ = Deadline::after_ms(kBackOffMs);
}

Acceptor::Source Acceptor::source_of(const SocketAddress& address) {
  Source source{};
  const auto bytes = address.ip_bytes();
  std::ranges::copy(bytes.first(std::min(bytes.size(), source.size())), source.begin());
  return source;
}

// Drops connections while more than kMaxPending wait with a ticket, or without one. It takes one of the source that has
// most of them, the newest as likely as others. So a source's own newcomers get a place, too.
void Acceptor::make_room(bool with_ticket) {
  const auto counts = [&](const Pending& one) { return one.handshake.has_ticket() == with_ticket; };
  while (static_cast<std::size_t>(std::ranges::count_if(pending_, counts)) > kMaxPending) {
    std::map<Source, std::vector<std::size_t>> by_source;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (counts(pending_[i])) by_source[pending_[i].source].push_back(i);
    }
    const auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
    const auto& most = std::ranges::max_element(by_source, fewer)->second;
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(most[random_u64() % most.size()]));
    ++refused_.crowded;
  }
}

// Advances a handshake, and returns whether it no longer needs its place.
bool Acceptor::has_ended(Pending& pending, std::vector<Proved>& proved) {
  const Handshake::State state = pending.handshake.advance();
  if (state == Handshake::State::Proved) {
    proved.push_back(pending.handshake.take());
    return true;
  }
  if (state == Handshake::State::Failed) {
    ++(pending.handshake.ended() ? refused_.ended : refused_.wrong);
    return true;
  }
  const bool late = pending.deadline.passed();
  refused_.late += late ? 1U : 0U;
  return late;
}

void Acceptor::accept_from(int listener, std::vector<Proved>& proved) {
  for (int i = 0; i < kAcceptsPerTurn && !backing_off_; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    Fd fd = Fd::of_process(::accept4(listener, reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC));
    if (!fd) {
      const int error = errno;
      if (out_of_descriptors(error)) return handle_refusal(listener, error);
      if (error == EAGAIN || error == EWOULDBLOCK) return;
      // The connection is gone already.
      continue;
    }
    if (!same_user(fd.get())) {
      ++refused_.foreign;
      continue;
    }
    set_no_delay(fd.get());
    const Source source = source_of({reinterpret_cast<const sockaddr*>(&from), length});
    pending_.push_back({Handshake::acceptor(std::move(fd), self_), Deadline::after_ms(kHandshakeMs), source});
    const std::size_t before = proved.size();
    // The first bytes of a connection have mostly arrived with it.
    const bool ended = has_ended(pending_.back(), proved);
    // One that was given up before it could be accepted shows no end of the trouble: a rank of this process that gives
    // up frees the descriptor that it wants again.
    if (!ended || proved.size() > before) trouble_.clear();
    if (ended) {
      pending_.pop_back();
    } else {
      make_room(pending_.back().handshake.has_ticket());
    }
  }
}

std::vector<Proved> Acceptor::service() {
  if (backing_off_ && retry_.passed()) backing_off_ = false;
  std::vector<Proved> proved;
  for (const Fd& listener : listeners_) accept_from(listener.get(), proved);
  std::erase_if(pending_, [&](Pending& pending) { return has_ended(pending, proved); });
  make_room(true);
  return proved;
}

Result<Proved> Acceptor::next(Deadline deadline, int watch) {
  for (;;) {
    for (Proved& proved : service()) proved_.push_back(std::move(proved));
    if (!proved_.empty()) {
      Proved first = std::move(proved_.front());
      proved_.pop_front();
      return first;
    }
    if (deadline.passed() || starves()) {
      if (!trouble().empty()) return Error{ErrorCode::System, trouble()};
      return Error{ErrorCode::Timeout, "no connection arrived in time"};
    }
    std::vector<pollfd> set{{watch, POLLIN, 0}};
    add_to(set);
    const int ready = ::poll(set.data(), set.size(), wait_ms(deadline));
    if (ready > 0 && set[0].revents != 0) return Error{ErrorCode::NotReady, "interrupted"};
  }
}

}  // namespace wreath
