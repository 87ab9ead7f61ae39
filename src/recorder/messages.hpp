// Compares the sends and receives in the recordings of a communicator's ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wreath/recording.hpp"

namespace wreath {

// Holds the recordings of one communicator, by rank, one each.
using Group = std::vector<const Recording*>;
using Ranks = std::vector<Rank>;

// Returns "rank 3" or "ranks 0, 1, 3"; a long list is cut.
std::string text_of(const Ranks& ranks);

// Holds what messages tell. Sentences are for people; a long list of them is cut.
struct MessageFindings {
  std::vector<std::string> sentences;
  Ranks culprits;  // in order
  // Lists, in order, the ranks whose message waits.
  Ranks waiting;
};

// Finds sends and receives that should be one message, but differ in count or dtype. The culprits are both ends.
MessageFindings find_differing_messages(const Group& group);

// Finds sends and receives that wait: the other end was not entered at least `wait_ns` after this one was. The culprits
// are the ranks that are waited for and wait for no message themselves, and the ranks that wait for each other.
MessageFindings find_waiting_messages(const Group& group, std::int64_t wait_ns);

// Returns how long before `recording` was taken the call was entered, in nanoseconds. A file may hold any times.
std::int64_t since(const CallRecord& call, const Recording& recording);

}  // namespace wreath
