// One rank of a communicator: what stands behind an ncclComm_t.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/nccl/nccl.h"
#include "bindings/nccl/operators.hpp"
#include "wreath/wreath.hpp"

namespace wreath::nccl {

// An event descriptor that ends a start.
class StartInterrupt {
 public:
  StartInterrupt();
  StartInterrupt(const StartInterrupt&) = delete;
  StartInterrupt& operator=(const StartInterrupt&) = delete;
  ~StartInterrupt();
  void set() const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;  // none where descriptors ran out: then only clocks end a start
};

// The members of all handles, and of the helpers that work for them. Any thread.
class Member {
 public:
  enum class State { Joining, Ready, Failed, Ended };
  struct Identity {
    int rank = -1;
    int ranks = 0;
    int device = -1;
    bool blocking = true;
    std::string name;        // of the program's config, for messages
    Device* cuda = nullptr;  // null: this rank has no CUDA device
  };

  explicit Member(Identity identity) : identity_(std::move(identity)), rank_(identity_.rank), ranks_(identity_.ranks) {}

  // -1 and 0 while a split has not placed it.
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int device() const { return identity_.device; }
  bool blocking() const { return identity_.blocking; }
  const std::string& name() const { return identity_.name; }

  // ---- the start; `made` is what it came to, the first time ----
  int interrupt() const { return interrupt_.descriptor(); }
  ncclResult_t joined(Result<Communicator> made);

  // ---- use: Use (below) holds the communicator meanwhile ----
  // InvalidUsage where it is not there; notes nothing.
  ncclResult_t enter(bool revoked_too);
  void exit();
  Communicator& communicator() { return communicator_; }

  // Keeps the first error for good. The code.
  ncclResult_t note(const Status& status);
  // note() of the communicator's own error, where it has one.
  ncclResult_t note_own_error();
  // Ends the communicator on all ranks: this one cannot make a call that the others make. Within a Use.
  ncclResult_t fail(const Error& error);
  std::string error_text();
  // What ncclCommGetAsyncError says.
  ncclResult_t asynchronous();

  // ---- turns, which Turn (below) takes ----
  std::uint64_t take_turn();
  bool is_next(std::uint64_t turn);
  void wait_for_turn(std::uint64_t turn);
  void end_turn(std::uint64_t turn);

  // ---- of a non-blocking communicator ----
  // settle() waits for works, and for helpers, which have a turn until they are done.
  void keep(std::shared_ptr<Work> work);
  void keep(std::thread helper);
  // Waits for the works; settle() also for the helpers, of which it may be none.
  ncclResult_t wait_for_works();
  ncclResult_t settle();

  // ---- the end ----
  // False: it was called before.
  bool begin_finalizing();
  ncclResult_t revoke();
  bool revoked();
  // Once no thread is inside: says goodbye to the peers.
  void end();
  ncclResult_t abort();

  Operators& operators() { return operators_; }

  Device* cuda() const { return identity_.cuda; }
  // The program's stream, of `device`; null: that device's default stream. Kept until the member's end.
  Result<Stream*> stream(Device& device, void* handle);

 private:
  bool works_are_over();
  void join_helpers();
  void end_within(std::optional<std::chrono::milliseconds> bound);

  const Identity identity_;
  std::atomic<int> rank_;
  std::atomic<int> ranks_;
  StartInterrupt interrupt_;
  Operators operators_;

  std::mutex mutex_;  // of all below but `communicator_`
  std::condition_variable changed_;
  State state_ = State::Joining;
  bool abandoned_ = false;  // aborted while joining
  bool finalizing_ = false;
  bool revoked_ = false;
  int inside_ = 0;  // threads that use `communicator_`
  std::uint64_t taken_turns_ = 0;
  std::set<std::uint64_t> turns_;  // that are not over
  ncclResult_t result_ = ncclSuccess;
  std::string text_;  // of the first error
  std::vector<std::shared_ptr<Work>> works_;
  std::vector<std::thread> helpers_;
  std::map<std::pair<Device*, void*>, std::unique_ptr<Stream>> streams_;
  Communicator communicator_;
};

// Keeps a member's communicator from being destroyed while it is used.
class Use {
 public:
  explicit Use(std::shared_ptr<Member> member, bool revoked_too = false)
      : member_(std::move(member)), entered_(member_->enter(revoked_too)) {}
  Use(Use&& other) noexcept : member_(std::move(other.member_)), entered_(other.entered_) {}
  Use& operator=(Use&&) = delete;
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    if (member_ != nullptr && entered_ == ncclSuccess) member_->exit();
  }
  ncclResult_t entered() const { return entered_; }
  Member& operator*() const { return *member_; }
  Member* operator->() const { return member_.get(); }

 private:
  std::shared_ptr<Member> member_;
  ncclResult_t entered_;
};

// A place in the line of those who need a member's communicator to themselves, in the order in which they were called.
class Turn {
 public:
  explicit Turn(std::shared_ptr<Member> member) : member_(std::move(member)), turn_(member_->take_turn()) {}
  Turn(Turn&& other) noexcept = default;
  Turn& operator=(Turn&&) = delete;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (member_ != nullptr) member_->end_turn(turn_);
  }
  bool is_next() const { return member_->is_next(turn_); }
  void wait() const { member_->wait_for_turn(turn_); }

 private:
  std::shared_ptr<Member> member_;
  std::uint64_t turn_;
};

// A turn of each of them, at once: two threads that take some of the same members do not wait for each other.
std::vector<Turn> take_turns(const std::set<std::shared_ptr<Member>>& members);

// The number of CUDA's `device`; -1: it is null.
int number_of(const Device* device);

// The handles that are out. A handle is its member's address, and never followed.
class Members {
 public:
  ncclComm_t add(std::shared_ptr<Member> member);
  std::shared_ptr<Member> find(const void* handle);  // nullptr: no such handle
  std::shared_ptr<Member> take(const void* handle);  // and no longer out

 private:
  std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Member>> members_;
};

// Never destroyed: what a program leaves undestroyed at its end stays as it is.
Members& members();

// Runs body(member) for a handle; null and unknown ones get InvalidArgument.
ncclResult_t with_member(const char* function, ncclComm_t comm,
                         const std::function<ncclResult_t(const std::shared_ptr<Member>&)>& body) noexcept;

}  // namespace wreath::nccl
