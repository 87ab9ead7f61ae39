// A libFuzzer target. A peer's offer of memory may be any bytes; without a descriptor it can only be an error.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/fifo/segment.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wreath::Offer offer;
  offer.bytes.resize(size);
  if (size > 0) std::memcpy(offer.bytes.data(), data, size);
  const auto region = wreath::open_announced(std::move(offer));
  if (region || region.error().message.empty()) std::abort();
  return 0;
}
