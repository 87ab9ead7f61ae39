// Comparing the sends and receives in the recordings of a communicator's ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wreath/recording.hpp"

namespace wreath {

using Group = std::vector<const Recording*>;  // of one communicator, by rank, one each
using Ranks = std::vector<Rank>;

// "rank 3", "ranks 0, 1, 3"; a long list is cut.
std::string text_of(const Ranks& ranks);

// What messages tell. Sentences are for people; a long list of them is cut.
struct MessageFindings {
  std::vector<std::string> sentences;
  Ranks culprits;  // in order
  Ranks waiting;   // in order: those whose message waits
};

// Sends and receives that should be one message, but differ in count or dtype. The culprits are both ends.
MessageFindings find_differing_messages(const Group& group);

// Sends and receives of which the other end was never entered, `wait_ns` at least after this one was. The culprits are
// the ranks that are waited for and wait for no message themselves, and those that wait for each other.
MessageFindings find_waiting_messages(const Group& group, std::int64_t wait_ns);

// How long before `recording` was taken the call was entered. A file may hold any times.
std::int64_t since(const CallRecord& call, const Recording& recording);

}  // namespace wreath
