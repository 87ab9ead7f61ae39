// A libFuzzer target. The decoder of control messages takes any bytes, and what it accepts encodes to the same message
// again.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "src/membership/link_messages.hpp"
#include "src/membership/messages.hpp"
#include "src/membership/shrink_message.hpp"
#include "src/membership/split.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = wreath::decode_control(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  // The first round removes control characters from texts, so only the second round must not change anything.
  const auto once = wreath::encode_control(*message);
  const auto again = wreath::decode_control(once);
  if (!again || wreath::encode_control(*again) != once) std::abort();
  (void)wreath::decode_split(again->body);
  (void)wreath::decode_candidates(again->body);
  (void)wreath::decode_link_facts(again->body);
  const auto shrink = wreath::decode_shrink(again->body, 3);
  if (shrink && !wreath::decode_shrink(wreath::encode_shrink(*shrink), 3)) std::abort();
  return 0;
}
