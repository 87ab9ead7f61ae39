// Communicator::split of one rank: everybody tells everybody its color and key, the first of each group makes a meeting
// point and tells its group, and when all have joined, or one could not, everybody is told.
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

// The body of a message of kind Split.
struct SplitMessage {
  enum class Kind : std::uint8_t { Choice, Meeting, Outcome };
  Kind kind = Kind::Choice;
  std::int32_t color = 0;  // Choice
  std::int32_t key = 0;
  UniqueId meeting;            // Meeting
  std::optional<Error> error;  // Outcome: why this rank has no communicator
};
std::string encode_split(const SplitMessage& message);
// Safe on any bytes.
Result<SplitMessage> decode_split(const std::string& body);

class Split {
 public:
  Split(ParentCommunicator& parent, Members& members, const Timeouts& timeouts)
      : parent_(parent), members_(members), timeouts_(timeouts) {}

  // One call at a time. Null: a negative color.
  Result<std::shared_ptr<ChildCommunicator>> run(int color, int key);
  // The parent failed: what waits ends. Any thread may call it.
  void on_failure();
  // Adds what acts on messages of split.
  void handle(ControlHandlers& handlers);

 private:
  // One rank told this in one call.
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
  std::uint64_t number_ = 0;               // of the call, alike on all ranks
  std::map<std::uint64_t, Round> rounds_;  // the present call, and the next one of ranks that are ahead
  Interrupt interrupt_;
};

}  // namespace wreath
