// Two hosts, made of network namespaces joined by a pair of virtual cards. Needs root and iproute2; else skipped.
#include <sched.h>

#include "tests/support/processes.hpp"

namespace wreath::testing_support {
namespace {

bool shell(const std::string& command) {
  return ::system((command + " >/dev/null 2>&1").c_str()) == 0;
}  // NOLINT(cert-env33-c)

// Hosts 0 and 1 at 10.73.0.1 and 10.73.0.2; removed at the end.
class Hosts {
 public:
  Hosts() {
    made_ = ::geteuid() == 0 && shell("ip netns add " + name(0)) && shell("ip netns add " + name(1)) &&
            shell("ip link add name veth0 netns " + name(0) + " type veth peer name veth1 netns " + name(1));
    for (int host = 0; host < 2 && made_; ++host) {
      const std::string in = "ip -n " + name(host) + " ";
      made_ = shell(in + "addr add " + address(host) + "/24 dev veth" + std::to_string(host)) &&
              shell(in + "link set veth" + std::to_string(host) + " up") && shell(in + "link set lo up");
    }
  }
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;
  ~Hosts() {
    for (int host = 0; host < 2; ++host) shell("ip netns del " + name(host));
  }
  bool made() const { return made_; }
  static std::string name(int host) { return "wreath-" + std::to_string(::getpid()) + "-" + std::to_string(host); }
  static std::string address(int host) { return "10.73.0." + std::to_string(host + 1); }
  static bool cut(int host) { return shell("ip -n " + name(host) + " link set veth" + std::to_string(host) + " down"); }

 private:
  bool made_ = false;
};

WREATH_ROLE(on_host) {
  const int file = ::open(("/run/netns/" + child.text("host")).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || ::setns(file, CLONE_NEWNET) != 0) return 98;
  ::close(file);
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  child.report("transport " + communicator->transport_to((communicator->rank() + 2) % 4));
  const std::int64_t calls = child.number("calls");
  for (std::int64_t i = 0; i < calls; ++i) {
    std::vector<float> buffer(i % 2 == 0 ? 10 : 200'000, static_cast<float>(communicator->rank() + 1));
    if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
      return child.failed(status.error());
    if (buffer.back() != 10) return 1;
    if (i == 10) child.report("running");
  }
  return 0;
}

// Ranks 0 and 1 on host 0, ranks 2 and 3 on host 1.
std::vector<RankProcess> start(const Folder& folder, const Arguments& environment, const std::string& calls) {
  std::vector<RankProcess> started;
  for (int rank = 0; rank < 4; ++rank) {
    Arguments all{{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "4"},     {"MASTER_ADDR", Hosts::address(0)},
                  {"MASTER_PORT", "29873"},       {"HOME", folder.path()}, {"WREATH_RECORDER_DIR", folder.path()}};
    all.insert(environment.begin(), environment.end());
    started.push_back(RankProcess::start("on_host",
                                         {{"host", Hosts::name(rank / 2)},
                                          {"calls", calls},
                                          {"bootstrap_ms", "8000"},
                                          {"stall_ms", "60000"},
                                          {"arrival_ms", "60000"}},
                                         all, folder / ("log-" + std::to_string(rank))));
  }
  return started;
}

std::string said(const RankProcess& process) { return process.failure() ? process.failure()->message : process.log(); }

const Arguments kWithKey{{"WREATH_KEY", std::string(64, 'c')}};

TEST(TwoHosts, MeetWithAKey) {
  const Hosts hosts;
  if (!hosts.made()) GTEST_SKIP() << "needs root and iproute2";
  const Folder folder;
  auto ranks = start(folder, kWithKey, "200");
  for (RankProcess& rank : ranks) {
    EXPECT_EQ(rank.join(40'000 * kSlower), 0) << said(rank);
    ASSERT_FALSE(rank.lines().empty());
    EXPECT_TRUE(rank.lines().front().starts_with("transport tcp")) << rank.lines().front();
  }
}

TEST(TwoHosts, DoNotMeetWithoutAKey) {
  const Hosts hosts;
  if (!hosts.made()) GTEST_SKIP() << "needs root and iproute2";
  const Folder folder;
  auto ranks = start(folder, {}, "10");
  bool remedies = false;
  for (RankProcess& rank : ranks) {
    EXPECT_EQ(rank.join(20'000 * kSlower), 6) << said(rank);
    remedies = remedies || said(rank).find("WREATH_KEY") != std::string::npos;
  }
  EXPECT_TRUE(remedies) << said(ranks[0]) << "\n" << said(ranks[2]);
}

// Each side names a rank of the other, within 10 s.
TEST(TwoHosts, NoticeWhenOneIsCutOff) {
  const Hosts hosts;
  if (!hosts.made()) GTEST_SKIP() << "needs root and iproute2";
  const Folder folder;
  auto ranks = start(folder, kWithKey, "100000000");
  for (RankProcess& rank : ranks) ASSERT_TRUE(rank.wait_for("running", 20'000 * kSlower)) << said(rank);
  ASSERT_TRUE(Hosts::cut(1));
  const Deadline deadline = Deadline::after_ms(10'500 * kSlower);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ASSERT_TRUE(ranks[rank].wait_for("error ", deadline.left_ms())) << "rank " << rank << " said nothing within 10 s";
    const auto failure = ranks[rank].failure();
    EXPECT_EQ(failure->code, ErrorCode::PeerLost) << failure->message;
    EXPECT_EQ(failure->failed_rank / 2, rank < 2 ? 1 : 0) << failure->message;
    EXPECT_EQ(ranks[rank].join(10'000), 3);
  }
}

}  // namespace
}  // namespace wreath::testing_support
