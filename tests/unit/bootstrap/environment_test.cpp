// Tests jobs that a launcher describes in the environment.
#include "wreath/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "tests/support/ports.hpp"
#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using test::Ports;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kKey(64, '7');

// Sets up a clean environment, a home without a key, and ports that nobody else uses.
class EnvironmentJobs : public ::testing::Test {
 protected:
  Result<Membership> start(int rank, int ranks, std::int64_t timeout_ms = 20'000) {
    return join_environment({rank, ranks, "test"}, request(rank, ranks, timeout_ms));
  }
  static Fd occupy(std::uint16_t port) { return std::move(listen_on(SocketAddress::loopback(AF_INET, port)).value()); }

  Ports ports_;
  // One port below it is free, too.
  std::uint16_t port_ = static_cast<std::uint16_t>(ports_.first() + 1);
  Folder home_;
  Environment clean_{{{"HOME", home_.path()},
                      {"WREATH_KEY", ""},
                      {"WREATH_KEY_FILE", ""},
                      {"WREATH_INSECURE", ""},
                      {"WREATH_PORT", ""},
                      {"NCCL_HOSTID", ""},
                      {"RANK", "0"},
                      {"WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", std::to_string(port_)}}};
};

TEST_F(EnvironmentJobs, AreAloneWithoutVariables) {
  const Environment none{{{"RANK", ""}, {"WORLD_SIZE", ""}, {"MASTER_ADDR", ""}, {"MASTER_PORT", ""}}};
  const auto job = environment_job();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank, 0);
  EXPECT_EQ(job->ranks, 1);
  auto alone = start(0, 1);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->members.size(), 1U);
  EXPECT_FALSE(alone->control[0]);
}

TEST_F(EnvironmentJobs, AreReadFromTheirVariables) {
  const Environment third{{{"RANK", "3"}, {"WORLD_SIZE", "8"}}};
  const auto job = environment_job();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->rank, 3);
  EXPECT_EQ(job->ranks, 8);
  EXPECT_THAT(job->source, HasSubstr("torchrun"));
}

TEST_F(EnvironmentJobs, NameTheVariableThatIsMissing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    const Environment without{{{name, ""}}};
    const auto job = environment_job();
    ASSERT_FALSE(job) << name;
    EXPECT_THAT(job.error().message, HasSubstr(std::string(name) + " is not set"));
  }
}

TEST_F(EnvironmentJobs, NameTheVariableThatIsMalformed) {
  const std::vector<std::pair<std::string, std::string>> bad{
      {"RANK", "-1"},         {"RANK", "one"},      {"RANK", "1x"},           {"RANK", "2"},       {"WORLD_SIZE", "0"},
      {"WORLD_SIZE", "many"}, {"MASTER_PORT", "0"}, {"MASTER_PORT", "70000"}, {"WREATH_PORT", "x"}};
  for (const auto& [name, value] : bad) {
    const Environment wrong{{{name, value}}};
    const auto job = environment_job();
    ASSERT_FALSE(job) << name << '=' << value;
    EXPECT_EQ(job.error().code, ErrorCode::InvalidArgument);
    EXPECT_THAT(job.error().message, AllOf(HasSubstr(name), HasSubstr(value)));
  }
}

TEST_F(EnvironmentJobs, WithoutAKeyMeetOverUnixSocketsOnly) {
  const DescriptorCount before;
  {
    const Fd tcp = occupy(port_);
    const auto results = join_all(4, [&](int rank) { return start(rank, 4); });
    for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(local_address(results[0]->control[3].get()).is_unix());
    EXPECT_FALSE(wait_for(tcp.get(), POLLIN, Deadline::after_ms(0)));
  }
  EXPECT_TRUE(before.settles());
}

TEST_F(EnvironmentJobs, WithAKeyMeetOverTcp) {
  const DescriptorCount before;
  {
    const Environment key{{{"WREATH_KEY", kKey}}};
    const auto results = join_all(4, [&](int rank) { return start(rank, 4); });
    for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(results[2]->settings, "settings of rank 0");
  }
  EXPECT_TRUE(before.settles());
}

