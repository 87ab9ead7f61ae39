// Says in words what the sender does with a message.
#include "src/put/way.hpp"

#include <fmt/format.h>

#include <utility>

namespace wreath {

MessageWay way_of(std::uint64_t bytes, const PutLimits& limits, std::string adapter) {
  const std::uint32_t parts = data_puts(bytes, limits);
  const std::uint64_t puts = 1 + parts;
  MessageWay way;
  way.adapter = std::move(adapter);
  if (is_small(bytes)) {
    way.text = is_inlined(bytes, limits) ? "inline, beside its header: the adapter takes a copy with the request"
                                         : "staged: copied beside its header into registered memory";
  } else {
    way.text = fmt::format(
        "staged by the step that sends it, or by reference where the caller has it in memory of wreath::allocate or "
        "register_memory; in {} part{}, then its header",
        parts, parts == 1 ? "" : "s");
  }
  // An ordered adapter tells of a whole message by its last put.
  way.counts = {{"puts", puts},
                {"doorbells", 1},
                {"completions", limits.ordered ? 1 : puts},
                {"registrations", 0},
                {"copied_bytes", is_small(bytes) ? bytes : 0}};
  return way;
}

}  // namespace wreath
