// The watch keeps the clocks of an operation that does not move. It asks the peers for their progress, warns, and ends
// the operation.
//
// Late means that a peer answers that it has not entered the call. Stall means that nothing moves although every peer
// entered or does not answer. Mismatch means that a peer made another call, in this call's place or before it. The
// watch never calls a silent peer dead: its process may be stopped or starved.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/membership/members.hpp"
#include "src/membership/question.hpp"
#include "wreath/communicator.hpp"
#include "wreath/recording.hpp"

namespace wreath {

class Engine;
class Operation;

class Watch {
 public:
  Watch(Engine& engine, Members& members, const Timeouts& timeouts);

  // Adds the handlers of queries, answers, and all messages that say how far a peer came.
  void handle(ControlHandlers& handlers);

  // Looks at an operation that has not moved for a while. The driver calls it. It is cheap unless a millisecond has
  // passed since the last look.
  void look(Operation& operation, std::int64_t now_ns);
  // Suspects `from`, since a slot of it belongs to another call, or its wire broke. The driver calls it. The peer's
  // answer or its end says what happened. Without either within a second, `error` ends the communicator.
  void suspect(const Operation& operation, Rank from, Error error);
  // Does the same between calls, where `from` can only leave or end. The driver calls it again and again while the
  // trouble lasts, since nobody looks at an operation then.
  void suspect_between_calls(Rank from, Error error);
  // Notes that the operation moves again or is over. Afterwards peers no longer hear that this rank waits in it.
  void goes_on();

  // Names the call that this rank's driver waits in, for peers. It is empty while that call moves.
  std::string waits_in() const;
  // Says whether a peer has made other calls. The communicator then fails as soon as the differing call is known. Any
  // thread may ask.
  bool differs() const { return differs_.load(std::memory_order_acquire); }

 private:
  // This is a question to a peer and its answer.
  struct Asked {
    bool open = false;  // about the present operation
    std::uint64_t number = 0;
    std::int64_t asked_ns = 0;  // the first time
    std::int64_t answered_ns = 0;
    bool entered = false;
  };
  struct Peer {
    std::array<Asked, kSubjects> asked;  // by Subject
    CallRecord last;
    // The text names the call that the peer waits in.
    std::string waits_in;
    // The times when the peer last asked this rank, by the peer's own Subject.
    std::array<std::int64_t, kSubjects> waits_for_this_ns{};
    std::optional<Progressed> left_after;
    int asked_calls = 0;  // times asked
  };
  struct Suspicion {
    Rank peer;
    std::int64_t since_ns;
    Error error;
  };

  // The progress thread calls these.
  void compare(Rank from, const ControlMessage& message);
  void on_query(Rank from, const ControlMessage& message);
  void on_state(Rank from, const ControlMessage& message);
  void on_goodbye(Rank from, const Progressed& last);

  bool ended_in_order(Rank peer) const;
  std::int64_t suspicion_since(const Operation& operation) const;
  bool fails_by_suspicion(std::int64_t since_ns, std::int64_t now_ns);
  void ask(const Operation& operation, std::int64_t now_ns);
  template <typename Condition>
  std::optional<Question> find_open(Condition condition) const;
  Error differ(Rank from, const std::string& own, const std::string& theirs) const;
  void ask_calls(Rank peer, std::uint64_t number);
  void name_difference(Rank from, const ControlMessage& message);
  void look_for_message_difference(Rank from, const Question& question, const CallRecord& theirs);
  bool look_for_leavers();
  bool look_for_late(Operation& operation, std::int64_t now_ns);
  std::string meanwhile_of(const Question& late, std::int64_t now_ns) const;
  void look_for_stall(const Operation& operation, std::int64_t now_ns);

  Engine& engine_;
  Members& members_;
  int rank_;
  Timeouts timeouts_;
  // Many ranks wait so many times longer between questions, since all of them may ask all others.
  std::int64_t crowd_;
  std::int64_t looked_ns_ = 0;
  std::int64_t asked_ns_ = 0;
  std::optional<Suspicion> suspicion_;
  std::atomic<bool> differs_{false};

  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::string waits_in_;
  // The flag says whether `waits_in_` holds a call.
  std::atomic<bool> waits_{false};
};

}  // namespace wreath
