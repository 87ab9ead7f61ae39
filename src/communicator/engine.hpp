// The engine of one rank's communicator: operations in order, driven by whoever holds the token.
//
// One thread at a time drives (the drive token): a caller that waits, else the progress thread. The
// driver runs the first operation's lanes, moves the wires and looks at the clocks. Control messages
// are handled by the progress thread; a failure from there is seen by the driver at its next round.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/base/cpu.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/communicator/call_gate.hpp"
#include "src/communicator/call_history.hpp"
#include "src/communicator/control.hpp"
#include "src/communicator/exchange_log.hpp"
#include "src/communicator/lanes_run.hpp"
#include "src/communicator/links.hpp"
#include "src/communicator/low_latency_calls.hpp"
#include "src/communicator/operation.hpp"
#include "src/communicator/options.hpp"
#include "src/communicator/peer_doorbells.hpp"
#include "src/communicator/placement.hpp"
#include "src/communicator/progress.hpp"
#include "src/communicator/repeated_call.hpp"
#include "src/communicator/run.hpp"
#include "src/communicator/small_run.hpp"
#include "src/communicator/trace.hpp"
#include "src/communicator/watch.hpp"
#include "src/communicator/wire_counter.hpp"
#include "src/communicator/yielding.hpp"
#include "src/recorder/recorder.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/communicator.hpp"

namespace wreath {

class LibraryStream;
class Shrink;
class Split;

class Engine final : public std::enable_shared_from_this<Engine>, public Progress::Client, public ControlHandler {
 public:
  // Links the members of `membership`. `options`: as agreed by all ranks. `add_runs`: see run.hpp.
  static Result<std::shared_ptr<Engine>> create(Membership membership, const AgreedOptions& options,
                                                std::uint16_t epoch, AddRuns add_runs);
  ~Engine() override;

  int rank() const { return membership_.rank; }
  int ranks() const { return membership_.ranks; }
  std::string identity() const { return identity_; }

  // Runs a checked call to its end.
  Status run(const Call& call);
  // Runs a call that needs no check, for it is the last one of its collective again, on whatever buffers; nullopt: it
  // is not, or something is in flight. Takes the gate itself.
  std::optional<Status> run_again(const Call& call);
  // Runs checked sends and receives to their end. `messages` comes back as some other one, to be filled anew.
  Status run(ExchangeMessages& messages);
  // Starts it: at once, or when call.stream has come to it; its turn among the calls is taken now.
  Result<std::shared_ptr<Operation>> start(const Call& call) { return begin(prepare(call)); }
  // Starts sends and receives as one operation: it takes its turn, but no number of the calls.
  Result<std::shared_ptr<Operation>> start(ExchangeMessages messages, Stream* stream) {
    return begin(prepare(std::move(messages), stream));
  }
  // The halves of start(). What is prepared has copies of its counts and displacements.
  std::shared_ptr<Operation> prepare(const Call& call);
  std::shared_ptr<Operation> prepare(ExchangeMessages messages, Stream* stream);
  Result<std::shared_ptr<Operation>> begin(std::shared_ptr<Operation> operation);
  // Waits until another call may be entered. The first failure, where there was one.
  Status make_room();
  // Begins a captured call for one launch of its graph: returns what the stream does when it comes to it. There need
  // not be room: what finds none is entered when those before it are over.
  std::function<Status()> begin_replay(std::shared_ptr<Operation> operation);
  // Waits for it; NotReady when `timeout_ms` (>= 0) ends first.
  Status wait(Operation& operation, std::int64_t timeout_ms);

  Status error() const;
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
  WireBytes wire_bytes(Collective collective) const { return wire_.of(collective); }
  // See Communicator::plan_for.
  std::string plan_text(const Query& query) const { return plan_text(query, choose(tuning_, query)); }

  // Communicators out of this one: see shrink.hpp and split.hpp.
  Shrink& shrink() { return *shrink_; }
  Split& split() { return *split_; }
  const AgreedOptions& options() const { return options_; }
  const std::vector<Member>& members() const { return membership_.members; }
  // Of this rank's calls on device memory; null: there is none.
  Device* device() const { return membership_.device; }
  ControlPlane& control() const { return *control_; }
  // Whether `peer` has destroyed its communicator.
  bool has_left(Rank peer) const { return watch_->has_left(peer); }

