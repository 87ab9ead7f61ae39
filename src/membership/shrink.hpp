// Shrink is Communicator::shrink of one rank. It runs the survivors' agreement (agreement.hpp) by messages between
// members, and attempts communicators.
//
// The progress thread takes messages and answers them, also while the caller joins an attempt. The caller waits and
// joins. The lowest living rank makes the meeting point of an attempt. A view that grows ends an attempt at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "src/membership/agreement.hpp"
#include "src/membership/members.hpp"
#include "src/membership/parent.hpp"
#include "wreath/communicator.hpp"

namespace wreath {

class Shrink {
 public:
  Shrink(ParentCommunicator& parent, Members& members, const Timeouts& timeouts);

  // Runs one call at a time.
  Result<std::shared_ptr<ChildCommunicator>> run(std::int64_t timeout_ms, std::span<const Rank> without);
  // Ends the call of this rank, which sends nothing more. Any thread may call it.
  void stop();

  // Adds the handlers of shrink's messages and of members that are gone.
  void handle(ControlHandlers& handlers);

 private:
  struct Candidate {
    View view;
    std::shared_ptr<ChildCommunicator> communicator;
  };

  // The progress thread calls these.
  void on_message(Rank from, const ControlMessage& message);
  void on_lost(Rank from, Fate fate);

  // The caller of these two holds the mutex.
  bool over() const { return stopped_ || agreement_.over(); }
  void settle();

  Status begin(std::int64_t timeout_ms, std::span<const Rank> without);
  std::optional<View> next_attempt();
  void attempt(const View& view);
  Result<UniqueId> meeting_of(const View& view);
  void fail_attempt(const View& view, const Error& error);
  Result<std::shared_ptr<ChildCommunicator>> end();
  void drop_candidate();

  ParentCommunicator& parent_;
  Members& members_;
  Timeouts timeouts_;
  std::optional<Candidate> candidate_;  // the caller's thread owns it

  std::mutex mutex_;
  std::condition_variable changed_;
  Agreement agreement_;
  bool stopped_ = false;
  Interrupt interrupt_;
};

}  // namespace wreath
