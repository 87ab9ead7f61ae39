// Encodes, decodes and compares addresses of channels: see address.hpp.
#include "transports/verbs/address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "src/base/codec.hpp"

namespace wreath {
namespace {

constexpr std::uint8_t kAddressVersion = 1;
constexpr std::uint32_t kMost24Bits = (1U << 24) - 1;
constexpr std::uint8_t kMostMtu = 5;  // 4096 bytes

Error not_right(std::string_view what, std::uint64_t value, std::string_view rule) {
  return {ErrorCode::Mismatch, fmt::format("the peer's address: {} is {}, must be {}", what, value, rule)};
}

std::string_view type_name(GidType type) {
  switch (type) {
    case GidType::InfiniBand: return "InfiniBand";
    case GidType::RoceV1: return "RoCE v1";
    case GidType::RoceV2: return "RoCE v2";
    case GidType::Unknown: break;
  }
  return "of an unknown type";
}

Status check_fields(const VerbsAddress& address) {
  if (address.mtu < 1 || address.mtu > kMostMtu) return not_right("its MTU", address.mtu, "1 to 5");
  if (address.infiniband && address.lid == 0) return not_right("its LID", 0, "above 0");
  if (!address.infiniband && address.gid == Gid{}) return not_right("its GID", 0, "above 0");
  const std::uint32_t pair = address.queue_pair;
  if (pair == 0 || pair > kMost24Bits) return not_right("its queue pair", pair, "a number of 24 bits");
  if (address.packet > kMost24Bits) return not_right("its packet number", address.packet, "of 24 bits");
  return {};
}

}  // namespace

std::vector<std::byte> encode_address(const VerbsAddress& address) {
  Writer writer;
  writer.number(kAddressVersion);
  writer.number(static_cast<std::uint8_t>(address.infiniband));
  writer.number(static_cast<std::uint8_t>(address.active));
  writer.number(address.mtu);
  writer.number(address.lid);
  writer.number(static_cast<std::uint8_t>(address.gid_type));
  writer.raw(std::as_bytes(std::span(address.gid)));
  writer.number(address.queue_pair);
  writer.number(address.packet);
  return writer.take();
}

Result<VerbsAddress> decode_address(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto version = reader.number<std::uint8_t>();
  if (reader.ok() && version != kAddressVersion) return not_right("its version", version, "1, as here");
  VerbsAddress address;
  address.infiniband = reader.flag();
  address.active = reader.flag();
  address.mtu = reader.number<std::uint8_t>();
  address.lid = reader.number<std::uint16_t>();
  const auto type = reader.number<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(GidType::RoceV2)) reader.fail();
  address.gid_type = static_cast<GidType>(type);
  reader.raw(std::as_writable_bytes(std::span(address.gid)));
  address.queue_pair = reader.number<std::uint32_t>();
  address.packet = reader.number<std::uint32_t>();
  if (!reader.complete()) {
    return Error{ErrorCode::Mismatch, fmt::format("the peer's address: its {} bytes are malformed", bytes.size())};
  }
  WREATH_TRY(check_fields(address));
  return address;
}

Status check_pair(const VerbsAddress& own, const VerbsAddress& theirs) {
  const auto layer = [](const VerbsAddress& one) { return one.infiniband ? "InfiniBand" : "Ethernet"; };
  const auto differ = [](std::string_view what, std::string_view here, std::string_view there, std::string_view fix) {
    return Error{ErrorCode::Mismatch, fmt::format("{} is {} here and {} at the peer: {}", what, here, there, fix)};
  };
  if (own.infiniband != theirs.infiniband) {
    return differ("the port", layer(own), layer(theirs), "choose like ports by WREATH_HCA");
  }
  const bool types_known = own.gid_type != GidType::Unknown && theirs.gid_type != GidType::Unknown;
  if (!own.infiniband && types_known && own.gid_type != theirs.gid_type) {
    return differ("the GID", type_name(own.gid_type), type_name(theirs.gid_type), "choose one by WREATH_IB_GID_INDEX");
  }
  if (!own.infiniband && is_ipv4(own.gid) != is_ipv4(theirs.gid)) {
    return differ("the GID", gid_address(own.gid), gid_address(theirs.gid),
                  "give both interfaces addresses of one family, or choose them by WREATH_IB_GID_INDEX");
  }
  if (!theirs.active) return Error{ErrorCode::Unavailable, "the peer's port is down"};
  return {};
}

bool crosses_subnets(const VerbsAddress& own, const VerbsAddress& theirs) {
  return !std::equal(own.gid.begin(), own.gid.begin() + 8, theirs.gid.begin());
}

}  // namespace wreath
