// The engine of one rank's communicator runs its operations in order. The thread that holds the drive token drives
// them.
//
// One thread at a time drives: a caller that waits, else the progress thread. The driver runs the first operation's
// lanes, moves the wires and looks at the clocks. The progress thread handles control messages. The driver sees a
// failure from there at its next round.
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
  // Makes an engine of the `members` of `membership`. All ranks have agreed on `options`. It adds its handlers to the
  // members'.
  Engine(std::unique_ptr<Members> members, Membership membership, const AgreedOptions& options);
  ~Engine() override;
  // Links the members. The caller calls it once, before any other call. run.hpp explains `make_outer_runs`.
  Status link(std::uint16_t epoch, const MakeOuterRuns& make_outer_runs, DeviceSegments segments);

  int rank() const { return membership_.rank; }
  int ranks() const { return membership_.ranks; }
  std::string identity() const;

  // Runs a checked call to its end.
  Status run(const Call& call);
  // Runs a call that needs no check, since it repeats the last call of its collective on any buffers. Returns nullopt
  // where it does not repeat that call, or something is in flight. The buffers are host memory. It takes the gate
  // itself.
  std::optional<Status> run_again(const Call& call);
  // Runs checked sends and receives to their end. It leaves another list in `messages`, which the caller may fill anew.
  Status run(ExchangeMessages& messages, bool of_host);
  // Does the same, and takes the gate itself. Returns nullopt where something is in flight or prevents the call.
  std::optional<Status> run_now(ExchangeMessages& messages, bool of_host);
  // Makes an operation of a checked call. The operation has copies of the call's counts and displacements.
  std::shared_ptr<Operation> prepare(const Call& call);
  // Makes an operation of checked sends and receives. It takes a turn among the calls but has no number of theirs. The
  // collective of `exchange` is Exchange.
  std::shared_ptr<Operation> prepare(const Call& exchange, ExchangeMessages messages);
  // Begins a prepared operation and takes its turn among the calls now.
  std::shared_ptr<Operation> begin(std::shared_ptr<Operation> operation);
  // The functions take_turn() and open() are the halves of begin(), for an operation that another event begins.
  // take_turn() needs no room: where the queue is full, the operation is entered when those before it are over.
  void take_turn(const std::shared_ptr<Operation>& operation);
  void open(Operation& operation);
  // Waits until another call may be entered. Returns the first failure where there was one.
  Status make_room();
  // Waits for the operation. Returns NotReady when `timeout_ms` (>= 0) ends first.
  Status wait(Operation& operation, std::int64_t timeout_ms);

  // Returns the NotReady error of a call that has not ended within `timeout_ms`.
  Error still_runs(std::string_view text, std::int64_t timeout_ms) const;

  Status error() const { return queue_.error(); }
  // Ends the communicator and tells the peers. The first failure counts. Any thread may call it.
  void fail(ErrorCode code, Rank failed_rank, const std::string& reason);
  // Returns Timeout while something still reads or writes memory of operations, which are then not over. The next call
  // asks again.
  Status abort();
  Status revoke();
  // Waits up to 5 s for operations in flight, then aborts them. It says goodbye to the peers. An engine whose memory is
  // still in use then stays until the process ends.
  void leave();
  bool leaving() const { return leaving_; }
  // Each call of the program holds this gate.
  CallGate& gate() { return gate_; }

  std::string transport_to(int peer) const { return links_->describe(peer); }
  WireBytes wire_bytes(Collective collective) const { return driver_.moved_by(collective); }
  std::vector<WireCounts> wire_counts();
  // Communicator::plan_for documents the text.
  std::string plan_text(const Query& query) const { return plan_text(query, choose(tuning(), query)); }

  // Sets what else happens when the communicator fails, on the thread that finds the failure. The caller sets it before
  // link().
  void when_failed(std::function<void()> act) { when_failed_ = std::move(act); }
  const AgreedOptions& options() const { return options_; }
  Members& members() const { return *control_; }
  // Says whether `peer` has destroyed its communicator.
  bool has_left(Rank peer) const { return control_->has_left(peer); }

  // Runs use the functions below.
  Links& links() const { return *links_; }
  const FifoShape& shape() const { return shape_; }
  std::uint64_t communicator() const { return membership_.communicator; }
  const TunerContext& tuning() const { return choices_.tuning(); }
  LaneResources& lanes() { return driver_.lanes(); }
  const LaneResources& lanes() const { return driver_.lanes(); }
  FlightRecorder& recorder() { return recorder_; }
  Trace* trace() const { return trace_.get(); }
  // Says whether an operation needs no peer: it is of one rank, has no elements, or no algorithm serves it.
  bool needs_no_peer(const Operation& operation) const;
  // Returns the error of a call that no algorithm serves.
  Error no_algorithm_for(const Call& call) const;
  // Returns the error that says `peer` is in another call than this rank.
  Error other_call(Rank peer) const;
  // Returns the error of a message of another size.
  Error other_count(Rank peer) const;
  // Wakes the thread that drives, or makes the progress thread drive.
  void wake_driver();
  // Returns the calls that run by themselves, or null where there are none. It is set once, while the ranks link.
  Undriven* undriven() const { return undriven_.get(); }
  void set_undriven(std::unique_ptr<Undriven> undriven);
  const CallHistory& history() const { return entered_.history; }
  // Returns this rank's progress, which `peer` compares with its own.
  Progressed progressed(Rank peer) const;
  // Says whether a peer made other calls than this rank. The communicator then fails as soon as the differing call is
  // known.
  bool differs() const { return watch_->differs(); }
  std::string member(Rank rank) const { return control_->name(rank); }

 private:
  friend class Watch;
  friend class Driver;
  // Remembers what was entered before. A barrier sends the first byte, and gets the other.
  struct Entered {
    CallHistory history;
    RepeatedCalls repeated;
    std::array<std::byte, 2> barrier_bytes;
  };

  Status end_work(std::string_view call);
  Error still_held(Operation& operation);
  void stay(const Error& reason);
  Status prepare_own(DeviceSegments segments);
  void choose_by(const LinkFacts& facts);
  HostRanks own_host() const;
  std::string plan_text(const Query& query, const Choice& choice) const;
  void tell_start() const;
  void tell_choice(const Query& query, const Choice& choice);

  // The functions below enter calls.
  void enter(Operation& operation);
  const Choice& choice_of(const Query& query);
  bool finish_alone(Operation& operation);
  std::uint64_t run_small(ExchangeMessages& messages, bool of_host);
  void receive_small(std::vector<ExchangeMessage>& receives);
  Status run_exchange(ExchangeMessages& messages, bool of_host);
  Status finish_immediate(Operation& operation);
  void enqueue(const std::shared_ptr<Operation>& operation);
  void drive_queue(std::size_t left, const Deadline& deadline);
  bool await_undriven(const Deadline& deadline) const;
  void await_readers(const Deadline& deadline);
  bool may_close(Rank peer);
  bool try_token() { return gate_.try_drive(); }
  bool take_idle_token();
  void release_token() { gate_.end_drive(); }
  void drive_until_over(Operation& operation, const Deadline& deadline);
  void ring();

  // The progress thread calls the functions below.
  void on_event(std::uint64_t, std::uint32_t) override {}
  Driven drive() override;
  int begin_wait(std::vector<int>& descriptors) override;
  void end_wait() override;
  void handle_messages();
  void on_region(Rank from, std::uint32_t index, Offer offer);
  void on_word(Rank from, Offer word);
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
  // The pointer is null where nobody asks for a trace.
  std::unique_ptr<Trace> trace_;
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
  // All work has ended after a failure: nothing touches memory of operations any more.
  std::atomic<bool> work_ended_{false};
};

}  // namespace wreath
