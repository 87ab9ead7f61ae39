// A libFuzzer target. The settings of rank 0 may be any text; accepted ones are in range and give the same text again.
#include "src/communicator/options.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto options = wreath::decode_options(std::string(reinterpret_cast<const char*>(data), size));
  if (!options) return 0;
  const std::string text = wreath::encode_options(*options);
  const auto again = wreath::decode_options(text);
  if (!again || wreath::encode_options(*again) != text) std::abort();
  return 0;
}
