// A word is its kind, the two addresses of the socket, and what is new.
#include "transports/tcp/rail_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/codec.hpp"

namespace wreath {
namespace {

enum class Kind : std::uint8_t { Lost = 1, Awaited = 2 };

void write(Writer& writer, const SocketAddress& address) {
  writer.number(static_cast<std::uint8_t>(address.ip_bytes().size()));
  writer.raw(address.ip_bytes());
  writer.number(address.port());
}

SocketAddress read_address(Reader& reader) {
  std::array<std::byte, 16> bytes{};
  const std::size_t count = reader.number<std::uint8_t>();
  if (count != 4 && count != bytes.size()) {
    reader.fail();
    return {};
  }
  reader.raw(std::span(bytes).first(count));
  const auto port = reader.number<std::uint16_t>();
  return SocketAddress::from_ip(std::span(bytes).first(count), port);
}

bool same(const SocketAddress& a, const SocketAddress& b) {
  return a.port() == b.port() && std::ranges::equal(a.ip_bytes(), b.ip_bytes());
}

}  // namespace

bool RailAddresses::is_other_end_of(const RailAddresses& theirs) const {
  return same(local, theirs.remote) && same(remote, theirs.local);
}

Offer encode_rail_word(const RailWord& word) {
  const auto* const awaited = std::get_if<RailAwaited>(&word);
  const RailAddresses& socket = awaited == nullptr ? std::get<RailLost>(word).socket : awaited->socket;
  Writer writer;
  writer.number(static_cast<std::uint8_t>(awaited == nullptr ? Kind::Lost : Kind::Awaited));
  write(writer, socket.local);
  write(writer, socket.remote);
  if (awaited != nullptr) {
    writer.number(awaited->port);
    writer.raw(awaited->secret);
    writer.raw(awaited->answer);
  }
  Offer encoded;
  encoded.bytes = writer.take();
  return encoded;
}

Result<RailWord> decode_rail_word(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto kind = reader.number<std::uint8_t>();
  if (kind != static_cast<std::uint8_t>(Kind::Lost) && kind != static_cast<std::uint8_t>(Kind::Awaited)) {
    return Error{ErrorCode::Mismatch, fmt::format("word: its kind is {}, must be 1 or 2", kind)};
  }
  RailAwaited word;
  word.socket.local = read_address(reader);
  word.socket.remote = read_address(reader);
  if (kind == static_cast<std::uint8_t>(Kind::Awaited)) {
    word.port = reader.number<std::uint16_t>();
    reader.raw(word.secret);
    reader.raw(word.answer);
  }
  if (!reader.complete()) {
    return Error{ErrorCode::Mismatch, fmt::format("word: {} bytes are not its length", bytes.size())};
  }
  if (kind == static_cast<std::uint8_t>(Kind::Lost)) return RailWord(RailLost{word.socket});
  return RailWord(word);
}

}  // namespace wreath
