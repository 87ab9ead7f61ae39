// Encodes and checks frame headers.
#include "transports/tcp/wire.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/little_endian.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kMagic = 0x02545257;  // "WRT", version 2
constexpr std::size_t kCheckAt = 28;

// Returns the check of the bytes before it. Each round is a bijection of the word, so a change of one word changes the
// sum.
std::uint32_t check_of(const std::byte* source) {
  std::uint64_t sum = kMagic;
  for (std::size_t at = 0; at < kCheckAt; at += 4) {
    sum = (sum ^ load_little<std::uint32_t>(source + at)) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 32;
  }
  return static_cast<std::uint32_t>(sum);
}

Error bad_field(const char* field, std::uint64_t value, const char* rule, std::uint64_t bound) {
  return {ErrorCode::PeerLost, fmt::format("frame header: {} is {}, {} {}", field, value, rule, bound)};
}

Status check_length(const WireHeader& header, const FifoShape& shape) {
  if (header.padding >= kWireAlignment) return bad_field("padding", header.padding, "must be below", kWireAlignment);
  if (header.padding != 0 && header.bytes <= kCopiedBytes) {
    return bad_field("padding", header.padding, "without a large payload it must be", 0);
  }
  if (!has_message(header.kind)) {
    if (header.bytes != 0) return bad_field("bytes", header.bytes, "in a credit frame it must be", 0);
  } else if (header.bytes > shape.slot_bytes) {
    return bad_field("bytes", header.bytes, "must be at most", shape.slot_bytes);
  }
  if (!is_part(header.kind)) return {};
  if (header.bytes <= kCopiedBytes) return bad_field("bytes", header.bytes, "in a part it must be above", kCopiedBytes);
  const std::uint32_t parts = parts_of(header.bytes, shape);
  return header.credit < parts ? Status() : bad_field("part", header.credit, "must be below", parts);
}

// Returns the kind that a frame with a message must have.
FrameKind kind_of(const WireHeader& header, const FifoShape& shape, Framing framing) {
  const bool part = framing == Framing::Parts || (framing == Framing::Either && is_part(header.kind));
  if (part && header.bytes > kCopiedBytes) {
    return shape.checked ? FrameKind::CheckedPart : FrameKind::Part;
  }
  return shape.checked ? FrameKind::Checked : FrameKind::Data;
}

Status check_names(const WireHeader& header, const FifoShape& shape, Framing framing) {
  if (header.lane >= shape.lanes) return bad_field("lane", header.lane, "must be below", shape.lanes);
  if (header.credit_lane >= shape.lanes)
    return bad_field("credit_lane", header.credit_lane, "must be below", shape.lanes);
  if (is_part(header.kind) && header.credit_lane != 0) {
    return bad_field("credit_lane", header.credit_lane, "in a part it must be", 0);
  }
  if (has_message(header.kind)) {
    const FrameKind expected = kind_of(header, shape, framing);
    if (header.kind == expected) return {};
    return bad_field("kind", static_cast<std::uint64_t>(header.kind), "as WREATH_CHECK is here it must be",
                     static_cast<std::uint64_t>(expected));
  }
  if (header.lane != 0) return bad_field("lane", header.lane, "in a credit frame it must be", 0);
  if (header.kind == FrameKind::Credit && header.sequence != 0) {
    return bad_field("sequence", header.sequence, "in a credit frame it must be", 0);
  }
  if (header.signature != 0) return bad_field("signature", header.signature, "in a credit frame it must be", 0);
  return {};
}

}  // namespace

PartRange range(const WireHeader& header, const FifoShape& shape) noexcept {
  if (!is_part(header.kind)) return {0, header.bytes};
  const std::uint32_t offset = header.credit * part_bytes(shape);
  return {offset, std::min(part_bytes(shape), header.bytes - offset)};
}

FrameExtent extent(const WireHeader& header, std::size_t payload) noexcept {
  if (!has_message(header.kind)) return {kWireHeaderBytes, 0, kWireAlignment - kWireHeaderBytes};
  const std::size_t small = kWireHeaderBytes + (is_checked(header.kind) ? kChecksumBytes : 0);
  const std::size_t prefix = header.bytes <= kCopiedBytes ? small : kWireAlignment + header.padding;
  const std::size_t past = (prefix + payload) % kWireAlignment;
  return {prefix, payload, past == 0 ? 0 : kWireAlignment - past};
}

std::uint8_t padding_for(const std::byte* data) noexcept {
  return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(data) % kWireAlignment);
}

void encode(const WireHeader& header, std::byte* target) noexcept {
  store_little(target, kMagic, 4);
  store_fields(header, target);
  store_little(target + kCheckAt, check_of(target), 4);
}

void put_checksum(std::byte* frame, std::uint64_t checksum) noexcept {
  store_little(frame + kWireHeaderBytes, checksum, kChecksumBytes);
}

std::uint64_t checksum_in(const std::byte* frame) noexcept {
  return load_little<std::uint64_t>(frame + kWireHeaderBytes);
}

Result<WireHeader> decode(std::span<const std::byte, kWireHeaderBytes> source, const FifoShape& shape,
                          Framing framing) {
  const std::byte* at = source.data();
  if (load_little<std::uint32_t>(at) != kMagic)
    return bad_field("magic", load_little<std::uint32_t>(at), "must be", kMagic);
  const auto header = load_fields<WireHeader>(at);
  const auto kind = static_cast<std::uint8_t>(header.kind);
  const auto last = static_cast<std::uint8_t>(framing == Framing::Whole ? FrameKind::Checked : FrameKind::Arrival);
  if (kind < 1 || kind > last) return bad_field("kind", kind, "must be 1 to", last);
  if (framing != Framing::Whole && header.kind == FrameKind::Credit) {
    return bad_field("kind", kind, "over several sockets it must be", static_cast<std::uint64_t>(FrameKind::Arrival));
  }
  WREATH_TRY(check_length(header, shape));
  if (header.epoch == shape.epoch) WREATH_TRY(check_names(header, shape, framing));
  const auto check = load_little<std::uint32_t>(at + kCheckAt);
  if (check != check_of(at)) return bad_field("check", check, "of the other fields it would be", check_of(at));
  return header;
}

}  // namespace wreath
