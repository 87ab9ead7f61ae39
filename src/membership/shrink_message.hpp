// The body of a control message of kind Shrink: a statement, or the meeting point of the attempt at a view.
#pragma once

#include <optional>
#include <string>

#include "src/membership/consensus.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

struct ShrinkMessage {
  std::optional<UniqueId> meeting;  // then only statement.view counts
  Statement statement;
};
std::string encode_shrink(const ShrinkMessage& message);
// Safe on any bytes; views have `ranks` members.
Result<ShrinkMessage> decode_shrink(const std::string& body, int ranks);

}  // namespace wreath
