// Tests which launcher's variables are used, and where its ranks meet.
#include "src/bootstrap/launched.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/base/ports.hpp"
#include "src/bootstrap/interfaces.hpp"
#include "src/bootstrap/meeting_file.hpp"
#include "tests/support/ports.hpp"
#include "tests/unit/bootstrap/helpers.hpp"

namespace wreath {
namespace {

using test::Ports;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = std::vector<std::pair<std::string, std::string>>;

// Sets up an environment without any launcher's variables and without a key.
class Launched : public ::testing::Test {
 protected:
  Folder home_;
  Environment clean_{{{"HOME", home_.path()},
                      {"RANK", ""},
                      {"WORLD_SIZE", ""},
                      {"LOCAL_RANK", ""},
                      {"MASTER_ADDR", ""},
                      {"MASTER_PORT", ""},
                      {"TORCHELASTIC_USE_AGENT_STORE", ""},
                      {"SLURM_PROCID", ""},
                      {"SLURM_STEP_ID", ""},
                      {"SLURM_STEP_NUM_TASKS", ""},
                      {"SLURM_NTASKS", ""},
                      {"SLURM_STEP_NODELIST", ""},
                      {"SLURM_JOB_NODELIST", ""},
                      {"SLURM_JOB_ID", ""},
                      {"OMPI_COMM_WORLD_RANK", ""},
                      {"OMPI_COMM_WORLD_SIZE", ""},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", ""},
                      {"SLURM_LOCALID", ""},
                      {"MPI_LOCALRANKID", ""},
                      {"PMI_RANK", ""},
                      {"PMI_SIZE", ""},
                      {"PMI_FD", ""},
                      {"PMIX_RANK", ""},
                      {"PMIX_NAMESPACE", ""},
                      {"WREATH_ADDRESS", ""},
                      {"WREATH_FILE", ""},
                      {"WREATH_KEY", ""}}};
};

const Variables kTorchrun{{"RANK", "2"},         {"WORLD_SIZE", "4"},      {"LOCAL_RANK", "1"},
                          {"MASTER_ADDR", "h0"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kSlurm{{"SLURM_PROCID", "3"},
                       {"SLURM_NTASKS", "8"},
                       {"SLURM_STEP_NUM_TASKS", "6"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_JOB_NODELIST", "n[0-3]"},
                       {"SLURM_STEP_NODELIST", "n[2-3]"},
                       {"SLURM_JOB_ID", "9041"}};

TEST_F(Launched, ByTorchrunMeetAfterItsPort) {
  const Environment torchrun{kTorchrun};
  const EnvironmentJob job = environment_job().value();
  EXPECT_EQ(job.rank, 2);
  EXPECT_EQ(job.ranks, 4);
  EXPECT_EQ(job.local_rank, 1);
  EXPECT_TRUE(job.launched);
  const Rendezvous where = rendezvous().value();
  EXPECT_THAT(where.hosts, ElementsAre("h0"));
  EXPECT_EQ(where.ports.front(), 29501) << "torchrun's own store is at 29500";
  EXPECT_EQ(where.ports.back(), 29515);
}

TEST_F(Launched, BySlurmMeetOnTheFirstNodeOfTheStep) {
  const Environment slurm{kSlurm};
  const EnvironmentJob job = environment_job().value();
  EXPECT_EQ(job.rank, 3);
  EXPECT_EQ(job.ranks, 6);
  EXPECT_THAT(job.source, HasSubstr("SLURM_PROCID"));
  const Rendezvous where = rendezvous().value();
  EXPECT_THAT(where.hosts, ElementsAre("n2"));
  EXPECT_EQ(where.ports.front(), 61001);
  EXPECT_THAT(where.job, AllOf(HasSubstr("9041"), HasSubstr("SLURM_STEP_ID=0")));
}

TEST_F(Launched, BySlurmUseWhatTheJobSaysWhereTheStepDoesNot) {
  const Environment slurm{kSlurm};
  const Environment no_step_list{{{"SLURM_STEP_NODELIST", ""}, {"SLURM_STEP_NUM_TASKS", ""}}};
  EXPECT_EQ(environment_job().value().ranks, 8);
  EXPECT_THAT(rendezvous().value().hosts, ElementsAre("n0"));
}

TEST_F(Launched, BySlurmOnOneNodeNeedNoName) {
  const Environment slurm{kSlurm};
  const Environment one_node{{{"SLURM_STEP_NODELIST", "n2"}}};
  EXPECT_TRUE(rendezvous().value().hosts.empty());
}

// The batch script of a job has SLURM_PROCID=0 and SLURM_NTASKS, but is no rank.
TEST_F(Launched, BySlurmWithoutAStepAreAlone) {
  const Environment slurm{kSlurm};
  const Environment batch{{{"SLURM_STEP_ID", ""}}};
  EXPECT_FALSE(environment_job().value().launched);
}

TEST_F(Launched, BySlurmMayMeetAtMasterAddress) {
  const Environment slurm{kSlurm};
  const Environment script{{{"MASTER_ADDR", "front"}, {"MASTER_PORT", "4000"}, {"WORLD_SIZE", "6"}}};
  EXPECT_EQ(environment_job().value().rank, 3) << "RANK is not set, so torchrun did not start this";
  EXPECT_THAT(rendezvous().value().hosts, ElementsAre("front"));
  EXPECT_EQ(rendezvous().value().ports.front(), 4000);
}

TEST_F(Launched, ByTheInnermostLauncherSayWhoDisagrees) {
  const Environment slurm{kSlurm};
  const Environment torchrun{kTorchrun};
  EnvironmentJob job = environment_job().value();
  EXPECT_THAT(job.source, HasSubstr("torchrun"));
  ASSERT_EQ(disagreements(job).size(), 1u);
  EXPECT_THAT(disagreements(job)[0].sentence, AllOf(HasSubstr("SLURM_PROCID"), HasSubstr("rank 3 of 6")));
  EXPECT_FALSE(disagreements(job)[0].alarming);
  const Environment own{{{"WREATH_RANK", "0"}, {"WREATH_RANKS", "1"}}};
  job = environment_job().value();
  EXPECT_THAT(job.source, HasSubstr("WREATH_RANK"));
  ASSERT_EQ(disagreements(job).size(), 2u);
  EXPECT_TRUE(disagreements(job)[0].alarming) << "a job of one rank, where others say 4";
}

TEST_F(Launched, ByMpirunAreNotAlone) {
  for (const auto& [name, value] : Variables{{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMI_SIZE", "4"}, {"PMIX_RANK", "1"}}) {
    const Environment mpirun{{{name, value}}};
    const EnvironmentJob job = environment_job().value();
    EXPECT_EQ(job.ranks, 1);
    EXPECT_THAT(job.strangers, HasSubstr(name + "=" + value));
    const auto refused = join_environment({0, 1, "nobody", -1, false, job.strangers}, request(0, 1));
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  }
}

// The daemons of mpirun are a step of Slurm, and their children inherit the step's numbers.
TEST_F(Launched, ByMpirunWithinASlurmStepAreRefused) {
  const Environment slurm{kSlurm};
  {
    const Environment mpirun{{{"OMPI_COMM_WORLD_SIZE", "4"}}};
    const auto job = environment_job();
    ASSERT_FALSE(job);
    EXPECT_THAT(job.error().message, AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE=4"), HasSubstr("SLURM_STEP_NUM_TASKS=6")));
  }
  // Slurm sets these variables, too.
  const Environment own_step{{{"PMI_SIZE", "6"}, {"PMIX_RANK", "3"}}};
  EXPECT_EQ(environment_job().value().ranks, 6);
}

const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"PMIX_RANK", "2"},
                         {"PMIX_NAMESPACE", "7"}};

// The daemons of mpirun may be a step of Slurm, which numbers its processes otherwise.
TEST_F(Launched, ByMpirunMeetWherePmixSays) {
  const Environment slurm{kSlurm};
  const Environment mpirun{kOpenMpi};
  const EnvironmentJob job = environment_job().value();
  EXPECT_EQ(job.rank, 2);
  EXPECT_EQ(job.ranks, 4);
  EXPECT_EQ(job.local_rank, 1);
  EXPECT_TRUE(job.launched);
  EXPECT_THAT(job.source, HasSubstr("OMPI_COMM_WORLD_RANK"));
  const Rendezvous where = rendezvous().value();
  EXPECT_EQ(where.carrier, Carrier::Pmix);
  EXPECT_TRUE(where.ports.empty()) << "rank 0 chooses them";
}

TEST_F(Launched, ByMpiexecMeetWherePmiSays) {
  const Environment mpiexec{{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}, {"MPI_LOCALRANKID", "1"}}};
  const EnvironmentJob job = environment_job().value();
  EXPECT_EQ(job.rank, 3);
  EXPECT_EQ(job.ranks, 4);
  EXPECT_EQ(job.local_rank, 1);
  EXPECT_EQ(rendezvous().value().carrier, Carrier::Pmi);
}

TEST_F(Launched, BySlurmMeetWhereItsPmiOrPmixSays) {
  const Environment slurm{kSlurm};
  EXPECT_EQ(rendezvous().value().carrier, Carrier::None);
  EXPECT_EQ(rendezvous().value().step, "slurm-9041.0");
  {
    const Environment pmix{{{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.9041.0"}}};
    EXPECT_EQ(environment_job().value().rank, 3);
    EXPECT_EQ(rendezvous().value().carrier, Carrier::Pmix);
    EXPECT_EQ(rendezvous().value().step, "");
  }
  const Environment pmi{{{"PMI_RANK", "3"}, {"PMI_SIZE", "6"}, {"PMI_FD", "9"}, {"SLURM_LOCALID", "1"}}};
  EXPECT_EQ(environment_job().value().local_rank, 1);
  EXPECT_EQ(rendezvous().value().carrier, Carrier::Pmi);
}

// A process that a rank of Slurm started, torchrun or another, has the rank's PMIx and is no rank of it.
TEST_F(Launched, ByOthersUseNoPmixOfTheStepAroundThem) {
  const Environment slurm{kSlurm};
  const Environment pmix{{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "slurm.pmix.9041.0"}}};
  EXPECT_EQ(rendezvous().value().carrier, Carrier::None);
  const Environment torchrun{kTorchrun};
  EXPECT_EQ(rendezvous().value().carrier, Carrier::None);
  const Environment of_the_step{{{"PMIX_RANK", "3"}}};
  EXPECT_EQ(rendezvous().value().carrier, Carrier::None);
}

TEST_F(Launched, ByMpirunMeetElsewhereWhenTold) {
  const Environment mpirun{kOpenMpi};
  {
    const Environment address{{{"WREATH_ADDRESS", "h0"}}};
    EXPECT_EQ(rendezvous().value().carrier, Carrier::None);
    EXPECT_THAT(rendezvous().value().hosts, ElementsAre("h0"));
  }
  const Environment file{{{"WREATH_FILE", "/shared/meeting"}}};
  EXPECT_EQ(rendezvous().value().carrier, Carrier::None);
  EXPECT_EQ(rendezvous().value().file, "/shared/meeting");
}

TEST_F(Launched, ByMpirunAndNumberedOtherwiseMeet) {
  const Environment numbered{{{"PMI_SIZE", "4"}, {"WREATH_RANK", "1"}, {"WREATH_RANKS", "4"}}};
  EXPECT_EQ(environment_job().value().strangers, "");
}

TEST_F(Launched, ByMpirunAsOneProcessAreAlone) {
  const Environment one{{{"PMI_SIZE", "1"}, {"PMIX_RANK", "0"}}};
  const EnvironmentJob job = environment_job().value();
  EXPECT_EQ(job.strangers, "");
  EXPECT_TRUE(disagreements(job).empty());
}

TEST_F(Launched, ByPmixAsRank0AreWarnedThatTheyMayNotBeAlone) {
  const Environment pmix{{{"PMIX_RANK", "0"}}};
  const EnvironmentJob job = environment_job().value();
  EXPECT_EQ(job.ranks, 1);
  EXPECT_EQ(job.strangers, "");
  ASSERT_EQ(disagreements(job).size(), 1u);
  EXPECT_TRUE(disagreements(job)[0].alarming);
  EXPECT_THAT(disagreements(job)[0].sentence, HasSubstr("PMIX_RANK=0 does not say how many ranks there are"));
  const Environment said{{{"WREATH_RANK", "0"}, {"WREATH_RANKS", "1"}}};
  EXPECT_TRUE(disagreements(environment_job().value()).empty());
}

TEST_F(Launched, ByHandMeetOnTheirHostUnlessAnAddressIsGiven) {
  const Environment own{{{"WREATH_RANK", "1"}, {"WREATH_RANKS", "2"}, {"MASTER_ADDR", "of-another-launcher"}}};
  EXPECT_TRUE(rendezvous().value().hosts.empty());
  const Environment address{{{"WREATH_ADDRESS", "h0,10.0.0.7"}, {"WREATH_PORT", "700-702,800"}}};
  EXPECT_THAT(rendezvous().value().hosts, ElementsAre("h0", "10.0.0.7"));
  EXPECT_THAT(rendezvous().value().ports, ElementsAre(700, 701, 702, 800));
}

TEST_F(Launched, ByHandNameWhatIsMissing) {
  for (const auto& [set, missing] : Variables{{"WREATH_RANK", "WREATH_RANKS"},
                                              {"WREATH_RANKS", "WREATH_RANK"},
                                              {"WREATH_ADDRESS", "WREATH_RANK"},
                                              {"WREATH_FILE", "WREATH_RANK"}}) {
    const Environment half{{{set, "1"}}};
    const auto job = environment_job();
    ASSERT_FALSE(job) << set;
    EXPECT_THAT(job.error().message, AllOf(HasSubstr(missing + " is not set"), HasSubstr(set)));
  }
}

TEST(Ports, AreListsAndRanges) {
  EXPECT_THAT(parse_ports("1,5-7", "P").value(), ElementsAre(1, 5, 6, 7));
  for (const char* bad : {"", "0", "65536", "7-5", "1-", "-5", "x", "1x", "1-2000", "1 2"}) {
    EXPECT_FALSE(parse_ports(bad, "P")) << bad;
  }
}

TEST(NodeLists, BeginWithTheirFirstNode) {
  for (const auto& [list, first] : Variables{{"n0", "n0"},
                                             {"n0,n1", "n0"},
                                             {"n[0-1]", "n0"},
                                             {"n[08-11,20],m3", "n08"},
                                             {"rack[1-2]n[3,5]-ib", "rack1n3-ib"},
                                             {"n[", ""},
                                             {"n[]", ""},
                                             {"n[a-b]", ""},
                                             {"", ""}}) {
    EXPECT_EQ(first_node(list), first) << list;
  }
}

SocketAddress ip(const std::string& text) { return SocketAddress::parse_ip(text, 0).value(); }

TEST_F(Launched, UseInterfacesThatRun) {
  const std::vector<Interface> all{{"lo", ip("127.0.0.1"), true, true},
                                   {"docker0", ip("172.17.0.1"), true, false},
                                   {"eth1", ip("10.1.0.1"), false, false},
                                   {"eth0", ip("fd00::1"), true, false},
                                   {"eth0", ip("10.0.0.1"), true, false}};
  const auto texts = [&](int family) {
    std::vector<std::string> found;
    const std::vector<SocketAddress> chosen = chosen_addresses(all, family).value();
    for (const SocketAddress& address : chosen) found.push_back(address.ip_text());
    return found;
  };
  EXPECT_THAT(texts(AF_INET), ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_THAT(texts(AF_INET6), ElementsAre("fd00::1", "10.0.0.1"));
  {
    const Environment docker{{{"WREATH_SOCKET_IFNAME", "docker"}}};
    EXPECT_THAT(texts(AF_INET), ElementsAre("172.17.0.1"));
  }
  {
    const Environment others{{{"WREATH_SOCKET_IFNAME", "^docker"}}};
    EXPECT_THAT(texts(AF_INET), ElementsAre("10.0.0.1", "fd00::1"));
  }
  {
    const Environment loopback_is_left{{{"WREATH_SOCKET_IFNAME", "^docker,eth"}}};
    EXPECT_THAT(texts(AF_INET), ElementsAre("127.0.0.1"));
  }
  const Environment down{{{"WREATH_SOCKET_IFNAME", "=eth1"}}};
  const auto none = chosen_addresses(all, AF_INET);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("=eth1"), HasSubstr("eth1 10.1.0.1 (down)")));
}

// Link-local addresses are of use where the user names their interface and it has no other address.
TEST_F(Launched, UseLinkLocalAddressesWhenAsked) {
  const std::vector<Interface> all{{"eth0", ip("fe80::1%lo"), true, false},
                                   {"eth0", ip("10.0.0.1"), true, false},
                                   {"eth1", ip("fe80::2%lo"), true, false}};
  const auto texts = [&] {
    std::vector<std::string> found;
    const std::vector<SocketAddress> chosen = chosen_addresses(all, AF_INET).value();
    for (const SocketAddress& address : chosen) found.push_back(address.ip_text());
    return found;
  };
  EXPECT_THAT(texts(), ElementsAre("10.0.0.1"));
  const Environment both{{{"WREATH_SOCKET_IFNAME", "eth"}}};
  EXPECT_THAT(texts(), ElementsAre("10.0.0.1", "fe80::2%lo"));
}

TEST_F(Launched, SayThatALinkLocalAddressLeadsNowhere) {
  const Environment none{{{"WREATH_SOCKET_IFNAME", "=nic9"}}};
  const auto addresses = addresses_of_host("[fe80::1]", 7);
  ASSERT_FALSE(addresses);
  EXPECT_EQ(addresses.error().code, ErrorCode::StartupFailed);
  EXPECT_THAT(addresses.error().message, AllOf(HasSubstr("[fe80::1] means something on one network alone"),
                                               HasSubstr("that WREATH_SOCKET_IFNAME admits")));
}

TEST_F(Launched, MeetThroughAFile) {
  const Folder folder;
  const std::string path = folder / "meeting";
  std::ofstream(path) << "old";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  const Environment file{{{"WREATH_RANK", "0"}, {"WREATH_RANKS", "3"}, {"WREATH_FILE", path}}};
  const auto results = join_all(3, [&](int rank) { return join_environment({rank, 3, "test"}, request(rank, 3)); });
  for (const auto& result : results) ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(results[2]->settings, "settings of rank 0");
  EXPECT_FALSE(std::filesystem::exists(path)) << "rank 0 removes it";
}

TEST_F(Launched, SayWhyAFileIsOfNoUse) {
  const Folder folder;
  const std::string path = folder / "meeting";
  const Environment file{{{"WREATH_RANK", "1"}, {"WREATH_RANKS", "2"}, {"WREATH_FILE", path}}};
  const auto say = [&] { return join_environment({1, 2, "test"}, request(1, 2, 200)).error().message; };
  EXPECT_THAT(say(), AllOf(HasSubstr(path), HasSubstr("rank 0 has not made it")));
  std::ofstream(path) << "old";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_THAT(say(), HasSubstr("leads to no meeting"));
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(say(), HasSubstr("mode 0600"));
}

TEST(SharedStorage, IsKnownByItsKind) {
  EXPECT_TRUE(is_shared_kind(0x6969)) << "NFS";
  EXPECT_FALSE(is_shared_kind(0xEF53)) << "ext4";
  EXPECT_FALSE(is_shared_storage("/no-such-folder"));
  EXPECT_FALSE(is_shared_storage("/proc"));
}

// The second process gets the pid of the first, whether they meet by a key or not.
TEST_F(Launched, AsRankZeroTwiceNameBothProcesses) {
  const Ports ports;
  for (const std::string key : {"", "7777777777777777777777777777777777777777777777777777777777777777"}) {
    const Environment torchrun{{{"RANK", "0"},
                                {"WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", std::to_string(ports.first())},
                                {"WREATH_KEY", key}}};
    const auto results = join_all(2, [&](int) { return join_environment({0, 2, "test"}, request(0, 2, 5000)); });
    for (const auto& result : results) {
      ASSERT_FALSE(result);
      EXPECT_THAT(result.error().message, HasSubstr("two processes claim rank 0: pid "));
    }
  }
}

}  // namespace
}  // namespace wreath
