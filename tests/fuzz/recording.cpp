// A libFuzzer target. The decoder of wreath-RANK.json takes any text. What it accepts is in range, and can be compared
// and written back.
#include "wreath/recording.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/recorder/json.hpp"

namespace {

void require(bool fine) {
  if (!fine) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const wreath::Result<wreath::Recording> recording = wreath::parse_recording(text, "input");
  if (!recording) return 0;
  require(recording->rank >= 0 && recording->rank < recording->ranks);
  require(recording->calls.size() <= wreath::kRecordedCalls);
  require(wreath::diagnose({*recording}).size() == 1);
  require(static_cast<bool>(wreath::parse_recording(wreath::to_json(*recording), "again")));
  return 0;
}
