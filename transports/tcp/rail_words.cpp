// A word is its kind, the two addresses of a socket or two numbers, and what is new.
#include "transports/tcp/rail_words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/codec.hpp"

namespace wreath {
namespace {

using Kind = RailWord::Kind;

bool has_port(const RailWord& word) { return word.kind == Kind::Awaited || word.kind == Kind::Offered; }

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
  writer.number(static_cast<std::uint8_t>(word.kind));
  if (word.kind == Kind::Count) {
    writer.number(word.count.wants);
    writer.number(word.count.has);
  } else {
    write(writer, word.socket.local);
    write(writer, word.socket.remote);
  }
  if (has_port(word)) {
    writer.number(word.port);
    writer.raw(word.secret);
    writer.raw(word.answer);
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
  RailWord word{.kind = static_cast<Kind>(number)};
  if (word.kind == Kind::Count) {
    word.count.wants = reader.number<std::uint8_t>();
    word.count.has = reader.number<std::uint8_t>();
  } else {
    word.socket.local = read_address(reader);
    word.socket.remote = read_address(reader);
  }
  if (has_port(word)) {
    word.port = reader.number<std::uint16_t>();
    reader.raw(word.secret);
    reader.raw(word.answer);
  }
  if (reader.complete()) return word;
  return Error{ErrorCode::Mismatch, fmt::format("word: {} bytes are not its length", bytes.size())};
}

}  // namespace wreath
