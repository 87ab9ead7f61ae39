// Tests many runs over adapters with random faults: each call gives right data or an error that says what failed, and
// it ends in time.
#include <gmock/gmock.h>

#include <array>
#include <latch>
#include <random>

#include "tests/conformance/verbs/verbs_ranks.hpp"
#include "tests/support/processes.hpp"
#include "wreath/group.hpp"

namespace wreath::test {
namespace {

using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing_support::kSanitized;
using testing_support::kSlower;
using testing_support::rounds;

constexpr int kCalls = 6;

// Expects that an error names the adapter that says what failed, the call of the library, or a peer and why it is gone.
void expect_says_what_failed(const Error& error) {
  EXPECT_THAT(error.message,
              AnyOf(ContainsRegex("fake_[01]( port 1)?( gid 3)?( to [0-9.]+ queue pair [0-9]+)?: [^f]"),
                    ContainsRegex("fake_[01] port 1 to rank [0-9]: .*, and no new connection within [0-9]+ ms"),
                    ContainsRegex("ibv_[a-z_]+: ."),
                    ContainsRegex("rank [0-9]+ [(]host [^)]+[)] destroyed its communicator after")));
}

// One run: its seed decides on all that follows.
class FaultyRun {
 public:
  FaultyRun(const FakeVerbs& fake, std::uint64_t seed) : fake_(fake), random_(seed), seed_(seed) {}

  void run() {
    FakeBehaviour behaviour;
    behaviour.seed = seed_;
    behaviour.piece_bytes = 256U << below(8);
    behaviour.delay_us = static_cast<std::uint32_t>(below(200));
    fake_.behave(&behaviour);
    arm_fault();
    const int ranks = 2 + static_cast<int>(below(2));
    std::jthread disturber([this] { disturb(); });
    auto made = Communicator::create_local(ranks, options());
    if (!made) return expect_named(made.error());
    const std::uint64_t calls_seed = random_();
    std::vector<std::jthread> threads;
    for (Communicator& communicator : *made) threads.emplace_back([&] { make_calls(communicator, calls_seed); });
    threads.clear();
    if (failed_) end_all(*made);
  }
  bool failed() const { return failed_; }

 private:
  enum class Kind { None, Request, Call, LostForATime, SomeLost, Port, Kinds };

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  CommunicatorOptions options() {
    CommunicatorOptions options;
    options.transports = {"verbs"};
    options.timeouts.stall_ms = 3'000 * kSlower;
    options.timeouts.arrival_ms = 6'000 * kSlower;
    options.overrides.tile_bytes = std::size_t{4096} << below(6);
    options.overrides.lanes = 1 + static_cast<int>(below(3));
    options.overrides.slot_count = 1U << below(4);
    return options;
  }
  void arm_fault() {
    constexpr std::array kStatuses{1, 2, 4, 10, 11, 12, 13, 19, 21};
    constexpr std::array kFunctions{"ibv_reg_mr",    "ibv_create_qp",    "ibv_create_cq",   "ibv_modify_qp",
                                    "ibv_post_send", "ibv_post_recv",    "ibv_open_device", "ibv_alloc_pd",
                                    "ibv_poll_cq",   "ibv_req_notify_cq"};
    kind_ = static_cast<Kind>(below(static_cast<std::uint64_t>(Kind::Kinds)));
    if (kind_ == Kind::Request) fake_.fail_request(static_cast<int>(below(100)), kStatuses[below(kStatuses.size())]);
    if (kind_ == Kind::Call) {
      fake_.fail(kFunctions[below(kFunctions.size())], static_cast<int>(below(20)), 1 + static_cast<int>(below(3)),
                 ENOMEM);
    }
    if (kind_ == Kind::SomeLost) fake_.lose(0, 1 + static_cast<int>(below(30)));
    pause_us_ = below(5'000);
    length_us_ = below(20'000);
  }
  void disturb() {
    if (kind_ != Kind::LostForATime && kind_ != Kind::Port) return;
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us_));
    const auto set = [this](bool up) {
      if (kind_ == Kind::Port) return fake_.set_port(1, 1, up);
      fake_.lose(1, up ? 0 : 1000);
    };
    set(false);
    std::this_thread::sleep_for(std::chrono::microseconds(length_us_));
    set(true);
  }
  void make_calls(Communicator& communicator, std::uint64_t seed) {
    std::mt19937_64 random(seed);  // all ranks make the same calls
    for (int call = 0; call < kCalls; ++call) {
      const std::size_t count = std::size_t{1} << (random() % 18);
      const bool allocated = random() % 2 == 0;
      Memory memory = allocated ? allocate(count * 4).value() : Memory();
      std::vector<std::int32_t> ordinary(allocated ? 0 : count);
      const std::span values = allocated ? memory.as<std::int32_t>() : std::span(ordinary);
      const std::int32_t first = communicator.rank() + call;
      std::iota(values.begin(), values.end(), first);
      const auto begin = std::chrono::steady_clock::now();
      const Status status = communicator.all_reduce(values);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20) * kSlower);
      if (!status) return expect_named(status.error());
      const std::int32_t n = communicator.ranks();
      for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t right = n * (static_cast<std::int32_t>(i) + call) + n * (n - 1) / 2;
        ASSERT_EQ(values[i], right) << "element " << i << " of " << count << ", call " << call << ", seed " << seed_;
      }
    }
  }
  // Asks until all memory is given back. A communicator that is destroyed before keeps its adapter until the process
  // ends, and a busy machine may need longer than one abort() waits.
  static void end_all(std::vector<Communicator>& communicators) {
    constexpr int kTimes = 20 * kSlower;  // of a second each
    for (Communicator& communicator : communicators) {
      Status ended = communicator.abort();
      for (int i = 1; i < kTimes && !ended; ++i) ended = communicator.abort();
      EXPECT_TRUE(ended) << ended.error().message;
    }
  }
  void expect_named(const Error& error) {
    failed_ = true;
    SCOPED_TRACE(seed_);
    EXPECT_NE(kind_, Kind::None) << error.message;
    expect_says_what_failed(error);
  }

  const FakeVerbs& fake_;
  std::mt19937_64 random_;
  const std::uint64_t seed_;
  Kind kind_ = Kind::None;
  std::uint64_t pause_us_ = 0;
  std::uint64_t length_us_ = 0;
  std::atomic<bool> failed_ = false;
};

