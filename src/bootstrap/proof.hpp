// Proves the key mutually by the first bytes of every connection, of fixed size, before anything is parsed.
//
//   connector -> acceptor   greeting: magic, protocol, rank, purpose, version, 32-byte nonce
//                           ticket: HMAC-SHA256(key, "ticket" | greeting)
//   acceptor  -> connector  greeting; where the ticket is wrong, of purpose Refusal, and nothing follows it
//   connector -> acceptor   HMAC-SHA256(key, "connector" | both greetings)
//   acceptor  -> connector  HMAC-SHA256(key, "acceptor"  | both greetings)
//
// A stranger is dropped at its first words, for it has no ticket. A process that has heard a ticket can repeat it, but
// it is good only for a place to wait in. The acceptor gives its proof last, so a stranger learns nothing but the
// greeting. The roles differ, so a reflected proof fails. A greeting's content is believed only after the proof. The
// layout of greetings and tickets is the same in all protocols, so that versions that differ can name each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/socket.hpp"
#include "src/base/version.hpp"
#include "src/bootstrap/key.hpp"
#include "src/bootstrap/seal.hpp"
#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::uint32_t kProtocol = 6;
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kGreetingBytes = 8 + 3 * 4 + 16 + kNonceBytes;

inline constexpr std::size_t kOpeningBytes = kGreetingBytes + kTagBytes;

enum class Purpose : std::uint32_t { Refusal = 0, Meet = 1, Control = 2, Stream = 3 };

// Holds what an end says of itself.
struct Greeting {
  std::uint32_t protocol = kProtocol;
  std::int32_t rank = -1;  // -1: the meeting point
  Purpose purpose = Purpose::Meet;
  // Holds the library's version, at most 15 bytes.
  std::string version;
};

// Holds the key that an end proves, and its greeting.
struct Identity {
  std::shared_ptr<const Key> key;
  Greeting greeting;
};

// Holds a connection whose other end has proved the key.
struct Proved {
  Connection connection;
  Greeting peer;
};

// Runs one handshake, which is advanced without waiting.
class Handshake {
 public:
  enum class State { Receiving, Sending, Proved, Failed };

  static Handshake connector(Fd fd, Identity self) { return {std::move(fd), std::move(self), true}; }
  // Answers any purpose; the caller checks Proved::peer.purpose.
  static Handshake acceptor(Fd fd, Identity self) { return {std::move(fd), std::move(self), false}; }

  State advance();
  State state() const { return state_; }
  // Returns, in state Failed, whether the connection ended, so that nothing is known of the other end's key.
  bool ended() const { return ended_; }
  // Returns, in state Failed, whether the acceptor said that this connector's ticket is of another key than its own.
  bool refused() const { return connects_ && peer_.purpose == Purpose::Refusal; }
  // Returns whether the acceptor has seen the connector's ticket.
  bool has_ticket() const { return !connects_ && phase_ > 0; }
  int descriptor() const { return fd_.get(); }
  // Returns the proved connection. Callers call this once, in state Proved.
  Proved take();

 private:
  Handshake(Fd fd, Identity self, bool connects);
  bool transfer(std::span<std::byte> bytes, bool sends);
  std::span<std::byte> phase_bytes(bool sends);
  bool finish_phase();
  bool take_greeting();
  std::array<std::byte, kTagBytes + 2 * kGreetingBytes> transcript(bool of_connector) const;

  Fd fd_;
  Identity self_;
  bool connects_;
  State state_ = State::Receiving;
  int phase_ = 0;         // 0, 1: greetings; 2, 3: proofs
  std::size_t done_ = 0;  // bytes of this phase
  bool ended_ = false;
  // Holds the greeting, and the ticket where this end connects.
  std::array<std::byte, kOpeningBytes> mine_{};
  std::array<std::byte, kOpeningBytes> theirs_{};
  std::array<std::byte, kTagBytes> proof_{};
  Greeting peer_;
};

// Runs the connector's side to its end; `watch` is as in wait_for. Fails with PeerLost where the connection closed or
// the key was not proved, or with Timeout.
Result<Proved> prove(Fd fd, const Identity& self, Deadline deadline, int watch = -1);

}  // namespace wreath
