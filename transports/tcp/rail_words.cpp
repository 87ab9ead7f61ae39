// A word is its kind, the two addresses of a socket or two numbers, and what is new.
#include "transports/tcp/rail_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/codec.hpp"

namespace wreath {
namespace {

// The kinds are in the order of RailWord.
enum class Kind : std::uint8_t { Lost = 1, Awaited, Offered, Unneeded, Count };

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
  Writer writer;
  writer.number(static_cast<std::uint8_t>(word.index() + 1));
  const auto write_socket = [&](const RailAddresses& socket) {
    write(writer, socket.local);
    write(writer, socket.remote);
  };
  if (const auto* const count = std::get_if<RailCount>(&word)) {
    writer.number(count->wants);
    writer.number(count->has);
  } else if (const auto* const lost = std::get_if<RailLost>(&word)) {
    write_socket(lost->socket);
  } else if (const auto* const unneeded = std::get_if<RailUnneeded>(&word)) {
    write_socket(unneeded->socket);
  } else {
    const auto* const offered = std::get_if<RailOffered>(&word);
    const RailAwaited& awaited = offered != nullptr ? *offered : std::get<RailAwaited>(word);
    write_socket(awaited.socket);
    writer.number(awaited.port);
    writer.raw(awaited.secret);
    writer.raw(awaited.answer);
  }
  Offer encoded;
  encoded.bytes = writer.take();
  return encoded;
}

Result<RailWord> decode_rail_word(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto number = reader.number<std::uint8_t>();
  const auto last = static_cast<std::uint8_t>(Kind::Count);
  if (number < 1 || number > last) {
    return Error{ErrorCode::Mismatch, fmt::format("word: its kind is {}, must be 1 to {}", number, last)};
  }
  const auto kind = static_cast<Kind>(number);
  RailCount count;
  RailAwaited word;
  if (kind == Kind::Count) {
    count.wants = reader.number<std::uint8_t>();
    count.has = reader.number<std::uint8_t>();
  } else {
    word.socket.local = read_address(reader);
    word.socket.remote = read_address(reader);
  }
  if (kind == Kind::Awaited || kind == Kind::Offered) {
    word.port = reader.number<std::uint16_t>();
    reader.raw(word.secret);
    reader.raw(word.answer);
  }
  if (!reader.complete()) {
    return Error{ErrorCode::Mismatch, fmt::format("word: {} bytes are not its length", bytes.size())};
  }
  switch (kind) {
    case Kind::Lost: return RailWord(RailLost{word.socket});
    case Kind::Awaited: return RailWord(word);
    case Kind::Offered: return RailWord(RailOffered{word});
    case Kind::Unneeded: return RailWord(RailUnneeded{word.socket});
    case Kind::Count: break;
  }
  return RailWord(count);
}

}  // namespace wreath
