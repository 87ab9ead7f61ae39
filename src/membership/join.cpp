// Members of a communicator make a meeting point for another one.
#include "src/membership/join.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace wreath {

Result<UniqueId> make_meeting(const Members& members, const std::vector<Rank>& chosen) {
  const auto elsewhere =
      std::find_if(chosen.begin(), chosen.end(), [&](Rank rank) { return !members.of_one_host(rank, members.rank()); });
  return UniqueId::create(elsewhere == chosen.end() ? std::string() : members.address_to(*elsewhere));
}

Error error_of_child(const Error& error, const std::vector<Rank>& members) {
  const bool named = error.failed_rank >= 0 && static_cast<std::size_t>(error.failed_rank) < members.size();
  return {error.code, fmt::format("the new communicator of {} ranks: {}", members.size(), error.message),
          named ? members[static_cast<std::size_t>(error.failed_rank)] : -1};
}

}  // namespace wreath
