// Fuzzes the decoder of start-up messages: whatever it accepts must encode to the same bytes again.
//
// This file is not part of the build. With clang, from the root of the project:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -I. tests/fuzz/bootstrap_decoder.cpp
//     src/bootstrap/codec.cpp -lfmt -o /tmp/bootstrap_decoder && /tmp/bootstrap_decoder -max_total_time=60
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/bootstrap/codec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = wreath::decode(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  // The first round removes control characters from texts, so only the second round must not change anything.
  const auto once = wreath::encode(*message);
  const auto again = wreath::decode(once);
  if (!again || wreath::encode(*again) != once || once.size() != size) std::abort();
  return 0;
}
