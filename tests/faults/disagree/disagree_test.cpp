// Ranks that do not make the same calls at the same time: every rank learns what differs, within the clocks.
#include <deque>
#include <functional>
#include <regex>

#include "tests/support/processes.hpp"
#include "wreath/recording.hpp"

namespace wreath::testing_support {
namespace {

// Waits until the peers have failed, too: a rank that ends is another story than one that disagrees.
int fail_and_stay(Child& child, const Status& status) {
  const int code = child.failed(status.error());
  child.command();
  return code;
}

// One warm-up call, then: count, dtype, calls, leave (destroys at once) and stay (enters nothing) as told.
WREATH_ROLE(differ) {
  auto made = child.create();
  if (!made) return child.failed(made.error());
  auto communicator = std::make_unique<Communicator>(std::move(*made));
  std::vector<std::byte> buffer(8 << 20);
  const auto count = static_cast<std::size_t>(child.number("count"));
  const auto dtype = static_cast<DataType>(child.number("dtype", static_cast<int>(DataType::Float32)));
  if (const Status first = communicator->all_reduce(buffer.data(), buffer.data(), 100, DataType::Int32); !first) {
    return fail_and_stay(child, first);
  }
  child.report("warm");
  const std::string go = child.command();
  if (go == "leave") {
    communicator.reset();
    child.report("left");
    child.command();
    return 0;
  }
  if (go == "stay") {
    eventually(30'000, [&] { return !communicator->error(); });
    return fail_and_stay(child, communicator->error());
  }
  for (std::int64_t call = 0; call < child.number("calls", 1); ++call) {
    if (const Status status = communicator->all_reduce(buffer.data(), buffer.data(), count, dtype); !status) {
      return fail_and_stay(child, status);
    }
  }
  child.report("done");
  child.command();
  return 0;
}

Deadline within_ms(std::int64_t ms) { return Deadline::after_ms(ms * kSlower); }

using PerRank = std::function<Arguments(int)>;

// Of a small and of a large message, whose ranks learn of a failure in different ways.
const std::string kCounts[] = {"10", "1000000"};

// Processes with arguments that differ by rank.
class Ranks {
 public:
  Ranks(int ranks, const std::string& transport, const PerRank& arguments_of) {
    for (int rank = 0; rank < ranks; ++rank) {
      Arguments arguments = arguments_of(rank);
      arguments["rank"] = std::to_string(rank);
      arguments["ranks"] = std::to_string(ranks);
      arguments["transport"] = transport;
      arguments.merge(short_clocks());
      processes_.push_back(RankProcess::start("differ", arguments, {{"WREATH_RECORDER_DIR", folder_.path()}},
                                              folder_ / ("log-" + std::to_string(rank))));
    }
    EXPECT_TRUE(processes_[0].wait_for("id ", 20'000 * kSlower));
    for (std::size_t rank = 1; rank < processes_.size(); ++rank) processes_[rank].command(processes_[0].lines().back());
    for (RankProcess& process : processes_) EXPECT_TRUE(process.wait_for("warm", 20'000 * kSlower)) << process.log();
  }
  RankProcess& operator[](int rank) { return processes_[static_cast<std::size_t>(rank)]; }
  int count() const { return static_cast<int>(processes_.size()); }
  const Folder& folder() const { return folder_; }

  // The error of each rank, which must come in time, in the documented form and with the exit code.
  void expect_all(ErrorCode code, const Deadline& deadline, const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      EXPECT_TRUE((*this)[rank].wait_for("error ", deadline.left_ms())) << "rank " << rank << " said nothing in time";
    }
    for (const int rank : ranks) {
      const auto failure = (*this)[rank].failure();
      if (!failure) continue;
      EXPECT_EQ(failure->code, code) << failure->message;
      const std::regex form("rank " + std::to_string(rank) +
                            R"( \(host [^ ]+, pid \d+\): (after )?all_reduce #\d+ \w+ x \d+: )" +
                            std::string(name(code)) + ": .+");
      EXPECT_TRUE(std::regex_match(failure->message, form)) << failure->message;
    }
    for (const int rank : ranks) {
      (*this)[rank].command("end");
      EXPECT_EQ((*this)[rank].join(10'000), exit_code(code));
    }
  }
  // What every rank said must contain `text`.
  void expect_said(const std::string& text, const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      const auto failure = (*this)[rank].failure();
      const std::string message = failure ? failure->message : "nothing";
      EXPECT_NE(message.find(text), std::string::npos) << message;
    }
  }

 private:
  Folder folder_;
  std::vector<RankProcess> processes_;
};

class Disagree : public ::testing::TestWithParam<std::string> {
 protected:
  void mismatch(const PerRank& arguments_of, const std::string& one, const std::string& other) {
    Ranks ranks(3, GetParam(), arguments_of);
    for (int rank = 0; rank < 3; ++rank) ranks[rank].command("go");
    ranks.expect_all(ErrorCode::Mismatch, within_ms(2'000), {0, 1, 2});
    ranks.expect_said(one, {0, 1, 2});
    ranks.expect_said(other, {0, 1, 2});
  }
};

TEST_P(Disagree, OnTheCountOfSmallMessages) {
  mismatch(
      [](int rank) {
        return Arguments{{"count", rank == 1 ? "101" : "100"}};
      },
      "all_reduce #2 float32 x 100", "all_reduce #2 float32 x 101");
}
TEST_P(Disagree, OnTheCountOfLargeMessages) {
  mismatch(
      [](int rank) {
        return Arguments{{"count", rank == 2 ? "1000001" : "1000000"}};
      },
      "all_reduce #2 float32 x 1000000", "all_reduce #2 float32 x 1000001");
}
TEST_P(Disagree, OnASmallAndALargeMessage) {
  mismatch(
      [](int rank) {
        return Arguments{{"count", rank == 0 ? "1" : "1000000"}};
      },
      "called all_reduce #2 float32 x 1000000", "rank 0 (");
}
// A call of nothing is over at once; its next one fails.
TEST_P(Disagree, OnWhetherThereIsAnything) {
  Ranks ranks(3, GetParam(), [](int rank) { return Arguments{{"count", rank == 0 ? "0" : "1000"}}; });
  for (int rank = 0; rank < 3; ++rank) ranks[rank].command("go");
  ranks.expect_all(ErrorCode::Mismatch, within_ms(2'000), {1, 2});
  ranks.expect_said("all_reduce #2 float32 x 0", {1, 2});
  ranks.expect_said("all_reduce #2 float32 x 1000", {1, 2});
}
TEST_P(Disagree, OnTheDataType) {
  const std::string other = std::to_string(static_cast<int>(DataType::Int32));
  const std::string most = std::to_string(static_cast<int>(DataType::Float32));
  mismatch(
      [&](int rank) {
        return Arguments{{"count", "5000"}, {"dtype", rank == 2 ? other : most}};
      },
      "all_reduce #2 float32 x 5000", "all_reduce #2 int32 x 5000");
}

// One rank makes a call more: to the others it is one that they never enter, until they leave.
TEST_P(Disagree, OnHowManyCallsThereAre) {
  Ranks ranks(3, GetParam(), [](int rank) { return Arguments{{"count", "5000"}, {"calls", rank == 1 ? "2" : "1"}}; });
  for (int rank = 0; rank < 3; ++rank) ranks[rank].command("go");
  ASSERT_TRUE(ranks[1].wait_for("error ", 5'000 * kSlower));
  const auto failure = ranks[1].failure();
  EXPECT_EQ(failure->code, ErrorCode::Timeout) << failure->message;
  EXPECT_NE(failure->message.find("all_reduce #3 float32 x 5000"), std::string::npos) << failure->message;
  EXPECT_NE(failure->message.find("has not entered"), std::string::npos) << failure->message;
  EXPECT_NE(ranks[1].log().find("warning"), std::string::npos) << ranks[1].log();
}

TEST_P(Disagree, WhenOneLeavesEarly) {
  for (const std::string& count : kCounts) {
    Ranks ranks(3, GetParam(), [&](int) { return Arguments{{"count", count}}; });
    ranks[2].command("leave");
    EXPECT_TRUE(ranks[2].wait_for("left", 5'000 * kSlower));
    ranks[0].command("go");
    ranks[1].command("go");
    ranks.expect_all(ErrorCode::PeerLost, within_ms(1'000), {0, 1});
    ranks.expect_said("rank 2 (", {0, 1});
  }
}

TEST_P(Disagree, WhenOneNeverEnters) {
  std::deque<Ranks> jobs;  // their clocks run side by side
  for (const std::string& count : kCounts)
    jobs.emplace_back(3, GetParam(), [&](int) { return Arguments{{"count", count}}; });
  for (Ranks& ranks : jobs) {
    ranks[1].command("stay");
    ranks[0].command("go");
    ranks[2].command("go");
  }
  const Deadline deadline = within_ms(kClockMs * 19 / 10);
  for (Ranks& ranks : jobs) {
    ranks.expect_all(ErrorCode::Timeout, deadline, {0, 1, 2});
    ranks.expect_said("rank 1 (", {0, 1, 2});
    ranks.expect_said("has not entered the call within " + std::to_string(kClockMs) + " ms", {0, 1, 2});
    EXPECT_NE((ranks[0].log() + ranks[2].log()).find("wreath: warning: rank "), std::string::npos) << ranks[0].log();
  }
}

// The stopped rank may find all it needs for call #2, but not for #3.
TEST_P(Disagree, WhenOneIsStopped) {
  std::deque<Ranks> jobs;  // their clocks run side by side
  for (const std::string& count : kCounts) {
    jobs.emplace_back(3, GetParam(), [&](int) { return Arguments{{"count", count}, {"calls", "2"}}; });
  }
  for (Ranks& ranks : jobs) {
    ranks[1].signal(SIGSTOP);
    ranks[0].command("go");
    ranks[2].command("go");
  }
  const Deadline deadline = within_ms(kClockMs * 9 / 4);
  for (Ranks& ranks : jobs) {
    ranks.expect_all(ErrorCode::Timeout, deadline, {0, 2});
    ranks.expect_said("rank 1 (", {0, 2});
    for (const int rank : {0, 2}) EXPECT_EQ(ranks[rank].failure()->failed_rank, 1);
    ranks[1].signal(SIGCONT);
    ranks[1].command("go");
    EXPECT_TRUE(ranks[1].wait_for("error ", 3'000 * kSlower)) << "the continued rank learns nothing";
  }
}

TEST_P(Disagree, AndTheRecordingsTellWho) {
  Ranks ranks(3, GetParam(), [](int rank) { return Arguments{{"count", rank == 2 ? "900" : "800"}}; });
  for (int rank = 0; rank < 3; ++rank) ranks[rank].command("go");
  ranks.expect_all(ErrorCode::Mismatch, within_ms(2'000), {0, 1, 2});
  std::vector<Recording> recordings;
  for (int rank = 0; rank < 3; ++rank) {
    auto recording = read_recording(ranks.folder() / ("wreath-" + std::to_string(rank) + ".json"));
    ASSERT_TRUE(recording) << recording.error().message;
    recordings.push_back(std::move(*recording));
  }
  const auto told = diagnose(recordings);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].finding, Finding::Mismatch);
  EXPECT_EQ(told[0].number, 2u);
  EXPECT_EQ(told[0].culprits, std::vector<Rank>{2});
}

INSTANTIATE_TEST_SUITE_P(Over, Disagree, ::testing::Values("shm", "tcp"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath::testing_support
