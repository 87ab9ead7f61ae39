// Makes and reads the id by which ranks meet: the address and secret of a meeting point (include/wreath/unique_id.hpp).
#include "wreath/unique_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/config.hpp"
#include "src/base/random.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/codec.hpp"
#include "src/bootstrap/host.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "src/bootstrap/meeting.hpp"
#include "src/bootstrap/mesh.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kIdMagic = 0x31444957;  // "WID1"
constexpr std::size_t kNameBytes = 16;
constexpr std::size_t kCheckBytes = 4;

// Describes what the 128 bytes hold between magic and checksum; the rest is zero.
struct IdContent {
  std::uint64_t host = 0;
  std::array<std::byte, kKeyBytes> key{};
  std::array<std::byte, kNameBytes> name{};
  NetAddress tcp;
};

std::array<std::byte, kCheckBytes> checksum(std::span<const std::byte> bytes) {
  const auto hash = Key::none()->tag(bytes);
  std::array<std::byte, kCheckBytes> check{};
  std::copy_n(hash.begin(), kCheckBytes, check.begin());
  return check;
}

UniqueId pack(const IdContent& content) {
  Writer writer;
  writer.number(kIdMagic);
  writer.number(content.host);
  writer.raw(content.key);
  writer.raw(content.name);
  writer.number(content.tcp.family);
  writer.raw(content.tcp.ip);
  writer.number(content.tcp.port);
  const std::vector<std::byte> body = writer.take();
  UniqueId id;
  std::ranges::copy(body, id.bytes.begin());
  std::ranges::copy(checksum(body), id.bytes.begin() + static_cast<std::ptrdiff_t>(body.size()));
  return id;
}

Result<IdContent> unpack(const UniqueId& id) {
  Reader reader(id.bytes);
  IdContent content;
  const auto magic = reader.number<std::uint32_t>();
  content.host = reader.number<std::uint64_t>();
  reader.raw(content.key);
  reader.raw(content.name);
  content.tcp.family = reader.number<std::uint8_t>();
  reader.raw(content.tcp.ip);
  content.tcp.port = reader.number<std::uint16_t>();
  if (magic != kIdMagic || pack(content).bytes != id.bytes) {
    return Error{ErrorCode::InvalidArgument, "the unique id is empty or damaged; UniqueId::create makes one"};
  }
  return content;
}

SocketAddress unix_address(const IdContent& content) {
  std::string name = "wreath-meet-";
  for (const std::byte byte : content.name) name += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return SocketAddress::abstract_unix(name);
}

// Returns the meeting's identity: only the holder of the id can make this key.
Identity identity(const IdContent& content) {
  return {Key::from_bytes(content.key), {kProtocol, -1, Purpose::Meet, std::string(library_version())}};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<UniqueId> UniqueId::create(std::string_view address) {
  IdContent content;
  content.host = host_id();
  fill_random(content.key);
  fill_random(content.name);
  std::vector<Fd> listeners;
  auto unix_listener = listen_on(unix_address(content));
  if (!unix_listener) return unix_listener.error();
  listeners.push_back(std::move(*unix_listener));
  if (!address.empty()) {
    auto ip = SocketAddress::parse_ip(address, 0);
    if (!ip || !is_local(*ip)) {
      return Error{ErrorCode::InvalidArgument, fmt::format("address='{}' must be an IP address of this host", address)};
    }
    auto tcp_listener = listen_on(*ip);
    if (!tcp_listener) return tcp_listener.error();
    content.tcp = to_net_address(local_address(tcp_listener->get()));
    listeners.push_back(std::move(*tcp_listener));
  }
  WREATH_TRY(serve_meeting(std::move(listeners), identity(content)));
  return pack(content);
}

Result<UniqueId> UniqueId::create_for_hosts() {
  const auto addresses = chosen_addresses(interfaces(), AF_INET);
  if (addresses && !addresses->empty()) return create(addresses->front().ip_text());
  if (is_set(Setting::SocketInterface) && !addresses) return addresses.error();
  return create();
}

std::string UniqueId::to_string() const {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Result<UniqueId> UniqueId::parse(std::string_view text) {
  UniqueId id;
  if (text.size() != 2 * id.bytes.size()) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("a unique id has {} hexadecimal digits, this text {}", 2 * id.bytes.size(), text.size())};
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = hex_digit(text[i]);
    if (digit < 0) {
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("character {} of the unique id is not a hexadecimal digit", i)};
    }
    id.bytes[i / 2] = id.bytes[i / 2] << 4 | static_cast<std::byte>(digit);
  }
  return id;
}

namespace {

MeetingPlace place_of(const IdContent& content) {
  MeetingPlace place;
  place.self = identity(content);
  place.ends_when_refused = true;
  place.hint = "the process that made the unique id has ended, or its meeting is over";
  if (content.host == host_id()) place.candidates.push_back(unix_address(content));
  if (content.tcp.family != 0) {
    for (const SocketAddress& tcp : with_zones(to_socket_address(content.tcp))) {
      place.candidates.push_back(tcp);
      if (content.host == host_id() && is_local(tcp)) place.interfaces = {tcp.with_port(0)};
    }
  }
  return place;
}

}  // namespace

bool leads_to_a_meeting(const UniqueId& id) {
  const auto content = unpack(id);
  if (!content) return false;
  const MeetingPlace place = place_of(*content);
  return std::any_of(place.candidates.begin(), place.candidates.end(),
                     [&](const SocketAddress& address) { return answers(address, place.self); });
}

Result<Membership> join(const UniqueId& id, const BootstrapRequest& request) {
  auto content = unpack(id);
  if (!content) return content.error();
  const MeetingPlace place = place_of(*content);
  if (place.candidates.empty() && content->tcp.family != 0) return no_way_to(to_socket_address(content->tcp).text());
  if (place.candidates.empty()) {
    WREATH_TRY(tell_hosts_apart());
    return Error{ErrorCode::StartupFailed,
                 "the unique id was made on another host without an address, so only ranks of that host can join: "
                 "give UniqueId::create an IP address of its host"};
  }
  return meet(place, request);
}

}  // namespace wreath
