// Encodes and checks headers.
#include "src/put/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/base/hash.hpp"
#include "src/base/little_endian.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kMagic = 0x02505257;  // "WRP", version 2
constexpr std::size_t kChecksumAt = 24;
constexpr std::size_t kEnd = 32;  // the rest is zero

Error bad_field(const char* field, std::uint64_t value, const char* rule, std::uint64_t bound, std::uint16_t lane) {
  return {ErrorCode::PeerLost,
          fmt::format("message header: {} is {}, {} {} (lane {})", field, value, rule, bound, lane)};
}

}  // namespace

void encode(const PutHeader& header, std::byte* target) noexcept {
  std::fill_n(target, kPutHeaderBytes, std::byte{0});
  store_little(target, kMagic, 4);
  store_fields(header, target);
}

std::uint64_t checksum_of(const PutHeader& header, std::span<const std::byte> data) noexcept {
  std::array<std::byte, kPutHeaderBytes> fields;
  encode(header, fields.data());
  return mix(checksum(std::span(fields).first(kChecksumAt)), checksum(data));
}

Result<PutHeader> decode(std::span<const std::byte, kPutHeaderBytes> source, const FifoShape& shape, std::uint16_t lane,
                         std::uint32_t sequence) {
  const std::byte* at = source.data();
  const auto bad = [&](const char* field, std::uint64_t value, const char* rule, std::uint64_t bound) {
    return bad_field(field, value, rule, bound, lane);
  };
  const auto magic = load_little<std::uint32_t>(at);
  if (magic != kMagic) return bad("magic", magic, "must be", kMagic);
  const auto header = load_fields<PutHeader>(at);
  if (header.epoch != shape.epoch) return bad("epoch", header.epoch, "must be", shape.epoch);
  if (header.lane != lane) return bad("lane", header.lane, "must be", lane);
  if (header.sequence != sequence) return bad("sequence", header.sequence, "must be", sequence);
  if (header.bytes > shape.slot_bytes) return bad("bytes", header.bytes, "must be at most", shape.slot_bytes);
  const std::uint32_t most_parts = header.bytes <= kCopiedBytes ? 1 : kMostParts;
  if (header.parts == 0 || header.parts > most_parts) return bad("parts", header.parts, "must be 1 to", most_parts);
  const std::uint32_t most_landed = header.bytes <= kCopiedBytes ? 0 : 1;
  if (header.landed > most_landed) return bad("landed", header.landed, "must be at most", most_landed);
  if (!shape.checked && header.checksum != 0) return bad("checksum", header.checksum, "must be", 0);
  const auto zero = [](std::byte each) { return each == std::byte{0}; };
  if (!std::all_of(at + 22, at + kChecksumAt, zero) || !std::all_of(at + kEnd, at + kPutHeaderBytes, zero)) {
    return Error{ErrorCode::PeerLost,
                 fmt::format("message header: the bytes behind its fields are not 0 (lane {})", lane)};
  }
  return header;
}

}  // namespace wreath
