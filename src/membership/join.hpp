// Members of a communicator meet as another communicator by these functions.
#pragma once

#include <vector>

#include "src/membership/members.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

// Makes the meeting point of the `chosen` ranks among `members`. This rank is one of them.
Result<UniqueId> make_meeting(const Members& members, const std::vector<Rank>& chosen);
// Converts an error of a child, whose ranks are `members`, so that it names the parent's rank that failed.
Error error_of_child(const Error& error, const std::vector<Rank>& members);

}  // namespace wreath
