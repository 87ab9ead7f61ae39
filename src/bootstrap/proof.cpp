// Proves the key mutually: see proof.hpp.
#include "src/bootstrap/proof.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "src/base/random.hpp"
#include "src/bootstrap/codec.hpp"

namespace wreath {
namespace {

constexpr std::array<char, 8> kMagic{'W', 'R', 'E', 'A', 'T', 'H', '\x02', '\n'};
constexpr std::size_t kVersionBytes = 16;
constexpr std::array<char, kTagBytes + 1> kConnectorLabel{"wreath proof of the connector   "};
constexpr std::array<char, kTagBytes + 1> kAcceptorLabel{"wreath proof of the acceptor    "};
constexpr std::string_view kMessagesLabel = "wreath messages";
constexpr std::array<char, kTagBytes + 1> kTicketLabel{"wreath ticket of the connector  "};

using Opening = std::array<std::byte, kOpeningBytes>;

auto greeting_in(const Opening& opening) { return std::span(opening).first<kGreetingBytes>(); }
auto ticket_in(const Opening& opening) { return std::span(opening).last<kTagBytes>(); }

// A ticket is the tag of these bytes.
std::array<std::byte, kTagBytes + kGreetingBytes> ticket_text(const Opening& opening) {
  std::array<std::byte, kTagBytes + kGreetingBytes> bytes{};
  std::memcpy(bytes.data(), kTicketLabel.data(), kTagBytes);
  std::ranges::copy(greeting_in(opening), bytes.begin() + kTagBytes);
  return bytes;
}

Opening write_opening(const Greeting& greeting, const Key& key) {
  std::array<std::byte, kVersionBytes> version{};
  const auto text =
      std::as_bytes(std::span(greeting.version)).first(std::min(greeting.version.size(), kVersionBytes - 1));
  std::ranges::copy(text, version.begin());
  std::array<std::byte, kNonceBytes> nonce{};
  fill_random(nonce);
  Writer writer;
  writer.raw(std::as_bytes(std::span(kMagic)));
  writer.number(greeting.protocol);
  writer.number(greeting.rank);
  writer.number(static_cast<std::uint32_t>(greeting.purpose));
  writer.raw(version);
  writer.raw(nonce);
  Opening bytes{};
  std::ranges::copy(writer.take(), bytes.begin());
  std::ranges::copy(key.tag(ticket_text(bytes)), bytes.begin() + kGreetingBytes);
  return bytes;
}

Greeting read_greeting(std::span<const std::byte, kGreetingBytes> bytes) {
  Reader reader(bytes.subspan(kMagic.size()));
  Greeting greeting;
  greeting.protocol = reader.number<std::uint32_t>();
  greeting.rank = reader.number<std::int32_t>();
  greeting.purpose = static_cast<Purpose>(reader.number<std::uint32_t>());
  std::array<std::byte, kVersionBytes> version{};
  reader.raw(version);
  for (const std::byte byte : version) {
    const char c = static_cast<char>(byte);
    if (c == 0) break;
    greeting.version += c > 0x20 && c < 0x7F ? c : '?';
  }
  return greeting;
}

// Says where a greeting's purpose stands: the acceptor answers with the connector's purpose.
constexpr std::size_t kPurposeOffset = kMagic.size() + 8;

}  // namespace

Handshake::Handshake(Fd fd, Identity self, bool connects)
    : fd_(std::move(fd)),
      self_(std::move(self)),
      connects_(connects),
      mine_(write_opening(self_.greeting, *self_.key)) {
  if (connects_) state_ = State::Sending;
}

// Returns the label and both greetings, the connector's first.
std::array<std::byte, kTagBytes + 2 * kGreetingBytes> Handshake::transcript(bool of_connector) const {
  std::array<std::byte, kTagBytes + 2 * kGreetingBytes> bytes{};
  const auto& label = of_connector ? kConnectorLabel : kAcceptorLabel;
  std::memcpy(bytes.data(), label.data(), kTagBytes);
  std::memcpy(bytes.data() + kTagBytes, (connects_ ? mine_ : theirs_).data(), kGreetingBytes);
  std::memcpy(bytes.data() + kTagBytes + kGreetingBytes, (connects_ ? theirs_ : mine_).data(), kGreetingBytes);
  return bytes;
}

// Returns true when the phase's bytes have all moved; otherwise state_ says whether to wait or give up.
bool Handshake::transfer(std::span<std::byte> bytes, bool sends) {
  state_ = sends ? State::Sending : State::Receiving;
  while (done_ < bytes.size()) {
    const auto rest = bytes.subspan(done_);
    const std::ptrdiff_t moved = sends ? try_send(fd_.get(), rest) : try_recv(fd_.get(), rest);
    if (moved < 0) {
      state_ = State::Failed;
      ended_ = true;
    }
    if (moved <= 0) return false;
    done_ += static_cast<std::size_t>(moved);
    const std::size_t checked = phase_ < 2 && !sends ? std::min(done_, kMagic.size()) : 0;
    // A connection without the magic is not Wreath's, and needs no more bytes.
    if (std::memcmp(bytes.data(), kMagic.data(), checked) != 0) {
      state_ = State::Failed;
      return false;
    }
  }
  done_ = 0;
  return true;
}

// Returns the bytes that move in this phase: the acceptor's greeting comes without a ticket.
std::span<std::byte> Handshake::phase_bytes(bool sends) {
  if (phase_ >= 2) return proof_;
  return std::span(sends ? mine_ : theirs_).first(phase_ == 0 ? kOpeningBytes : kGreetingBytes);
}

// Reads the other end's greeting, and returns whether there is more to say to it.
bool Handshake::take_greeting() {
  const auto theirs = greeting_in(theirs_);
  // An end with this same greeting has connected to itself.
  if (std::ranges::equal(theirs, greeting_in(mine_))) return false;
  peer_ = read_greeting(theirs);
  if (connects_) return peer_.purpose == self_.greeting.purpose;
  const bool admitted = self_.key->verify(ticket_in(theirs_), ticket_text(theirs_));
  constexpr std::array<std::byte, 4> kRefusal{};
  std::ranges::copy(admitted ? theirs.subspan(kPurposeOffset, 4) : kRefusal, mine_.begin() + kPurposeOffset);
  if (!admitted) (void)try_send(fd_.get(), greeting_in(mine_));
  return admitted;
}

// Checks a complete phase; returns false where the other end has not proved the key.
bool Handshake::finish_phase() {
  const bool sent = (phase_ % 2 == 0) == connects_;
  if (phase_ < 2 && !sent && !take_greeting()) return false;
  if (phase_ >= 2 && !sent && !self_.key->verify(proof_, transcript(!connects_))) return false;
  ++phase_;
  const bool sends_next = (phase_ % 2 == 0) == connects_;
  if (phase_ >= 2 && sends_next) proof_ = self_.key->tag(transcript(connects_));
  return true;
}

Handshake::State Handshake::advance() {
  while (state_ != State::Failed && state_ != State::Proved) {
    const bool sends = (phase_ % 2 == 0) == connects_;
    if (!transfer(phase_bytes(sends), sends)) break;
    if (!finish_phase()) state_ = State::Failed;
    if (phase_ == 4) state_ = State::Proved;
  }
  return state_;
}

// Returns the connection. All that follows is sealed with a key that both greetings, and with them both nonces, are
// part of.
Proved Handshake::take() {
  const auto said = transcript(true);
  auto key = self_.key->derive(kMessagesLabel, std::span(said).subspan(kTagBytes));
  return {{std::move(fd_), Seal(std::move(key), connects_)}, std::move(peer_)};
}

namespace {

// Returns why a handshake failed. An acceptor that is crowded or ends hangs up without a word.
std::string_view reason_of(const Handshake& handshake) {
  if (handshake.refused()) return "the other end refused this rank's key: its own is another";
  return handshake.ended() ? "the connection ended before the other end proved the job's key"
                           : "the other end did not prove the job's key";
}

}  // namespace

Result<Proved> prove(Fd fd, const Identity& self, Deadline deadline, int watch) {
  if (!same_user(fd.get()))
    return Error{ErrorCode::PeerLost, "the socket belongs to another user, but ranks of one host are of one user"};
  Handshake handshake = Handshake::connector(std::move(fd), self);
  for (;;) {
    switch (handshake.advance()) {
      case Handshake::State::Proved: return handshake.take();
      case Handshake::State::Failed: return Error{ErrorCode::PeerLost, std::string(reason_of(handshake))};
      case Handshake::State::Receiving:
      case Handshake::State::Sending: break;
    }
    const short events = handshake.state() == Handshake::State::Sending ? POLLOUT : POLLIN;
    if (!wait_for(handshake.descriptor(), events, deadline, watch)) {
      return Error{ErrorCode::Timeout, "the other end did not answer in time"};
    }
  }
}

}  // namespace wreath
