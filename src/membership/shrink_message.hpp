// The body of a control message of kind Shrink is a statement, or the meeting point of the attempt at a view.
#pragma once

#include <optional>
#include <string>

#include "src/membership/consensus.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

struct ShrinkMessage {
  // Where there is a meeting, only statement.view counts.
  std::optional<UniqueId> meeting;
  Statement statement;
};
std::string encode_shrink(const ShrinkMessage& message);
// Reads such a body. Any bytes are safe. Views have `ranks` members.
Result<ShrinkMessage> decode_shrink(const std::string& body, int ranks);

}  // namespace wreath
