// Sends and receives that do not match, come late or never: both ends learn which call it is, within the clocks.
#include <regex>

#include "tests/support/processes.hpp"
#include "wreath/recording.hpp"
#include "wreath/wreath.hpp"

namespace wreath::testing_support {
namespace {

constexpr std::size_t kMostBytes = 16 << 20;
const std::string kClock = std::to_string(kClockMs);

// "send 1 100 float32 recv 2 50 int32": those calls, in a group where they are several.
Status make_calls(Communicator& communicator, const std::string& text) {
  std::vector<std::vector<std::byte>> buffers;
  std::istringstream words(text);
  std::string word;
  Rank peer = 0;
  std::size_t count = 0;
  std::string dtype;
  std::optional<Group> group;
  if (std::count(text.begin(), text.end(), ' ') > 3) group.emplace();
  Status status;
  while (status && words >> word >> peer >> count >> dtype) {
    std::byte* data = buffers.emplace_back(kMostBytes).data();
    const DataType type = parse_dtype(dtype).value();
    status = word == "send" ? communicator.send(data, count, type, peer) : communicator.recv(data, count, type, peer);
  }
  return status && group ? group->run() : status;
}

// Does what it is told until "end"; the first error is reported and ends it when the parent has read it.
WREATH_ROLE(exchanging) {
  auto made = child.create();
  if (!made) return child.failed(made.error());
  auto communicator = std::make_unique<Communicator>(std::move(*made));
  child.report("ready");
  for (;;) {
    const std::string command = child.command();
    if (command.empty() || command == "end") return 0;
    if (command == "leave") {
      communicator.reset();
      child.report("left");
      continue;
    }
    Status status;
    std::vector<std::int32_t> values(1000, 1);
    if (command == "stay") {
      eventually(30'000, [&] { return !communicator->error(); });
      status = communicator->error();
    } else if (command == "all_reduce") {
      status = communicator->all_reduce(std::span(values));
    } else {
      status = make_calls(*communicator, command);
    }
    if (!status) {
      const int code = child.failed(status.error());
      child.command();
      return code;
    }
    child.report("done");
  }
}

class Exchanging : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(job_.share_id());
    ASSERT_TRUE(job_.all_report("ready", 20'000 * kSlower)) << job_.logs();
  }
  void tell(const std::vector<std::string>& commands) {
    for (std::size_t rank = 0; rank < commands.size(); ++rank) {
      if (!commands[rank].empty()) job_[static_cast<int>(rank)].command(commands[rank]);
    }
  }
  void expect_done(const std::vector<int>& ranks) {
    for (const int rank : ranks) EXPECT_TRUE(job_[rank].wait_for("done", 10'000 * kSlower)) << job_.logs();
  }
  // These ranks fail so within `ms`, naming `failed_rank` (-1: any) and saying all `texts`.
  void expect_failure(ErrorCode code, std::int64_t ms, const std::vector<int>& ranks, int failed_rank,
                      const std::vector<std::string>& texts) {
    const Deadline deadline = Deadline::after_ms(ms * kSlower);
    for (const int rank : ranks) {
      const bool known = job_[rank].failure().has_value();  // read while something else was waited for
      EXPECT_TRUE(known || job_[rank].wait_for("error ", deadline.left_ms())) << "rank " << rank << job_.logs();
      const auto failure = job_[rank].failure();
      if (!failure) continue;
      EXPECT_EQ(failure->code, code) << failure->message;
      EXPECT_TRUE(failed_rank < 0 || failure->failed_rank == failed_rank) << failure->message;
      for (const std::string& text : texts) {
        EXPECT_NE(failure->message.find(text), std::string::npos) << "'" << text << "' in " << failure->message;
      }
    }
    for (const int rank : ranks) job_[rank].command("end");
    for (const int rank : ranks) EXPECT_EQ(job_[rank].join(10'000), exit_code(code));
  }

  static Arguments arguments() {
    Arguments all = short_clocks();
    all["transport"] = GetParam();
    return all;
  }

  Job job_{"exchanging", 3, arguments()};
};

TEST_P(Exchanging, DisagreeOnTheCount) {
  tell({"send 1 100 float32", "recv 0 101 float32", "stay"});
  // Small ones are sent before they are taken, if the receiver is not quick enough to disagree first.
  if (job_[0].line(10'000 * kSlower) == "done") job_[0].command("stay");
  expect_failure(ErrorCode::Mismatch, 3'000, {1, 2, 0}, -1,
                 {"send #1 to rank 1 float32 x 100", "recv #1 from rank 0 float32 x 101"});
}

TEST_P(Exchanging, DisagreeOnTheCountOfALargeMessage) {
  tell({"send 1 1000000 float32 recv 1 5 int8", "recv 0 2000000 float32 send 0 5 int8", "stay"});
  expect_failure(ErrorCode::Mismatch, 3'000, {0, 1, 2}, -1,
                 {"send #1 to rank 1 float32 x 1000000", "recv #1 from rank 0 float32 x 2000000"});
}

TEST_P(Exchanging, DisagreeOnTheDataType) {
  tell({"send 1 5 float32 send 1 1000000 float32", "recv 0 5 float32 recv 0 1000000 int32", "stay"});
  expect_failure(ErrorCode::Mismatch, 3'000, {0, 1, 2}, -1,
                 {"send #2 to rank 1 float32 x 1000000", "recv #2 from rank 0 int32 x 1000000"});
}

// Nothing moves, and a question finds out why.
TEST_P(Exchanging, DisagreeOnWhetherThereIsAnything) {
  tell({"send 1 0 float32", "recv 0 100 float32", "stay"});
  expect_done({0});
  expect_failure(ErrorCode::Mismatch, 3'000, {1, 2}, -1,
                 {"send #1 to rank 1 float32 x 0", "recv #1 from rank 0 float32 x 100"});
}

TEST_P(Exchanging, WaitForASenderThatIsLate) {
  tell({"recv 2 5 int8 recv 1 100 float32", "stay", "send 0 5 int8"});
  expect_done({2});
  expect_failure(ErrorCode::Timeout, kClockMs * 9 / 4, {0, 1}, 1,
                 {"rank 1 (", "has not entered send #1 to rank 0 within " + kClock + " ms"});
  EXPECT_NE(job_[0].log().find("wreath: warning: rank 0"), std::string::npos) << job_[0].log();
}

TEST_P(Exchanging, WaitForAReceiverThatIsLate) {
  tell({"send 1 4000000 float32", "stay", ""});
  expect_failure(ErrorCode::Timeout, kClockMs * 9 / 4, {0, 1}, 1,
                 {"has not entered recv #1 from rank 0 within " + kClock + " ms"});
}

// Each would take the other's message after its own has gone.
TEST_P(Exchanging, SendToEachOtherFirst) {
  tell({"send 1 4000000 float32", "send 0 4000000 float32", "stay"});
  expect_failure(ErrorCode::Timeout, kClockMs * 9 / 4, {0, 1}, -1,
                 {"it waits in send #1 to rank ", "both ranks wait in a send for the other's recv, and a group"});
}

TEST_P(Exchanging, ReceiveFromEachOtherFirst) {
  tell({"recv 1 100 float32", "recv 0 100 float32", "stay"});
  expect_failure(ErrorCode::Timeout, kClockMs * 9 / 4, {0, 1}, -1,
                 {"it waits in recv #1 from rank ", "both ranks wait in a recv for the other's send, and a group"});
}

TEST_P(Exchanging, WaitForAPeerThatLeft) {
  tell({"", "leave", ""});
  ASSERT_TRUE(job_[1].wait_for("left", 5'000 * kSlower));
  tell({"recv 1 100 float32", "", "stay"});
  expect_failure(ErrorCode::PeerLost, 1'500, {0, 2}, 1, {"rank 1 ("});
}

TEST_P(Exchanging, TakeWhatAPeerSentBeforeItLeft) {
  tell({"", "send 0 1000 float32", ""});
  expect_done({1});
  tell({"", "leave", ""});
  ASSERT_TRUE(job_[1].wait_for("left", 5'000 * kSlower));
  tell({"recv 1 1000 float32", "", ""});
  expect_done({0});
}

TEST_P(Exchanging, LoseAPeer) {
  tell({"recv 1 100 float32", "", "stay"});
  sleep_ms(200);
  job_[1].signal(SIGKILL);
  expect_failure(ErrorCode::PeerLost, 1'000, {0, 2}, 1, {"rank 1 ("});
}

TEST_P(Exchanging, WaitForAPeerThatIsStopped) {
  job_[1].signal(SIGSTOP);
  tell({"recv 1 100 float32", "", "stay"});
  expect_failure(ErrorCode::Timeout, kClockMs * 9 / 4, {0, 2}, 1, {"rank 1 ("});
  job_[1].signal(SIGCONT);
}

// Calls of all ranks have numbers of their own: ranks without a part in an exchange do not count it.
TEST_P(Exchanging, AreNotCountedByOthers) {
  for (int turn = 0; turn < 3; ++turn) {
    tell({"send 1 100 float32 recv 1 7 float32", "recv 0 100 float32 send 0 7 float32", ""});
    expect_done({0, 1});
    tell({"all_reduce", "all_reduce", "all_reduce"});
    expect_done({0, 1, 2});
  }
}

TEST_P(Exchanging, AreRecorded) {
  tell({"all_reduce", "all_reduce", "all_reduce"});
  expect_done({0, 1, 2});
  tell({"recv 1 100 float32", "stay", "stay"});
  expect_failure(ErrorCode::Timeout, kClockMs * 9 / 4, {0, 1, 2}, 1, {"has not entered"});
  const auto recording = read_recording(job_.folder() / "wreath-0.json");
  ASSERT_TRUE(recording) << recording.error().message;
  ASSERT_EQ(recording->calls.size(), 1u);
  ASSERT_EQ(recording->exchanges.size(), 1u);
  EXPECT_EQ(recording->exchanges[0].collective, Collective::Exchange);
  EXPECT_EQ(recording->exchanges[0].state, CallState::Failed);
  EXPECT_EQ(recording->exchanges[0].root, 1);
  EXPECT_EQ(recording->exchanges[0].count, 100u);
}

INSTANTIATE_TEST_SUITE_P(Over, Exchanging, ::testing::Values("shm", "tcp"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath::testing_support
