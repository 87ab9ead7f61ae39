// Accepts connections and lets only those through that prove the key.
//
// Many handshakes run at once and none waits for another: strangers (garbage, a wrong key) are dropped at
// their first wrong byte, and who is silent after 2 s. There are places for so many who have said nothing, and for as
// many who have a ticket; where they are taken, one of the address that has taken most is given to the next. So
// strangers never keep a rank of the job out.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "src/bootstrap/proof.hpp"

namespace wreath {

// Connections that were not let in, by what is known of them.
struct Refused {
  std::size_t foreign = 0;  // were of another user of this host
  std::size_t wrong = 0;    // gave a wrong proof, or no handshake of ours
  std::size_t ended = 0;    // were closed by the other end before its proof
  std::size_t late = 0;     // had not given it in time, or when the start was over
  std::size_t crowded = 0;  // gave way to others
  std::size_t total() const { return foreign + wrong + ended + late + crowded; }
  std::string text() const;
};

class Acceptor {
 public:
  static constexpr int kHandshakeMs = 2000;
  static constexpr std::size_t kMaxPending = 128;  // places without a ticket, and places with one
  // How long descriptors may be lacking: handshakes give theirs back within kHandshakeMs.
  static constexpr int kWithoutDescriptorsMs = 2 * kHandshakeMs;

  Acceptor(std::vector<Fd> listeners, Identity self) : listeners_(std::move(listeners)), self_(std::move(self)) {}
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  // Logs how many were refused and why, as a warning where a proof was wrong.
  ~Acceptor();

  // For event loops: what to wait for, how long at most, and the work to do afterwards.
  void add_to(std::vector<pollfd>& set) const;
  int wait_ms(Deadline deadline) const;
  std::vector<Proved> service();

  // The next proved connection. Timeout, or NotReady when `watch` became readable; System when
  // connections could not be accepted for want of descriptors, at once when it starves.
  Result<Proved> next(Deadline deadline, int watch = -1);

  void close_listeners() { listeners_.clear(); }
  void close_unix_listeners() {
    std::erase_if(listeners_, [](const Fd& fd) { return local_address(fd.get()).is_unix(); });
  }
  bool only_unix() const {
    return std::ranges::all_of(listeners_, [](const Fd& fd) { return local_address(fd.get()).is_unix(); });
  }
  const Refused& refused() const { return refused_; }
  // Why connections could not be accepted lately; empty when they could.
  const std::string& trouble() const { return trouble_; }
  // Connections have waited for descriptors for so long that none will come back.
  bool starves() const { return !trouble_.empty() && patience_.passed(); }

 private:
  // Connections of one source count together: an IPv4 address, an IPv6 network of 64 bits, this host's UNIX sockets.
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
  std::deque<Proved> proved_;    // for next()
  Refused refused_;
  bool backing_off_ = false;
  Deadline retry_ = Deadline::after_ms(0);
  std::string trouble_;
  Deadline patience_ = Deadline::after_ms(0);  // while there is trouble
};

}  // namespace wreath
