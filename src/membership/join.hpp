// Members of a communicator meet as another one.
#pragma once

#include <vector>

#include "src/membership/members.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

// Makes the meeting point of `chosen` ones among `members`, of which this rank is one.
Result<UniqueId> make_meeting(const Members& members, const std::vector<Rank>& chosen);
// Says of an error of the child, in which `members` are, which rank of the parent failed.
Error error_of_child(const Error& error, const std::vector<Rank>& members);

}  // namespace wreath
