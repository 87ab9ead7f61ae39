// Reads and writes the headers of IPv4 and TCP, and their checksums.
#include "tests/wire/packet.hpp"

namespace wreath::wire {
namespace {

// Returns the one's complement of a sum of 16-bit words (RFC 1071).
std::uint32_t checksum(std::uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return ~sum & 0xFFFF;
}

}  // namespace

Connection Packet::connection() const {
  const int sender = word(header_bytes());
  const int receiver = word(header_bytes() + 2);
  if (from() < to()) return {from(), sender, to(), receiver};
  return {to(), receiver, from(), sender};
}

std::size_t Packet::payload_offset() const {
  return header_bytes() + static_cast<std::size_t>(bytes_[header_bytes() + 12] >> 4) * 4;
}

std::size_t Packet::payload_bytes() const {
  return bytes_.size() > payload_offset() ? bytes_.size() - payload_offset() : 0;
}

Packet Packet::as_reset() const {
  const std::size_t size = header_bytes() + 20;
  Packet reset(std::vector<std::uint8_t>(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size)));
  reset.set_word(2, static_cast<std::uint32_t>(size));
  reset.bytes_[header_bytes() + 12] = 5 << 4;  // a header of five words
  reset.bytes_[header_bytes() + 13] = 4;       // RST
  reset.mend_checksums();
  return reset;
}

void Packet::mend_checksums() {
  const std::size_t header = header_bytes();
  set_word(10, 0);
  set_word(10, checksum(sum(0, header)));
  if (!is_tcp()) return;
  set_word(header + 16, 0);
  const auto length = static_cast<std::uint32_t>(bytes_.size() - header);
  set_word(header + 16, checksum(sum(12, 20) + 6 + length + sum(header, bytes_.size())));
}

void Packet::set_word(std::size_t at, std::uint32_t value) {
  bytes_[at] = static_cast<std::uint8_t>(value >> 8);
  bytes_[at + 1] = static_cast<std::uint8_t>(value);
}

std::uint32_t Packet::sum(std::size_t first, std::size_t last) const {
  std::uint32_t sum = 0;
  for (std::size_t at = first; at + 1 < last; at += 2) sum += word(at);
  if ((last - first) % 2 != 0) sum += static_cast<std::uint32_t>(bytes_[last - 1] << 8);
  return sum;
}

}  // namespace wreath::wire