TEST_F(EnvironmentJobs, PassPortsThatAreInUse) {
  const Environment key{{{"WREATH_KEY", kKey}}};
  // The listener accepts nobody, like a launcher's store that says nothing.
  const Fd silent = occupy(port_);
  const Fd second = occupy(static_cast<std::uint16_t>(port_ + 1));
  const auto results = join_all(3, [&](int rank) { return start(rank, 3); });
  for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
}

// Rank 0 must not take its own listener for that of another job, port by port.
TEST_F(EnvironmentJobs, MayNameAnAddressTwice) {
  const Environment twice{{{"WREATH_KEY", kKey}, {"WREATH_ADDRESS", "127.0.0.1,127.0.0.1"}}};
  const std::int64_t begun = now_ns();
  const auto results = join_all(2, [&](int rank) { return start(rank, 2); });
  for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
  EXPECT_LT((now_ns() - begun) / kNsPerMs, 2'000);
}

TEST_F(EnvironmentJobs, UseWreathPortAlone) {
  const Environment key{{{"WREATH_KEY", kKey}, {"WREATH_PORT", std::to_string(port_ + 18)}}};
  const auto results = join_all(2, [&](int rank) { return start(rank, 2); });
  for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
  const Fd taken = occupy(static_cast<std::uint16_t>(port_ + 18));
  EXPECT_THAT(start(0, 2).error().message, HasSubstr(std::to_string(port_ + 18)));
}

using Variables = std::vector<std::pair<std::string, std::string>>;

Variables by_slurm(const Variables& more) {
  Variables all{{"RANK", ""},           {"WORLD_SIZE", ""},    {"MASTER_ADDR", ""},
                {"MASTER_PORT", ""},    {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"},
                {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NODELIST", "n[0-1]"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Ranks of several hosts may be started in any way. The rank without a key says what is missing, where it belongs, and
// what makes it.
TEST_F(EnvironmentJobs, WithoutAKeyNameItWhateverStartedThem) {
  // The name is longer than any name that can be looked up.
  const std::string unknown(70, 'n');
  struct Situation {
    Variables variables;
    std::string words;
  };
  const std::vector<Situation> situations{
      {{{"MASTER_ADDR", "192.0.2.1"}}, "MASTER_ADDR=192.0.2.1 is another host, and this job has no key"},
      {{{"MASTER_ADDR", unknown}}, "WREATH_ADDRESS can name rank 0's host by an address; besides, this job has no key"},
      {{{"WREATH_RANK", "1"}, {"WREATH_RANKS", "2"}, {"WREATH_ADDRESS", "192.0.2.1"}},
       "WREATH_ADDRESS=192.0.2.1 is another host, and this job has no key"},
      {by_slurm({{"WREATH_ADDRESS", "192.0.2.1"}}), "WREATH_ADDRESS=192.0.2.1 is another host"},
      {by_slurm({{"WREATH_ADDRESS", "192.0.2.1"}, {"PMIX_RANK", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
       "WREATH_ADDRESS=192.0.2.1 is another host"},
      {by_slurm({{"SLURM_STEP_NODELIST", unknown + "[0-1]"}}),
       "[0-1] has several nodes, and this job has no key: srun --mpi=pmix and --mpi=pmi2 carry one; or set "
       "WREATH_FILE"}};
  for (const Situation& each : situations) {
    const Environment variables{each.variables};
    const auto result = start(1, 2);
    ASSERT_FALSE(result) << each.words;
    EXPECT_EQ(result.error().code, ErrorCode::StartupFailed);
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr(each.words), HasSubstr("run `wreath key` once"), HasSubstr("~/.config/wreath/key"),
                      HasSubstr("set WREATH_KEY_FILE"), HasSubstr("set WREATH_KEY "), HasSubstr("WREATH_INSECURE=1")));
  }
}

TEST_F(EnvironmentJobs, StartInsecurelyOnlyWhenAsked) {
  const Environment insecure{{{"WREATH_INSECURE", "1"}}};
  const auto results = join_all(2, [&](int rank) { return start(rank, 2); });
  for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
}

// Two jobs of one user have one key, and their port ranges overlap: the second job finds the first at its own first
// port.
TEST_F(EnvironmentJobs, DoNotJoinAnotherJob) {
  const Environment key{{{"WREATH_KEY", kKey}}};
  const auto lower = static_cast<std::uint16_t>(port_ - 1);
  const Fd taken = occupy(lower);
  Result<Membership> first = Error{ErrorCode::System, "not run"};
  std::thread waiting;
  {
    const Environment other_job{{{"MASTER_PORT", std::to_string(lower)}}};
    waiting = std::thread([&] { first = start(0, 2); });
    while (!connect_to(SocketAddress::loopback(AF_INET, port_), Deadline::after_ms(1000))) sleep_ms(5);
  }
  const auto second = join_all(2, [&](int rank) { return start(rank, 2); });
  for (const auto& result : second) EXPECT_TRUE(result) << result.error().message;
  {
    const Environment other_job{{{"MASTER_PORT", std::to_string(lower)}}};
    EXPECT_TRUE(start(1, 2));
  }
  waiting.join();
  EXPECT_TRUE(first) << first.error().message;
}

// Returns the places where jobs meet on this machine: names of UNIX sockets, by inode.
std::map<std::string, std::string> meeting_names() {
  std::map<std::string, std::string> names;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const std::size_t at = line.find(" @wreath-job-");
    if (at != std::string::npos)
      names[line.substr(line.rfind(' ', at - 1) + 1, at - line.rfind(' ', at - 1) - 1)] = line.substr(at + 2);
  }
  return names;
}

// Returns the name of the meeting that this process serves, or an empty text where it serves none.
std::string own_meeting_name() {
  const auto names = meeting_names();
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!target.starts_with("socket:[")) continue;
    const auto found = names.find(target.substr(8, target.size() - 9));
    if (found != names.end()) return found->second;
  }
  return {};
}

// Waits until this process serves no meeting. A failed meeting stays for a while, to give late ranks the reason.
void await_no_meeting() {
  while (!own_meeting_name().empty()) sleep_ms(1);
}

TEST_F(EnvironmentJobs, WithoutAKeyNameItWhereTheyWaitedInVain) {
  EXPECT_THAT(start(1, 2, 200).error().message, AllOf(HasSubstr("rank 1 found no meeting point"),
                                                      HasSubstr("ranks of several hosts need one: run `wreath "
                                                                "key` once, and see WREATH_KEY_FILE")));
  EXPECT_THAT(start(0, 2, 500).error().message,
              AllOf(HasSubstr("rank 1 of 2 did not arrive"), HasSubstr("which `wreath key` makes")));
  await_no_meeting();
}

// The machine is like one under a Slurm whose nodes share it and its loopback address.
TEST_F(EnvironmentJobs, WithoutAKeyNameItWhereSeveralHostsMetAtASocketOfOne) {
  struct Situation {
    Variables variables;
    std::vector<std::string> words;
  };
  const std::vector<std::string> no_key{"this job has no key: ", "run `wreath key` once", "WREATH_KEY_FILE"};
  const Variables by_hand{{"WREATH_RANK", "1"}, {"WREATH_RANKS", "2"}};
  Variables with_key = by_hand;
  with_key.emplace_back("WREATH_KEY", kKey);
  const std::vector<Situation> situations{
      {by_slurm({{"WREATH_ADDRESS", "127.0.0.1"}}), no_key},
      {{{"MASTER_ADDR", "127.0.0.1"}}, no_key},
      {by_hand, {"this job has no key: ", "besides, WREATH_ADDRESS must name rank 0's host"}},
      {with_key, {"all are said to be on one host: WREATH_ADDRESS must name rank 0's host on each rank"}}};
  for (const Situation& each : situations) {
    const Environment variables{each.variables};
    std::string first;
    std::jthread zero([&] { first = start(0, 2).error().message; });
    while (own_meeting_name().empty()) sleep_ms(1);
    {
      const Environment other_host{{{"NCCL_HOSTID", "elsewhere"}}};
      const auto second = start(1, 2);
      ASSERT_FALSE(second) << each.words[0];
      zero.join();
      for (const std::string& words : each.words) {
        EXPECT_THAT(second.error().message, HasSubstr(words));
        EXPECT_THAT(first, HasSubstr(words));
      }
    }
    await_no_meeting();
  }
}

TEST_F(EnvironmentJobs, RefuseARequestForAnotherRank) { EXPECT_FALSE(join_environment({0, 2, "test"}, request(1, 2))); }

}  // namespace
}  // namespace wreath
