// The engine of one rank's communicator: operations in order, driven by whoever holds the token.
//
// One thread at a time drives (the drive token): a caller that waits, else the progress thread. The
// driver runs the first operation's lanes, moves the wires and looks at the clocks. Control messages
// are handled by the progress thread; a failure from there is seen by the driver at its next round.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/progress.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/engine/agreed_options.hpp"
#include "src/engine/call_gate.hpp"
#include "src/engine/call_history.hpp"
#include "src/engine/choices.hpp"
#include "src/engine/driver.hpp"
#include "src/engine/exchange_log.hpp"
#include "src/engine/operation.hpp"
#include "src/engine/operation_queue.hpp"
#include "src/engine/repeated_call.hpp"
#include "src/engine/run.hpp"
#include "src/engine/trace.hpp"
#include "src/engine/undriven.hpp"
#include "src/engine/watch.hpp"
#include "src/membership/links.hpp"
#include "src/membership/members.hpp"
#include "src/recorder/recorder.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/communicator.hpp"

namespace wreath {

class Engine final : public std::enable_shared_from_this<Engine>, public Progress::Client {
 public:
  // `members` are those of `membership`; `options`: as agreed by all ranks. Adds its handlers to the members'.
  Engine(std::unique_ptr<Members> members, Membership membership, const AgreedOptions& options);
  ~Engine() override;
  // Links the members. Call it once, before any other call. `add_runs`: see run.hpp.
  Status link(std::uint16_t epoch, AddRuns add_runs, DeviceSegments segments);

  int rank() const { return membership_.rank; }
  int ranks() const { return membership_.ranks; }
  std::string identity() const;

  // Runs a checked call to its end.
  Status run(const Call& call);
  // Runs a call that needs no check, for it is the last one of its collective again, on whatever buffers; nullopt: it
  // is not, or something is in flight. Its buffers are memory of the host. Takes the gate itself.
  std::optional<Status> run_again(const Call& call);
  // Runs checked sends and receives to their end. `messages` comes back as some other one, to be filled anew.
  Status run(ExchangeMessages& messages, bool of_host);
  // Makes an operation of a checked call, or of sends and receives: those take their turn, but no number of the calls.
  // It has copies of its counts and displacements.
  std::shared_ptr<Operation> prepare(const Call& call);
  std::shared_ptr<Operation> prepare(ExchangeMessages messages, Stream* stream);
  // Begins what was prepared; its turn among the calls is taken now.
  std::shared_ptr<Operation> begin(std::shared_ptr<Operation> operation);
  // The halves of begin(), where something else says when the operation begins. There need not be room: what finds none
  // is entered when those before it are over.
  void take_turn(const std::shared_ptr<Operation>& operation);
  void open(Operation& operation);
  // Waits until another call may be entered. The first failure, where there was one.
  Status make_room();
  // Waits for it; NotReady when `timeout_ms` (>= 0) ends first.
  Status wait(Operation& operation, std::int64_t timeout_ms);

  // NotReady: it has not ended within `timeout_ms`.
  Error still_runs(std::string_view text, std::int64_t timeout_ms) const;

  Status error() const { return queue_.error(); }
  // Ends the communicator: the first failure counts, the peers are told. Any thread.
  void fail(ErrorCode code, Rank failed_rank, const std::string& reason);
  Status abort();
  Status revoke();
  // Up to 5 s for operations in flight, then abort; says goodbye to the peers.
  void leave();
  bool leaving() const { return leaving_; }
  // Held during each call of the program.
  CallGate& gate() { return gate_; }

  std::string transport_to(int peer) const { return links_->describe(peer); }
  WireBytes wire_bytes(Collective collective) const { return driver_.wire().of(collective); }
  // See Communicator::plan_for.
  std::string plan_text(const Query& query) const { return plan_text(query, choose(tuning(), query)); }

  // Before link(): what else is to happen when it fails, on the thread that finds the failure.
  void when_failed(std::function<void()> act) { when_failed_ = std::move(act); }
  const AgreedOptions& options() const { return options_; }
  Members& members() const { return *control_; }
  // Of this rank's calls on device memory; null: there is none.
  Device* device() const { return membership_.device; }
  // Whether `peer` has destroyed its communicator.
  bool has_left(Rank peer) const { return control_->has_left(peer); }

