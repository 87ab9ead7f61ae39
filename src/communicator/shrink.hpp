// Communicator::shrink of one rank: the survivors' agreement (consensus.hpp) over the control connections, with clocks,
// and the communicators it attempts.
//
// The progress thread hears and answers, also while the caller joins an attempt; the caller waits and joins. Of an
// attempt the lowest living rank makes the meeting point. A view that grows ends an attempt at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/communicator/consensus.hpp"
#include "src/communicator/control.hpp"
#include "src/communicator/start.hpp"
#include "wreath/unique_id.hpp"

namespace wreath {

// The body of a message of kind Shrink: a statement, or the meeting point of the attempt at a view.
struct ShrinkMessage {
  std::optional<UniqueId> meeting;  // then only statement.view counts
  Statement statement;
};
std::string encode_shrink(const ShrinkMessage& message);
// Safe on any bytes; views have `ranks` members.
Result<ShrinkMessage> decode_shrink(const std::string& body, int ranks);

class Shrink {
 public:
  explicit Shrink(Engine& parent);

  // One call at a time.
  Result<std::shared_ptr<Engine>> run(std::int64_t timeout_ms);
  // Any thread: this rank says nothing more, and its call ends.
  void stop();

  // Progress thread.
  void on_message(Rank from, ControlMessage message);
  void on_lost(Rank from, Fate fate);

 private:
  struct Early {
    Rank from;
    std::uint64_t number;
    ShrinkMessage message;
  };
  struct Candidate {
    View view;
    std::shared_ptr<Engine> engine;
  };
  struct Meeting {
    View view;
    UniqueId id;
  };

  // Under the mutex.
  bool over() const { return stopped_ || consensus_->outcome() != Consensus::Outcome::Open; }
  const Meeting* meeting_at(const View& view) const;
  bool attempt_is_ready() const;
  void hear(Rank from, const ShrinkMessage& message);
  void tell(Rank to, const ShrinkMessage& content);
  void settle();
  void look_at_clocks();

  Status begin(std::int64_t timeout_ms);
  std::optional<View> next_attempt();
  void attempt(const View& view);
  Result<UniqueId> meeting_of(const View& view, const std::vector<Rank>& members);
  void fail_attempt(const View& view, const Error& error);
  Result<std::shared_ptr<Engine>> end();
  void drop_candidate();

  Engine& parent_;
  std::optional<Candidate> candidate_;  // the caller's

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t number_ = 0;  // of the call, counted alike on all ranks
  View fates_;                // what the detector said so far
  std::deque<Early> early_;   // of calls to come
  std::optional<Consensus> consensus_;
  std::vector<Meeting> meetings_;  // heard of in this call
  std::optional<View> attempted_;  // the last attempt of this rank
  View seen_;                      // the view at the last look
  std::int64_t patience_ns_ = 0;   // until when ranks may enter the call
  std::int64_t answer_ns_ = 0;     // ... for answers
  std::int64_t changed_ns_ = 0;    // when the view, or what this rank told of it, changed last
  bool waited_for_joins_ = false;  // at the last look
  bool stopped_ = false;
  Interrupt interrupt_;
};

}  // namespace wreath
