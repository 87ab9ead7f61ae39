// Mutual proof of the key: see proof.hpp.
#include "src/bootstrap/proof.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "src/bootstrap/codec.hpp"

namespace wreath {
namespace {

constexpr std::array<char, 8> kMagic{'W', 'R', 'E', 'A', 'T', 'H', '\x01', '\n'};
constexpr std::size_t kVersionBytes = 16;
constexpr std::array<char, kTagBytes + 1> kConnectorLabel{"wreath proof of the connector   "};
constexpr std::array<char, kTagBytes + 1> kAcceptorLabel{"wreath proof of the acceptor    "};

std::array<std::byte, kGreetingBytes> write_greeting(const Greeting& greeting) {
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
  std::array<std::byte, kGreetingBytes> bytes{};
  std::ranges::copy(writer.take(), bytes.begin());
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

// Where a greeting's purpose stands: the acceptor answers with the connector's.
constexpr std::size_t kPurposeOffset = kMagic.size() + 8;

}  // namespace

Handshake::Handshake(Fd fd, Identity self, bool connects)
    : fd_(std::move(fd)), self_(std::move(self)), connects_(connects), mine_(write_greeting(self_.greeting)) {
  if (connects_) state_ = State::Sending;
}

// Label and both greetings, the connector's first.
std::array<std::byte, kTagBytes + 2 * kGreetingBytes> Handshake::transcript(bool of_connector) const {
  std::array<std::byte, kTagBytes + 2 * kGreetingBytes> bytes{};
  const auto& label = of_connector ? kConnectorLabel : kAcceptorLabel;
  std::memcpy(bytes.data(), label.data(), kTagBytes);
  std::memcpy(bytes.data() + kTagBytes, (connects_ ? mine_ : theirs_).data(), kGreetingBytes);
  std::memcpy(bytes.data() + kTagBytes + kGreetingBytes, (connects_ ? theirs_ : mine_).data(), kGreetingBytes);
  return bytes;
}

// True when the phase's bytes have all moved; otherwise state_ says whether to wait or give up.
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
    if (std::memcmp(bytes.data(), kMagic.data(), checked) != 0) {  // not one of ours: no need for more
      state_ = State::Failed;
      return false;
    }
  }
  done_ = 0;
  return true;
}

// What a complete phase means; false: not proved.
bool Handshake::finish_phase() {
  const bool sent = (phase_ % 2 == 0) == connects_;
  if (phase_ < 2 && !sent) {
    if (theirs_ == mine_) return false;  // connected to itself
    peer_ = read_greeting(theirs_);
    if (connects_ && peer_.purpose != self_.greeting.purpose) return false;
    std::copy_n(theirs_.begin() + kPurposeOffset, 4, mine_.begin() + kPurposeOffset);
  }
  if (phase_ >= 2 && !sent && !self_.key->verify(proof_, transcript(!connects_))) return false;
  ++phase_;
  const bool sends_next = (phase_ % 2 == 0) == connects_;
  if (phase_ >= 2 && sends_next) proof_ = self_.key->tag(transcript(connects_));
  return true;
}

Handshake::State Handshake::advance() {
  while (state_ != State::Failed && state_ != State::Proved) {
    const bool sends = (phase_ % 2 == 0) == connects_;
    const std::span<std::byte> greeting = sends ? mine_ : theirs_;
    if (!transfer(phase_ < 2 ? greeting : std::span<std::byte>(proof_), sends)) break;
    if (!finish_phase()) state_ = State::Failed;
    if (phase_ == 4) state_ = State::Proved;
  }
  return state_;
}

namespace {

// An acceptor to whom this end's proof is wrong hangs up, as does one that ends.
std::string_view reason_of(const Handshake& handshake) {
  if (!handshake.ended()) return "the other end did not prove the job's key";
  return handshake.awaits_proof()
             ? "the other end hung up at this rank's proof of the job's key: its key may be another"
             : "the connection ended before the other end proved the job's key";
}

}  // namespace

Result<Proved> prove(Fd fd, const Identity& self, Deadline deadline, int watch) {
  if (!same_user(fd.get())) return Error{ErrorCode::PeerLost, "the socket belongs to another user"};
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
