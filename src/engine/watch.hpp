// The clocks of an operation that does not move: asks the peers where they are, warns, and ends it.
//
// Late: a peer answers that it has not entered the call. Stall: everybody entered, or does not
// answer, and nothing moves. Mismatch: a peer made another call, in this one's place or before it. A peer that
// does not answer is never called dead: its process may be stopped or starved.
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

  // Adds what acts on queries, answers, and on all that says how far a peer came.
  void handle(ControlHandlers& handlers);

  // Driver: nothing moved for a while. Cheap unless a millisecond passed since the last look.
  void look(Operation& operation, std::int64_t now_ns);
  // Driver: a slot of `from` belongs to another call, or its wire broke. The peer's answer (or its
  // end) says what happened; without one within a second `error` is what it was.
  void suspect(const Operation& operation, Rank from, Error error);
  // The operation at hand moves again, or is over: who asks is told no more that this rank waits in it.
  void goes_on();

  // Names the call that this rank's driver waits in, for peers; empty: it moves.
  std::string waits_in() const;
  // A peer has made other calls, and the communicator fails as soon as it is known which. Any thread may ask.
  bool differs() const { return differs_.load(std::memory_order_acquire); }

 private:
  // A question to a peer and its answer.
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
    std::string waits_in;                                     // the call that it waits in, in words
    std::array<std::int64_t, kSubjects> waits_for_this_ns{};  // when it last asked this rank, by its Subject
    std::optional<Progressed> left_after;
    int asked_calls = 0;  // how often
  };
  struct Suspicion {
    Rank peer;
    std::int64_t since_ns;
    Error error;
  };

  // The progress thread's.
  void compare(Rank from, const ControlMessage& message);
  void on_query(Rank from, const ControlMessage& message);
  void on_state(Rank from, const ControlMessage& message);
  void on_goodbye(Rank from, const Progressed& last);

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
  std::int64_t crowd_;  // how much longer many ranks wait between questions: all of them may ask all others
  std::int64_t looked_ns_ = 0;
  std::int64_t asked_ns_ = 0;
  std::optional<Suspicion> suspicion_;
  std::atomic<bool> differs_{false};

  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::string waits_in_;
  std::atomic<bool> waits_{false};  // whether that says anything
};

}  // namespace wreath