  // For runs.
  Links& links() const { return *links_; }
  const FifoShape& shape() const { return shape_; }
  std::uint64_t communicator() const { return membership_.communicator; }
  const TunerContext& tuning() const { return choices_.tuning(); }
  LaneResources& lanes() { return driver_.lanes(); }
  PeerDoorbells& doorbells() { return driver_.doorbells(); }
  FlightRecorder& recorder() { return recorder_; }
  Trace* trace() { return trace_.get(); }
  // Whether an output of so many bytes is written past the caches.
  bool streams(std::size_t output_bytes) const;
  // Whether an operation needs no peer: of one rank, without elements, or with no algorithm to serve it, and then why.
  bool needs_no_peer(const Operation& operation) const;
  Error no_algorithm_for(const Call& call) const;
  // `peer` is in another call than this rank.
  Error other_call(Rank peer) const;
  // Wakes the thread that drives, or has the progress thread drive.
  void wake_driver();
  // Calls that run by themselves; null: there are none. Set once, while the ranks link.
  Undriven* undriven() const { return undriven_.get(); }
  void set_undriven(std::unique_ptr<Undriven> undriven);
  const CallHistory& history() const { return entered_.history; }
  // Says how far this rank came, for `peer` to compare.
  Progressed progressed(Rank peer) const;
  // A peer made other calls than this rank: this communicator fails as soon as it is known which.
  bool differs() const { return watch_->differs(); }
  std::string member(Rank rank) const { return control_->name(rank); }

 private:
  friend class Watch;
  friend class Driver;
  // Remembers what was entered before. A barrier sends the first byte, and gets the other.
  struct Entered {
    CallHistory history;
    std::array<RepeatedCall, static_cast<std::size_t>(Collective::Exchange)> repeated;  // the last small ones
    std::array<std::byte, 2> barrier_bytes;
  };

  Status end_work(std::string_view call);
  Status prepare_own(DeviceSegments segments);
  int ranks_of_host() const;
  std::string plan_text(const Query& query, const Choice& choice) const;
  void tell_start() const;
  void tell_choice(const Query& query, const Choice& choice);

  // Entering calls.
  void enter(Operation& operation);
  const Choice& choice_of(const Query& query);
  bool finish_alone(Operation& operation);
  std::uint64_t run_pair(ExchangeMessages& messages, bool of_host);
  void enqueue(const std::shared_ptr<Operation>& operation);
  void drive_queue(std::size_t left, const Deadline& deadline);
  bool await_undriven(const Deadline& deadline) const;
  void await_readers(const Deadline& deadline);
  bool may_close(Rank peer) const;
  bool try_token() { return gate_.try_drive(); }
  bool take_idle_token();
  void release_token() { gate_.end_drive(); }
  void drive_until_over(Operation& operation, const Deadline& deadline);
  void ring();

  // Progress thread.
  void on_event(std::uint64_t, std::uint32_t) override {}
  Driven drive() override;
  void begin_wait(std::vector<int>& descriptors) override;
  void end_wait() override;
  void handle_messages();
  void on_region(Rank from, std::uint32_t index, Offer offer);
  void on_lost(const Loss& loss);
  void answer(const Question& question, bool earlier);
  std::optional<CallRecord> recorded(const Question& question) const;

  std::string call_text() const;

  Membership membership_;
  AgreedOptions options_;
  FifoShape shape_{};
  std::unique_ptr<Links> links_;
  FlightRecorder recorder_;
  ExchangeLog exchange_log_;
  std::unique_ptr<Trace> trace_;  // null: none is asked for
  OperationQueue queue_;
  Choices choices_;
  Entered entered_;
  Driver driver_{*this};
  std::unique_ptr<Undriven> undriven_;
  std::shared_ptr<Progress> progress_;
  std::unique_ptr<Members> control_;
  std::unique_ptr<Watch> watch_;
  std::function<void()> when_failed_ = [] {};
  CallGate gate_;
  std::atomic<bool> linked_{false};
  std::atomic<bool> leaving_{false};
};

}  // namespace wreath
