// Encodes and decodes start-up messages: see codec.hpp. One `fields` function per message describes it to both
// directions, so that they cannot disagree.
#include "src/bootstrap/codec.hpp"

#include <fmt/format.h>

namespace wreath {
namespace {

// Writes fields. `In` reads them, by functions of the same names.
class Out {
 public:
  template <typename T>
  void number(const T& value) {
    writer_.number(value);
  }
  void flag(const bool& value) { writer_.number(static_cast<std::uint8_t>(value)); }
  void text(const std::string& value, std::size_t limit) { writer_.text(value, limit); }
  void opaque(const std::string& value, std::size_t limit) { writer_.text(value, limit); }
  template <typename E>
  void choice(const E& value, E /*last*/) {
    writer_.number(static_cast<std::uint8_t>(value));
  }
  void raw(std::span<const std::byte> bytes) { writer_.raw(bytes); }
  template <typename T, typename Visit>
  void list(const std::vector<T>& values, std::size_t /*limit*/, Visit visit) {
    writer_.number(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) visit(value);
  }
  std::vector<std::byte> take() { return writer_.take(); }

 private:
  Writer writer_;
};

class In {
 public:
  explicit In(std::span<const std::byte> bytes) : reader_(bytes) {}
  template <typename T>
  void number(T& value) {
    value = reader_.number<T>();
  }
  void flag(bool& value) { value = reader_.flag(); }
  void text(std::string& value, std::size_t limit) { value = reader_.text(limit); }
  void opaque(std::string& value, std::size_t limit) { value = reader_.opaque(limit); }
  void raw(std::span<std::byte> bytes) { reader_.raw(bytes); }
  template <typename E>
  void choice(E& value, E last) {
    const auto number = reader_.number<std::uint8_t>();
    if (number > static_cast<std::uint8_t>(last)) return reader_.fail();
    value = static_cast<E>(number);
  }
  template <typename T, typename Visit>
  void list(std::vector<T>& values, std::size_t limit, Visit visit) {
    const auto size = reader_.number<std::uint32_t>();
    if (size > limit) reader_.fail();
    for (std::uint32_t i = 0; i < size && reader_.ok(); ++i) visit(values.emplace_back());
  }
  bool complete() const { return reader_.complete(); }

 private:
  Reader reader_;
};

// `M` is the message, const when it is written.
template <typename Side, typename M>
void address_fields(Side& side, M& address) {
  side.number(address.family);
  side.raw(address.ip);
  side.number(address.port);
}

template <typename Side, typename M>
void address_list(Side& side, M& addresses) {
  side.list(addresses, kMaxAddresses, [&](auto& address) { address_fields(side, address); });
}

template <typename Side, typename M>
void info_fields(Side& side, M& info) {
  side.number(info.pid);
  side.number(info.process);
  side.number(info.host);
  side.text(info.host_name, kMaxNameBytes);
  side.text(info.library_version, kMaxNameBytes);
  side.text(info.unix_name, kMaxNameBytes);
  side.choice(info.device.kind, EndpointDevice::Kind::Cuda);
  for (auto& byte : info.device.uuid) side.number(byte);
}

template <typename Side, typename M>
requires std::same_as<std::remove_const_t<M>, Hello>
void fields(Side& side, M& hello) {
  side.number(hello.rank);
  side.number(hello.ranks);
  info_fields(side, hello);
  side.flag(hello.need_streams);
  side.number(hello.timeout_ms);
  side.opaque(hello.settings, kMaxSettingsBytes);
  side.opaque(hello.cores, kMaxCoreBytes);
}

template <typename Side, typename M>
requires std::same_as<std::remove_const_t<M>, Summons>
void fields(Side& side, M& summons) {
  side.flag(summons.open_tcp);
  side.flag(summons.loopback);
}

template <typename Side, typename M>
requires std::same_as<std::remove_const_t<M>, Listening>
void fields(Side& side, M& listening) {
  address_list(side, listening.tcp);
  side.text(listening.error, kMaxTextBytes);
}

template <typename Side, typename M>
requires std::same_as<std::remove_const_t<M>, Table>
void fields(Side& side, M& table) {
  side.number(table.communicator);
  side.raw(table.salt);
  side.opaque(table.settings, kMaxSettingsBytes);
  side.number(table.link_ms);
  side.list(table.rows, kMaximumRanks, [&](auto& row) {
    info_fields(side, row);
    side.number(row.host_cores);
    address_list(side, row.tcp);
  });
}

template <typename Side, typename M>
requires std::same_as<std::remove_const_t<M>, Ready>
void fields(Side& side, M& ready) { side.text(ready.error, kMaxTextBytes); }

template <typename Side, typename M>
requires std::same_as<std::remove_const_t<M>, Go>
void fields(Side&, M&) {}

template <typename Side, typename M>
requires std::same_as<std::remove_const_t<M>, Refusal>
void fields(Side& side, M& refusal) {
  side.choice(refusal.code, ErrorCode::System);
  side.number(refusal.failed_rank);
  side.text(refusal.text, kMaxTextBytes);
}

template <typename M>
bool decode_as(std::span<const std::byte> body, Message& message) {
  In in(body);
  fields(in, message.emplace<M>());
  return in.complete();
}

using DecodeOne = bool (*)(std::span<const std::byte>, Message&);

// Holds the decoder of each kind, which is the variant's index.
constexpr std::array<DecodeOne, std::variant_size_v<Message>> kDecoders{
    &decode_as<Hello>, &decode_as<Summons>, &decode_as<Listening>, &decode_as<Table>,
    &decode_as<Ready>, &decode_as<Go>,      &decode_as<Refusal>};

}  // namespace

std::vector<std::byte> encode(const Message& message) {
  Out out;
  out.number(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& content) { fields(out, content); }, message);
  return out.take();
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Message message;
  const std::size_t kind = bytes.empty() ? kDecoders.size() : static_cast<std::size_t>(bytes[0]);
  if (kind >= kDecoders.size() || !kDecoders[kind](bytes.subspan(1), message)) {
    return Error{ErrorCode::StartupFailed,
                 fmt::format("a malformed start-up message of {} bytes arrived", bytes.size())};
  }
  return message;
}

}  // namespace wreath