// Queue pairs to each peer, and rails.
class VerbsFaults : public VerbsRanks, public testing::WithParamInterface<std::pair<int, int>> {
 protected:
  Environment environment_{{{"WREATH_IB_QUEUE_PAIRS", std::to_string(GetParam().first)},
                            {"WREATH_RAILS", std::to_string(GetParam().second)},
                            {"WREATH_IB_TIMEOUT", "8"},
                            {"WREATH_BUFFER_BYTES", "1M"}}};
};

TEST_P(VerbsFaults, GiveRightDataOrANamedError) {
  const int runs = rounds(kSanitized ? 16 : 40, 5'000);
  int failed = 0;
  for (int i = 1; i <= runs && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    make({});
    FaultyRun run(fake, static_cast<std::uint64_t>(i * 4 + GetParam().first));
    run.run();
    failed += run.failed() ? 1 : 0;
  }
  RecordProperty("failed_runs", failed);
  if (HasFailure()) return;
  EXPECT_GT(failed, runs / 50);
  EXPECT_LT(failed, runs * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(QueuePairs, VerbsFaults, testing::Values(std::pair(1, 1), std::pair(4, 1), std::pair(1, 2)));

class VerbsLosses : public VerbsRanks {
 protected:
  static LocalRanks ranks_with(std::int64_t stall_ms) {
    CommunicatorOptions options = VerbsRanks::options();
    options.timeouts.stall_ms = stall_ms;
    return {2, options};
  }
};

TEST_F(VerbsLosses, ThatNoConnectionMendsEndWithinTheStallTimeout) {
  LocalRanks ranks = ranks_with(700);
  fake.set_port(1, 1, false);
  ranks.run([&](Communicator& communicator) {
    std::int32_t value = 1;
    const Status status = communicator.all_reduce(std::span(&value, 1));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::PeerLost);
    EXPECT_THAT(status.error().message, ContainsRegex("fake_[01] port 1 to rank [01]: "));
    EXPECT_THAT(status.error().message, HasSubstr("no new connection within 700 ms"));
  });
}

class VerbsLossesBetweenCalls : public VerbsLosses, public testing::WithParamInterface<bool> {};

// The sender's program does something else meanwhile, and the receiver waits.
TEST_P(VerbsLossesBetweenCalls, AreMendedOrToldToTheReceiver) {
  constexpr int kNoAnswer = 12;
  constexpr int kNotRegistered = 4;
  LocalRanks ranks = ranks_with(5'000 * kSlower);
  FakeBehaviour behaviour;
  behaviour.paused = true;
  fake.behave(&behaviour);
  std::latch over(1);
  ranks.run([&](Communicator& communicator) {
    std::int32_t value = 7 * (1 - communicator.rank());
    if (communicator.rank() == 0) {
      const Status sent = communicator.send(std::span<const std::int32_t>(&value, 1), 1);
      EXPECT_TRUE(sent) << sent.error().message;
      fake.fail_request(0, GetParam() ? kNoAnswer : kNotRegistered);
      behaviour.paused = false;
      fake.behave(&behaviour);
      over.wait();
      return;
    }
    const Status received = communicator.recv(std::span(&value, 1), 0);
    over.count_down();
    EXPECT_EQ(static_cast<bool>(received), GetParam());
    EXPECT_EQ(value, GetParam() ? 7 : 0);
    if (!received) {
      EXPECT_THAT(received.error().message, HasSubstr("fake_0 port 1 to rank 1: "));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(NewConnections, VerbsLossesBetweenCalls, testing::Bool());

}  // namespace
}  // namespace wreath::test
