// Tests `wreath run` over hosts made of network namespaces, with an ssh that enters them. The ranks must find each
// other.
#include "tests/support/network.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/multiprocess/run/launcher.hpp"

namespace wreath::testing_support {
namespace {

using ::testing::HasSubstr;

// Makes an ssh that knows the hosts by their first addresses. It exits with 255 for any other name.
std::string netns_ssh(const Folder& folder, const Network& network, int hosts) {
  const std::string path = folder / "ssh";
  std::ofstream script(path);
  script << "#!/bin/sh\ncase $1 in\n";
  for (int host = 0; host < hosts; ++host)
    script << network.address(host) << ") exec ip netns exec " << Network::space(host) << " sh -c \"$2\";;\n";
  script << "esac\nexit 255\n";
  script.close();
  ::chmod(path.c_str(), 0700);
  return path;
}

std::vector<std::string> sum_on(const Folder& folder, const Network& network, int hosts) {
  std::string names;
  for (int host = 0; host < hosts; ++host) names += (host > 0 ? ",[" : "[") + network.address(host) + "]";
  return sum(
      {"-n", std::to_string(2 * hosts), "--verbose", "--hosts", names, "--ssh", netns_ssh(folder, network, hosts)});
}

TEST(RunOnHosts, BringsRanksTogether) {
  for (const Family family : {Family::V4, Family::V6}) {
    for (const int hosts : {2, 3}) {
      const Network network(hosts, family);
      if (!network.made()) GTEST_SKIP() << Network::kNeeds;
      const Folder folder;
      Launcher run(sum_on(folder, network, hosts), {{"WREATH_RECORDER_DIR", folder.path()}});
      EXPECT_EQ(run.join(60'000), 0) << run.err();
      EXPECT_THAT(run.err(), HasSubstr("meet at " + network.address(0)));
    }
  }
}

// The host is gone without a word. Its ranks are lost to the others, whose errors say so.
TEST(RunOnHosts, EndsWithTheRanksThatAreLeft) {
  const Network network(2);
  if (!network.made()) GTEST_SKIP() << Network::kNeeds;
  const Folder folder;
  std::vector<std::string> words = sum_on(folder, network, 2);
  words.back() = "calls=100000000";
  words.insert(words.end(), {"stall_ms=60000", "arrival_ms=60000"});
  Launcher run(words, {{"WREATH_RECORDER_DIR", folder.path()}});
  ASSERT_TRUE(eventually(30'000 * kSlower, [&] { return run.out().find("[3] to a neighbour") != std::string::npos; }))
      << run.err();
  ASSERT_TRUE(network.unplug(1));
  EXPECT_EQ(run.join(30'000 * kSlower), 3) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("peer lost"));
}

}  // namespace
}  // namespace wreath::testing_support
