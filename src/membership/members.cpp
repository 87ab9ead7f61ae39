// All ways to reach members share this code.
#include "src/membership/members.hpp"

#include <fmt/format.h>

namespace wreath {

Members::Members(Rank self, std::vector<Member> table) : self_(self), table_(std::move(table)), left_(table_.size()) {
  handlers_.add(MessageKind::Goodbye, [this](Rank from, ControlMessage&) {
    left_[static_cast<std::size_t>(from)].store(true, std::memory_order_release);
  });
}

std::string Members::name(Rank rank) const {
  const Member& member = (*this)[rank];
  return fmt::format("rank {} (host {}, pid {})", rank, member.host_name, member.pid);
}

}  // namespace wreath
