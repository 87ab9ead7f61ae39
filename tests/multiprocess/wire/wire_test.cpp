// Tests a network that loses packets, goes away and comes back, or loses a host. A rank is not called dead for a fault
// of the network, but a host that is gone is named. With WREATH_TEST_LONG=1 jobs live for minutes.
#include "tests/support/wire.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>

#include "tests/multiprocess/hosts/job.hpp"
#include "tests/support/network.hpp"

namespace wreath::testing_support::wired {
namespace {

using hosts::Job;
using hosts::kKey;

constexpr int kHosts = 3;

// Makes calls all the time, or none between the first and the last one, until every rank got the command to end.
WREATH_ROLE(on_wire) {
  if (!Network::enter(child.text("host"))) return 98;
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  const bool idle = child.text("work") == "idle";
  const int ranks = communicator->ranks();
  bool told = false;
  for (int call = 0;; ++call) {
    std::vector<std::int32_t> told_ranks(call % 8 == 7 ? 100'000 : 16, told ? 1 : 0);
    const Status status = communicator->all_reduce(std::span<std::int32_t>(told_ranks));
    if (!status) return child.failed(status.error());
    if (told_ranks.front() != told_ranks.back() || told_ranks.front() > ranks) return 1;
    if (told_ranks.front() == ranks) return 0;
    if (call == 0) child.report("running");
    while (!told) {
      told = child.command(idle ? 50 : 2) == "end";
      if (const Status health = communicator->error(); !health) return child.failed(health.error());
      if (!idle) break;
    }
  }
}

// Leaves as soon as its own part of a call is done.
WREATH_ROLE(leaves_on_wire) {
  if (!Network::enter(child.text("host"))) return 98;
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  std::vector<std::int32_t> numbers(100'000);
  for (int call = 0; call < 2; ++call) {
    std::ranges::fill(numbers, communicator->rank() == 0 ? 7 : 0);
    if (call == 1) {
      child.report("running");
      child.command();
    }
    const Status status = communicator->broadcast(std::span<std::int32_t>(numbers), 0);
    if (!status) return child.failed(status.error());
    if (!std::ranges::all_of(numbers, [](std::int32_t number) { return number == 7; })) return 1;
  }
  return 0;
}

// A job whose hosts have a wire of their own.
struct WiredJob {
  explicit WiredJob(const std::string& what) : name(what), wire(kHosts) {}
  void start(const std::string& role, const std::string& work) {
    job =
        std::make_unique<Job>(wire, kHosts, kKey, Arguments{{"role", role}, {"work", work}, {"bootstrap_ms", "30000"}});
  }
  bool runs() {
    return std::ranges::all_of(job->ranks(),
                               [](RankProcess& rank) { return rank.wait_for("running", 30'000 * kSlower); });
  }
  // Sends all ranks the command to end, and expects them to end well.
  void expect_to_end_well() {
    for (const RankProcess& rank : job->ranks()) rank.command("end");
    for (RankProcess& rank : job->ranks())
      EXPECT_EQ(rank.join(30'000 * kSlower), 0) << name << ": " << Job::said(rank) << "\n" << wire.counts();
  }
  void expect_to_name(int host, const Deadline& deadline) {
    for (int rank = 0; rank < 2 * kHosts; ++rank) {
      if (rank / 2 == host) continue;
      RankProcess& process = job->ranks()[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(process.wait_for("error ", deadline.left_ms()))
          << name << ": rank " << rank << " said nothing within 10 s";
      const auto failure = process.failure();
      EXPECT_EQ(failure->code, ErrorCode::PeerLost) << name << ": " << failure->message;
      EXPECT_EQ(failure->failed_rank / 2, host) << name << ": " << failure->message;
    }
  }

  std::string name;
  Wire wire;
  std::unique_ptr<Job> job;
};

using WiredJobs = std::vector<std::unique_ptr<WiredJob>>;

// Starts a running job for each name, whose first word is "idle" or "busy". Returns none where no wires can be made.
WiredJobs jobs_named(const std::vector<std::string>& names, const std::string& role = "on_wire") {
  WiredJobs jobs;
  for (const std::string& name : names) {
    jobs.push_back(std::make_unique<WiredJob>(name));
    if (!jobs.back()->wire.made()) return {};
  }
  for (const auto& job : jobs) job->start(role, job->name.substr(0, 4));
  for (const auto& job : jobs) EXPECT_TRUE(job->runs()) << job->name;
  return jobs;
}

// Runs a job over a wire that carries so much of each connection, each way, and returns how much its calls carried at
// the end. `said` gets the logs and the ways.
int carried(const std::string& flow, const Arguments& environment, const std::string& seconds, std::string& said) {
  Wire wire(2);
  if (!wire.made()) return -1;
  wire.tell("flow " + flow);
  Arguments all = hosts::with_key(environment, {{"WREATH_DEBUG", "INFO"}});
  Job job(wire, 2, all, {{"role", "for_seconds"}, {"seconds", seconds}, {"bootstrap_ms", "30000"}});
  job.expect_to_end_well();
  int megabytes = 0;
  for (const RankProcess& rank : job.ranks()) {
    said += rank.log();
    for (const std::string& line : rank.lines()) {
      if (line.starts_with("over ")) said += line + "\n";
      if (line.starts_with("carried ")) megabytes = std::max(megabytes, std::stoi(line.substr(8)));
    }
  }
  return megabytes;
}

// A network that limits each connection carries more over several. A busy machine may carry less over any, so only a
// long run compares how much.
TEST(Wire, CarriesMoreOverSeveralSocketsIfItLimitsEach) {
  std::string of_one;
  const int one = carried("8", {{"WREATH_TCP_SOCKETS", "1"}}, "4", of_one);
  if (one < 0) GTEST_SKIP() << Wire::kNeeds;
  std::string said;
  const int found = carried("8", {}, "24", said);
  std::cerr << "one socket: " << one << " MB/s, as many as gain: " << found << " MB/s\n" << said;
  EXPECT_GE(found * 10, rounds(0, one * 14));
  EXPECT_THAT(said, ::testing::ContainsRegex(
                        "tcp link to rank [0-3]: 2 sockets carried [0-9.]+ times as much as 1: it uses 2 from now on"));
  EXPECT_THAT(said, ::testing::ContainsRegex("over .*tcp over tun0 .(2|4) sockets"));
  EXPECT_THAT(of_one, ::testing::Not(::testing::HasSubstr("sockets carried")));
}

TEST(Wire, CarriesAsManyTimesAsMuchAsThereAreSockets) {
  if (rounds(0, 1) == 0) GTEST_SKIP() << "a busy machine carries less; run it with WREATH_TEST_LONG=1";
  std::string said;
  const int one = carried("8", {{"WREATH_TCP_SOCKETS", "1"}}, "6", said);
  if (one < 0) GTEST_SKIP() << Wire::kNeeds;
  const int three = carried("8", {{"WREATH_TCP_SOCKETS", "3"}}, "6", said);
  std::cerr << "8 MB/s a connection; one socket: " << one << " MB/s, three: " << three << " MB/s\n" << said;
  // Other long tests run beside it.
  EXPECT_GE(three, 2 * one);
}

TEST(Wire, LosesPackets) {
  std::vector<std::string> names;
  const std::vector<std::string> shares{"0.001", "0.01", "0.05"};
  for (const std::string& share : shares) {
    names.insert(names.end(), static_cast<std::size_t>(rounds(1, 5)), "idle, loss " + share);
    names.push_back("busy, loss " + share);
  }
  const WiredJobs jobs = jobs_named(names);
  if (jobs.empty()) GTEST_SKIP() << Wire::kNeeds;
  for (const auto& job : jobs) job->wire.tell(job->name.substr(6));
  sleep_ms(rounds(12'000, 60'000));
  for (const auto& job : jobs) {
    if (job->name.starts_with("busy")) job->expect_to_end_well();
  }
  sleep_ms(rounds(0, 240'000));
  for (const auto& job : jobs) {
    if (job->name.starts_with("idle")) job->expect_to_end_well();
  }
}

TEST(Wire, LosesTheLastPacketsOfARankThatLeaves) {
  for (int round = 0; round < rounds(1, 20); ++round) {
    const WiredJobs jobs = jobs_named(std::vector<std::string>(6, "once, loss 0.1"), "leaves_on_wire");
    if (jobs.empty()) GTEST_SKIP() << Wire::kNeeds;
    for (const auto& job : jobs) job->wire.tell(job->name.substr(6));
    for (const auto& job : jobs) job->expect_to_end_well();
  }
}

TEST(Wire, IsAwayForSeconds) {
  const WiredJobs jobs =
      jobs_named({"idle, 1200", "idle, 3000", "idle, 5000", "busy, 1200", "busy, 3000", "busy, 5000"});
  if (jobs.empty()) GTEST_SKIP() << Wire::kNeeds;
  for (int outage = 0; outage < rounds(1, 5); ++outage) {
    const std::int64_t start_ns = now_ns();
    for (const auto& job : jobs) job->wire.tell("cut 1");
    for (const int away_ms : {1200, 3000, 5000}) {
      sleep_ms(away_ms - (now_ns() - start_ns) / kNsPerMs);
      for (const auto& job : jobs) {
        if (job->name.ends_with(", " + std::to_string(away_ms))) job->wire.tell("join 1");
      }
    }
    sleep_ms(rounds(1'000, 10'000));
  }
  for (const auto& job : jobs) job->expect_to_end_well();
}

TEST(Wire, LosesAHost) {
  const WiredJobs jobs = jobs_named({"idle, loss 0", "busy, loss 0", "idle, loss 0.05", "busy, loss 0.05"});
  if (jobs.empty()) GTEST_SKIP() << Wire::kNeeds;
  for (const auto& job : jobs) job->wire.tell(job->name.substr(6));
  sleep_ms(500);
  for (const auto& job : jobs) job->wire.tell("cut 2");
  const Deadline deadline = Deadline::after_ms(10'000 * kSlower);
  for (const auto& job : jobs) job->expect_to_name(2, deadline);
}

}  // namespace
}  // namespace wreath::testing_support::wired
