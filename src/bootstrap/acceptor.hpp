// Accepts connections and passes on only those that prove the key.
//
// Many handshakes run at once and none waits for another. A stranger (garbage, a wrong key) is dropped at its first
// wrong byte, and a silent connection after 2 s. There are kMaxPending places for connections that have said nothing,
// and as many for connections with a ticket. Where the places are taken, the address that has most of them loses one to
// the next connection. So strangers never keep a rank of the job out.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "src/bootstrap/proof.hpp"

namespace wreath {

// Counts refused connections, by what is known of them.
struct Refused {
  // Counts connections of another user of this host.
  std::size_t foreign = 0;
  // Counts connections that gave a wrong proof, or no handshake of this library.
  std::size_t wrong = 0;
  // Counts connections that the other end closed before its proof.
  std::size_t ended = 0;
  // Counts connections without a proof in time, or when the start was over.
  std::size_t late = 0;
  // Counts connections that gave way to others.
  std::size_t crowded = 0;
  std::size_t total() const { return foreign + wrong + ended + late + crowded; }
  std::string text() const;
};

class Acceptor {
 public:
  static constexpr int kHandshakeMs = 2000;
  // There are so many places without a ticket, and as many with one.
  static constexpr std::size_t kMaxPending = 128;
  // Descriptors may be lacking for so long: handshakes give theirs back within kHandshakeMs.
  static constexpr int kWithoutDescriptorsMs = 2 * kHandshakeMs;
  // The acceptor pauses for so long when one is refused for want of them.
  static constexpr int kBackOffMs = 20;

  Acceptor(std::vector<Fd> listeners, Identity self) : listeners_(std::move(listeners)), self_(std::move(self)) {}
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  // Logs how many were refused and why, as a warning where a proof was wrong.
  ~Acceptor();

  // Adds the descriptors that an event loop waits for.
  void add_to(std::vector<pollfd>& set) const;
  // Returns how long an event loop may wait at most, in milliseconds.
  int wait_ms(Deadline deadline) const;
  // Does the work that is due after the wait. Returns the connections that have proved the key.
  std::vector<Proved> service();

  // Returns the next proved connection. Fails with Timeout, or with NotReady when `watch` became readable. Fails with
  // System when connections could not be accepted for want of descriptors, at once when it starves.
  Result<Proved> next(Deadline deadline, int watch = -1);

  void close_listeners() { listeners_.clear(); }
  void close_unix_listeners() {
    std::erase_if(listeners_, [](const Fd& fd) { return local_address(fd.get()).is_unix(); });
  }
  bool only_unix() const {
    return std::ranges::all_of(listeners_, [](const Fd& fd) { return local_address(fd.get()).is_unix(); });
  }
  const Refused& refused() const { return refused_; }
  // Returns why connections could not be accepted lately; empty when they could.
  std::string trouble() const { return calm_.passed() ? std::string() : trouble_; }
  // Returns whether connections have waited so long for descriptors that none will come back.
  bool starves() const {
    // Refused half of the time, at least.
    constexpr int kRefusals = kWithoutDescriptorsMs / kBackOffMs / 2;
    return !trouble().empty() && patience_.passed() && refusals_ >= kRefusals;
  }

 private:
  // Identifies a source, whose connections count together. It is an IPv4 address, an IPv6 network of 64 bits, or this
  // host's UNIX sockets.
  using Source = std::array<std::byte, 8>;
  struct Pending {
    Handshake handshake;
    Deadline deadline;
    Source source;
  };
  static Source source_of(const SocketAddress& address);
  void accept_from(int listener, std::vector<Proved>& proved);
  bool has_ended(Pending& pending, std::vector<Proved>& proved);
  void make_room(bool with_ticket);
  void handle_refusal(int listener, int error);

  std::vector<Fd> listeners_;
  Identity self_;
  std::deque<Pending> pending_;  // oldest first
  // Holds connections for next().
  std::deque<Proved> proved_;
  Refused refused_;
  bool backing_off_ = false;
  Deadline retry_ = Deadline::after_ms(0);
  std::string trouble_;
  // Runs while there is trouble. Meanwhile so many attempts to accept were refused.
  Deadline patience_ = Deadline::after_ms(0);
  int refusals_ = 0;
  // Passes where no connection has been refused for a while.
  Deadline calm_ = Deadline::after_ms(0);
};

}  // namespace wreath