  // For runs.
  Links& links() const { return *links_; }
  const FifoShape& shape() const { return shape_; }
  std::uint64_t communicator() const { return membership_.communicator; }
  const TunerContext& tuning() const { return tuning_; }
  LaneResources& lanes() { return lanes_; }
  PeerDoorbells& doorbells() { return doorbells_; }
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
  int exchange_rounds() const { return options_.exchange_rounds; }
  const CallHistory& history() const { return history_; }
  // Says how far this rank came, for `peer` to compare.
  Progressed progressed(Rank peer) const;
  // A peer made other calls than this rank: this communicator fails as soon as it is known which.
  bool differs() const { return watch_->differs(); }
  // "rank 3 (host h1, pid 4711)".
  std::string member(Rank rank) const;

 private:
  Status end_work(std::string_view call);
  friend class Watch;
  friend class StreamTurn;
  friend class LowLatencyGuard;
  friend class LowLatencyWork;
  enum class Round : std::uint8_t { Nothing, Blocked, Moved };
  static constexpr std::size_t kMaximumQueued = kRecordedCalls / 2;

  Engine(Membership membership, const AgreedOptions& options);
  void add_rows(AddRuns add_runs);
  Status link(std::uint16_t epoch, AddRuns add_runs);
  Status prepare_own(int ranks_of_host);
  int count_cores();  // the ranks of this host
  std::string plan_text(const Query& query, const Choice& choice) const;
  void tell_start(int ranks_of_host) const;
  void tell_choice(const Query& query, const Choice& choice);
  void prepare_placement();

  // Entering calls.
  void enter(Operation& operation);
  const Choice& choice_of(const Query& query);
  Result<std::shared_ptr<Operation>> begin_on_stream(std::shared_ptr<Operation> operation);
  Result<std::shared_ptr<Operation>> capture(LibraryStream& stream, std::shared_ptr<Operation> operation);
  Status prepare_low_latency();
  Result<std::unique_ptr<LowLatencyCalls>> make_low_latency();
  Status link_low_latency(LowLatencyCalls& calls, std::vector<Offer> offers);
  bool takes_low_latency(const Call& call) const { return low_latency_ != nullptr && low_latency_->takes(call); }
  Result<std::shared_ptr<Operation>> begin_low_latency(std::shared_ptr<Operation> operation);
  Status wait_low_latency(Event& event, std::int64_t timeout_ms);
  void expect_low_latency();
  bool await_low_latency(const Deadline& deadline);
  bool watch_low_latency();
  void look_for_low_latency_failure();
  void look_for_low_latency_leavers(std::int64_t now_ns);
  Error captured(const Call& call) const;
  Error still_runs(std::string_view text, std::int64_t timeout_ms) const;
  bool finish_alone(Operation& operation);
  void open(Operation& operation);
  std::uint64_t first_waiting_for_stream(const Question& question) const;
  std::shared_ptr<Operation> enqueue(std::shared_ptr<Operation> operation);
  bool put_off(const std::shared_ptr<Operation>& operation);
  std::shared_ptr<Operation> take_front();
  void drive_queue(std::size_t left, const Deadline& deadline);
  void await_readers(const Deadline& deadline);
  std::shared_ptr<Operation> first_queued();

  // The driver's side; the token is held.
  bool try_token() { return gate_.try_drive(); }
  bool take_idle_token();
  void release_token() { gate_.end_drive(); }
  Operation* front();
  Round drive_round();
  Result<Started> start_run(Operation& operation);
  bool stop_run();
  Advance spin_small();
  std::uint64_t run_pair(ExchangeMessages& messages);
  bool pump(Operation& operation, bool expecting);
  void on_broken_wire(const Operation& operation, Rank peer, const Error& error);
  bool wires_idle() const;
  bool may_close(Rank peer) const;
  void finish(Operation& operation, std::optional<Error> error);
  bool finish_all();
  void ring();
  void on_fault(const Operation& operation);
  void drive(Operation& operation, const Deadline& deadline);
  void drive_until_over(Operation& operation, const Deadline& deadline);
  void set_patience();
  bool give_turn(bool begins);
  void idle(Operation& operation, std::uint32_t rounds, std::int64_t& idle_since_ns);
  void sleep();
  std::optional<Rank> waiting_for() const;
  std::vector<Question> questions() const;
  std::optional<CallRecord> recorded(const Question& question) const;

