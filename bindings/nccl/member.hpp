// Defines one rank of a communicator, which stands behind an ncclComm_t.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
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

// Holds an event descriptor that ends a start.
class StartInterrupt {
 public:
  StartInterrupt();
  StartInterrupt(const StartInterrupt&) = delete;
  StartInterrupt& operator=(const StartInterrupt&) = delete;
  ~StartInterrupt();
  void set() const;
  int descriptor() const { return descriptor_; }

 private:
  // Is -1 where descriptors ran out: then only clocks end a start.
  int descriptor_ = -1;
};

// Stands behind a handle; helpers that work for it hold it, too. Any thread may call it.
class Member {
 public:
  enum class State { Joining, Ready, Failed, Ended };
  struct Identity {
    int rank = -1;
    int ranks = 0;
    int device = -1;
    bool blocking = true;
    // Holds the name of the program's config.
    std::string name;
    // Is null where this rank has no CUDA device.
    Device* cuda = nullptr;
  };

  explicit Member(Identity identity) : identity_(std::move(identity)), rank_(identity_.rank), ranks_(identity_.ranks) {}

  // Returns this rank; -1 while a split has not placed it.
  int rank() const { return rank_; }
  // Returns the number of ranks; 0 while a split has not placed this one.
  int ranks() const { return ranks_; }
  int device() const { return identity_.device; }
  bool blocking() const { return identity_.blocking; }
  const std::string& name() const { return identity_.name; }

  // ---- the start ----
  int interrupt() const { return interrupt_.descriptor(); }
  // Ends the start: the first `made` is its result.
  ncclResult_t joined(Result<Communicator> made);

  // ---- use: Use (below) holds the communicator meanwhile ----
  // Returns ncclSuccess, or the reason why the communicator cannot be used; notes nothing.
  ncclResult_t enter(bool revoked_too);
  void exit();
  Communicator& communicator() { return communicator_; }

  // Keeps the first error for good, and returns the code.
  ncclResult_t note(const Status& status);
  // Notes the communicator's own error, where it has one.
  ncclResult_t note_own_error();
  // Ends the communicator on all ranks, for this one cannot make a call that the others make. Called within a Use.
  ncclResult_t fail(const Error& error);
  std::string error_text();
  // Returns what ncclCommGetAsyncError says.
  ncclResult_t asynchronous();

  // ---- turns, which Turn (below) takes ----
  std::uint64_t take_turn();
  bool is_next(std::uint64_t turn);
  void wait_for_turn(std::uint64_t turn);
  void end_turn(std::uint64_t turn);

  // ---- works and helpers of a non-blocking communicator ----
  // Keeps a work, for which settle() waits.
  void keep(std::shared_ptr<Work> work);
  // Keeps a work in the program's streams, for which the end of the communicator waits.
  void keep_in_stream(std::shared_ptr<Work> work);
  // Keeps a helper, for which settle() waits. The helper has a turn until it is done.
  void keep(std::thread helper);
  // Waits for the works.
  ncclResult_t wait_for_works();
  // Waits until the program's streams have done the calls that they were given, unless the communicator fails. Its
  // clocks run once a rank has entered a call.
  void wait_for_streams();
  // Waits for the works, the streams and the helpers. A helper must not call it.
  ncclResult_t settle();

  // ---- the end ----
  // Returns false where it was called before.
  bool begin_finalizing();
  ncclResult_t revoke();
  bool revoked();
  // Says goodbye to the peers, once no thread is inside.
  void end();
  ncclResult_t abort();

  Operators& operators() { return operators_; }

  Device* cuda() const { return identity_.cuda; }
  // Returns the program's stream, of `device`; a null handle means that device's default stream. It is kept until the
  // member's end.
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

  // Guards all fields below but `communicator_`.
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::Joining;
  // Is true where the member was aborted while joining.
  bool abandoned_ = false;
  bool finalizing_ = false;
  bool revoked_ = false;
  // Counts the threads that use `communicator_`.
  int inside_ = 0;
  std::uint64_t taken_turns_ = 0;
  // Holds the turns that are not over.
  std::set<std::uint64_t> turns_;
  ncclResult_t result_ = ncclSuccess;
  // Holds the text of the first error.
  std::string text_;
  std::vector<std::shared_ptr<Work>> works_;
  // Holds the works in streams, in the order of their calls. Those that are over may be among them.
  std::deque<std::shared_ptr<Work>> in_streams_;
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

// Holds a place in the line for a member's communicator, for code that needs it to itself. Places are in the order of
// the calls.
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

// Takes a turn of each of them, at once: two threads that take some of the same members do not wait for each other.
std::vector<Turn> take_turns(const std::set<std::shared_ptr<Member>>& members);

// Returns the number of CUDA's `device`; -1 where it is null.
int number_of(const Device* device);

// Holds the handles that programs have. A handle is its member's address, and never followed.
class Members {
 public:
  ncclComm_t add(std::shared_ptr<Member> member);
  // Returns null where there is no such handle.
  std::shared_ptr<Member> find(const void* handle);
  // Removes the handle and returns its member; null where there is no such handle.
  std::shared_ptr<Member> take(const void* handle);

 private:
  std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Member>> members_;
};

// Returns a table that is never destroyed: what a program leaves undestroyed at its end stays as it is.
Members& members();

// Runs body(member) for a handle; null and unknown ones get InvalidArgument.
ncclResult_t with_member(const char* function, ncclComm_t comm,
                         const std::function<ncclResult_t(const std::shared_ptr<Member>&)>& body) noexcept;

}  // namespace wreath::nccl
