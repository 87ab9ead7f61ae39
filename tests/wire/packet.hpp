// An IPv4 packet between two hosts of the wire.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace wreath::wire {

// Both ends of a TCP connection, equal for both directions. The (host, port) of the lower host comes first.
using Connection = std::array<int, 4>;

class Packet {
 public:
  // Hosts are counted from 0. A host's number is the last byte of its address, less 1.
  explicit Packet(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}

  // Returns whether this is IPv4 with a whole header.
  bool valid() const { return bytes_.size() >= 20 && bytes_[0] >> 4 == 4 && bytes_.size() >= header_bytes(); }
  int from() const { return bytes_[15] - 1; }
  int to() const { return bytes_[19] - 1; }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

  bool is_tcp() const { return bytes_[9] == 6 && bytes_.size() >= header_bytes() + 20; }
  // This function and the next three are for TCP only.
  Connection connection() const;
  bool opens() const { return (bytes_[header_bytes() + 13] & 2) != 0; }
  std::size_t payload_offset() const;
  std::size_t payload_bytes() const;
  // Returns the reset that the packet's sender might have sent instead.
  Packet as_reset() const;

  void flip_bit(std::size_t byte, unsigned bit) { bytes_[byte] ^= static_cast<std::uint8_t>(1U << bit); }
  std::size_t header_bytes() const { return static_cast<std::size_t>(bytes_[0] & 15) * 4; }
  // Sets the checksums to those that the sender would have set for the present bytes.
  void mend_checksums();

 private:
  std::uint16_t word(std::size_t at) const { return static_cast<std::uint16_t>(bytes_[at] << 8 | bytes_[at + 1]); }
  void set_word(std::size_t at, std::uint32_t value);
  std::uint32_t sum(std::size_t first, std::size_t last) const;

  std::vector<std::uint8_t> bytes_;
};

}  // namespace wreath::wire
