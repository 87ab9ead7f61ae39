// A libFuzzer target. A peer may put any bytes where a message's header is expected: what the decoder accepts is in
// range, and encodes to the same bytes.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/put/message.hpp"

namespace {

void require(bool fine) {
  if (!fine) std::abort();
}

void try_decode(const std::byte* source, bool checked) {
  const wreath::FifoShape shape{
      .lanes = 4, .slot_count = 8, .slot_bytes = 1 << 19, .first_sequence = 0, .epoch = 1, .checked = checked};
  const auto header = wreath::decode(std::span<const std::byte, wreath::kPutHeaderBytes>(source, 64), shape, 2, 7);
  if (!header) return require(!header.error().message.empty());
  require(header->lane == 2 && header->sequence == 7 && header->epoch == 1 && header->bytes <= shape.slot_bytes);
  require(header->parts >= 1 && header->parts <= (header->bytes <= wreath::kCopiedBytes ? 1U : wreath::kMostParts));
  std::byte again[wreath::kPutHeaderBytes];
  wreath::encode(*header, again);
  require(std::memcmp(again, source, sizeof again) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::byte source[wreath::kPutHeaderBytes] = {};
  // A correct peer's header with fields of the input, so that the rules behind the first one are reached as well.
  wreath::PutHeader header{.epoch = 1, .lane = 2, .sequence = 7};
  if (size >= 16) {
    std::memcpy(&header.signature, data, 4);
    std::memcpy(&header.bytes, data + 4, 4);
    header.parts = data[8] % 10;
    if (data[9] % 8 == 0) header.lane = data[10];
    if (data[9] % 8 == 1) header.sequence = data[10];
    if (data[9] % 2 == 0) header.checksum = data[11];
  }
  wreath::encode(header, source);
  if (size > 16) source[data[12] % sizeof source] ^= std::byte{data[16]};
  for (const bool checked : {false, true}) try_decode(source, checked);
  std::memcpy(source, data, size < sizeof source ? size : sizeof source);
  for (const bool checked : {false, true}) try_decode(source, checked);
  return 0;
}
