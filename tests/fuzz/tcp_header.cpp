// A libFuzzer target. The frame header's decoder takes any bytes, and what it accepts is in range.
//
// clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -I. tests/fuzz/tcp_header.cpp \
//     transports/tcp/wire.cpp -lfmt -o tcp_header && ./tcp_header -max_total_time=60
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "transports/tcp/wire.hpp"

namespace {

void require(bool fine) {
  if (!fine) std::abort();
}

// Returns a header with these fields, to which a correct peer's check value is added. The rules behind that check are
// then reached as well.
wreath::WireHeader fields_of(const std::uint8_t* data) {
  wreath::WireHeader header;
  header.kind = static_cast<wreath::FrameKind>(data[4] % 8);
  header.padding = data[5];
  std::memcpy(&header.epoch, data + 6, 2);
  std::memcpy(&header.lane, data + 8, 2);
  std::memcpy(&header.credit_lane, data + 10, 2);
  std::memcpy(&header.sequence, data + 12, 4);
  std::memcpy(&header.signature, data + 16, 4);
  std::memcpy(&header.bytes, data + 20, 4);
  std::memcpy(&header.credit, data + 24, 4);
  return header;
}

void try_decode(const std::byte* source, bool checked, wreath::Framing framing) {
  const wreath::FifoShape shape{
      .lanes = 4, .slot_count = 8, .slot_bytes = 1 << 19, .first_sequence = 0, .epoch = 1, .checked = checked};
  auto decoded = wreath::decode(std::span<const std::byte, wreath::kWireHeaderBytes>(source, wreath::kWireHeaderBytes),
                                shape, framing);
  if (!decoded) {
    require(!decoded.error().message.empty());
    return;
  }
  require(decoded->bytes <= shape.slot_bytes && decoded->padding < wreath::kWireAlignment);
  require(decoded->epoch != shape.epoch || (decoded->lane < shape.lanes && decoded->credit_lane < shape.lanes));
  const wreath::PartRange part = wreath::range(*decoded, shape);
  require(std::uint64_t{part.offset} + part.bytes <= decoded->bytes);
  const wreath::FrameExtent parts = wreath::extent(*decoded, part.bytes);
  require(parts.prefix <= wreath::kLongestPrefix && parts.bytes == part.bytes && parts.tail < wreath::kWireAlignment);
  std::byte again[wreath::kWireHeaderBytes];
  wreath::encode(*decoded, again);
  require(std::memcmp(again, source, sizeof again) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes < wreath::kWireHeaderBytes) return 0;
  std::byte source[wreath::kWireHeaderBytes];
  std::memcpy(source, data, sizeof source);
  const auto try_all = [&source] {
    for (const bool checked : {false, true}) {
      for (const auto framing : {wreath::Framing::Whole, wreath::Framing::Parts, wreath::Framing::Either})
        try_decode(source, checked, framing);
    }
  };
  try_all();
  wreath::encode(fields_of(data), source);
  try_all();
  return 0;
}
