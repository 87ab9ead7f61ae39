// Split is Communicator::split of one rank. All ranks tell each other their color and key. The first rank of each group
// makes a meeting point and tells its group. All ranks then tell each other whether they have joined.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/membership/members.hpp"
#include "src/membership/parent.hpp"
#include "wreath/communicator.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

// SplitMessage is the body of a message of kind Split.
struct SplitMessage {
  enum class Kind : std::uint8_t { Choice, Meeting, Outcome };
  Kind kind = Kind::Choice;
  std::int32_t color = 0;  // of a Choice
  std::int32_t key = 0;
  UniqueId meeting;  // of a Meeting
  // An Outcome says here why this rank has no communicator.
  std::optional<Error> error;
};
std::string encode_split(const SplitMessage& message);
// Reads such a body. Any bytes are safe.
Result<SplitMessage> decode_split(const std::string& body);

class Split {
 public:
  Split(ParentCommunicator& parent, Members& members, const Timeouts& timeouts)
      : parent_(parent), members_(members), timeouts_(timeouts) {}

  // Runs one call at a time. Returns null for a negative color.
  Result<std::shared_ptr<ChildCommunicator>> run(int color, int key);
  // Ends a waiting call after the parent failed. Any thread may call it.
  void on_failure();
  // Adds the handler of split's messages.
  void handle(ControlHandlers& handlers);

 private:
  // A Told has all that one rank told in one call.
  struct Told {
    std::optional<SplitMessage> choice;
    std::optional<UniqueId> meeting;
    std::optional<SplitMessage> outcome;
  };
  using Round = std::vector<Told>;  // by rank

  void on_message(Rank from, const ControlMessage& message);
  Round& round(std::uint64_t number);
  void tell(Rank to, std::uint64_t number, const SplitMessage& message);
  void tell_all(std::uint64_t number, const SplitMessage& message);
  template <typename Condition>
  Status wait(Condition told, std::int64_t timeout_ms, std::string_view what);
  Result<std::vector<Rank>> group_of(std::uint64_t number, int color, int key);
  Result<UniqueId> meeting_of(std::uint64_t number, const std::vector<Rank>& group);
  Result<std::shared_ptr<ChildCommunicator>> join(std::uint64_t number, const std::vector<Rank>& group);
  Status outcome_of_all(std::uint64_t number, std::optional<Error> own);

  ParentCommunicator& parent_;
  Members& members_;
  Timeouts timeouts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // The number of the call, which is alike on all ranks.
  std::uint64_t number_ = 0;
  // The present call has a round, and so has the next call of ranks that are ahead.
  std::map<std::uint64_t, Round> rounds_;
  Interrupt interrupt_;
};

}  // namespace wreath