  // Progress thread.
  void on_event(std::uint64_t token, std::uint32_t events) override;
  Driven drive() override;
  void begin_wait(std::vector<int>& descriptors) override;
  void end_wait() override;
  void on_message(Rank from, ControlMessage message) override;
  void on_lost(Rank from, const std::string& reason, bool closed) override;
  void on_unable(const Error& error) override;
  void answer(const Question& question, bool earlier);
  void on_ended(Rank from, std::uint32_t index);
  void start_control();
  void tell_of_end(Rank gone);
  bool of_one_host(Rank a, Rank b) const;

  std::string call_text() const;

  Membership membership_;
  AgreedOptions options_;
  std::string identity_;
  TunerContext tuning_;
  FifoShape shape_{};
  std::unique_ptr<Links> links_;
  PeerDoorbells doorbells_;
  std::vector<pollfd> polled_;  // by the driver that sleeps
  LaneResources lanes_;
  SmallRun small_{*this, doorbells_};
  RunTable runs_;                                 // for the driver
  Run* run_ = nullptr;                            // of the first operation; null: it has not begun
  bool run_started_ = false;                      // false: it waits to start
  std::unique_ptr<LowLatencyCalls> low_latency_;  // null: there are none
  std::atomic<bool> watches_low_latency_{false};  // a call may be in flight
  std::int64_t low_latency_watched_ns_ = 0;       // by the progress thread
  std::int64_t low_latency_left_ns_ = 0;          // since when a call is in flight whose peer has left; 0: none is
  WireCounter wire_;
  FlightRecorder recorder_;
  ExchangeLog exchange_log_;
  std::shared_ptr<Progress> progress_;
  std::unique_ptr<ControlPlane> control_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Shrink> shrink_;
  std::unique_ptr<Split> split_;
  std::unique_ptr<Trace> trace_;  // null: none is asked for
  std::int64_t spin_ns_ = 0;
  bool crowded_ = false;      // more ranks than cores on this host
  std::uint32_t pauses_ = 0;  // where it is crowded: of a driver that nothing moves for, before it sleeps
  std::uint32_t yields_ = 0;
  std::uint32_t small_looks_ = 0;  // for a small call's messages, before it waits like any other
  const TickPair made_ = TickPair::now();
  Yielding yielding_;    // of the driver, too
  Placement placement_;  // of the driver, where it is crowded

  CallGate gate_;
  std::atomic<int> waiters_{0};
  std::atomic<bool> linked_{false};
  std::atomic<bool> leaving_{false};
  std::mutex alone_;      // held while buffers of a call are touched without the token
  RunTable alone_runs_;   // guarded by it
  bool waiting_ = false;  // the progress thread sleeps for this engine

  mutable std::mutex mutex_;  // of queue_, backlog_ and failure_
  std::deque<std::shared_ptr<Operation>> queue_;
  std::deque<std::shared_ptr<Operation>> backlog_;  // of graphs' launches, not entered yet; the queue is full meanwhile
  std::atomic<std::size_t> queued_{0};
  std::optional<Error> failure_;
  std::atomic<bool> failed_{false};
  CallHistory history_;
  struct Chosen {
    Query query;
    Choice choice;
  };
  std::array<Chosen, static_cast<std::size_t>(Collective::Exchange)> chosen_;  // of the last call of each, often the
                                                                               // next one's
  std::set<std::string> told_;                                                 // choices that were logged
  std::array<RepeatedCall, static_cast<std::size_t>(Collective::Exchange)> repeated_;  // the last small ones
  std::array<std::byte, 2> barrier_bytes_{};  // what a barrier sends, and what it gets
  Operation inline_operation_;                // of blocking calls that find nothing in flight
  Operation* inline_ = nullptr;               // the same, while it runs; guarded by the token
};

}  // namespace wreath
