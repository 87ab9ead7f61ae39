// Runs jobs over several hosts, each a network namespace, with ranks that are started as torchrun starts them.
#pragma once

#include <string>
#include <vector>

#include "tests/support/processes.hpp"

namespace wreath::testing_support::hosts {

inline const Arguments kKey{{"WREATH_KEY", std::string(64, 'c')}};

inline Arguments with_key(Arguments more, const Arguments& still_more = {}) {
  more.insert(kKey.begin(), kKey.end());
  more.insert(still_more.begin(), still_more.end());
  return more;
}

inline constexpr int kPort = 29'873;

// Ranks 0 and 1 are on host 0, ranks 2 and 3 on host 1, and so on. `Hosts` is a Network or a Wire. `arguments` go to
// the ranks' role; its `role` names another role than on_host.
class Job {
 public:
  template <class Hosts>
  Job(const Hosts& network, int hosts, const Arguments& environment, Arguments arguments,
      const std::vector<std::string>& names = {}) {
    for (std::size_t host = 0; host < names.size(); ++host) {
      const std::string path = folder_ / ("names-" + std::to_string(host));
      std::ofstream(path) << names[host];
      arguments["names_" + network.space(static_cast<int>(host))] = path;
    }
    arguments.insert({{"role", "on_host"}, {"bootstrap_ms", "8000"}, {"stall_ms", "60000"}, {"arrival_ms", "60000"}});
    for (int rank = 0; rank < 2 * hosts; ++rank) {
      Arguments all = environment;
      all.insert({{"RANK", std::to_string(rank)},
                  {"WORLD_SIZE", std::to_string(2 * hosts)},
                  {"MASTER_ADDR", network.address(0)},
                  {"MASTER_PORT", std::to_string(kPort)},
                  {"HOME", folder_.path()},
                  {"WREATH_RECORDER_DIR", folder_.path()}});
      arguments["host"] = network.space(rank / 2);
      ranks_.push_back(
          RankProcess::start(arguments["role"], arguments, all, folder_ / ("log-" + std::to_string(rank))));
    }
  }
  std::vector<RankProcess>& ranks() { return ranks_; }

  void expect_to_end_well() {
    for (RankProcess& rank : ranks_) {
      EXPECT_EQ(rank.join(40'000 * kSlower), 0) << said(rank);
      ASSERT_FALSE(rank.lines().empty());
      EXPECT_TRUE(rank.lines().front().starts_with("transport tcp")) << rank.lines().front();
    }
  }
  // Expects all ranks to fail at their start, and returns the errors of all.
  std::string expect_no_start() {
    std::string all;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      EXPECT_EQ(ranks_[i].join(20'000 * kSlower), 6) << said(ranks_[i]);
      all += "rank " + std::to_string(i) + " says: " + said(ranks_[i]) + "\n";
    }
    std::cerr << all;
    return all;
  }
  static std::string said(const RankProcess& process) {
    return process.failure() ? process.failure()->message : process.log();
  }

 private:
  Folder folder_;
  std::vector<RankProcess> ranks_;
};

}  // namespace wreath::testing_support::hosts
