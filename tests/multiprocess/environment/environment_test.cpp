// Starting from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as launchers do, and all that can be wrong there.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/support/processes.hpp"

namespace wreath::testing_support {
namespace {

WREATH_ROLE(launched) {
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return child.failed(communicator.error());
  std::vector<float> buffer(1000, static_cast<float>(communicator->rank() + 1));
  if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
    return child.failed(status.error());
  const auto n = static_cast<float>(communicator->ranks());
  return buffer[999] == n * (n + 1) / 2 ? 0 : 1;
}

// A listening socket on 127.0.0.1: a free port, or one that is taken.
Fd listener(int& port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket.get(), 16), 0);
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  port = ntohs(address.sin_port);
  return socket;
}

int free_port() {
  int port = 0;
  const Fd closed = listener(port);
  return port;
}

class Launch {
 public:
  explicit Launch(int port) : port_(port) {}
  RankProcess& start(int rank, int ranks, const Arguments& environment = {},
                     const Arguments& arguments = {{"bootstrap_ms", "15000"}}) {
    Arguments all{{"RANK", std::to_string(rank)},
                  {"WORLD_SIZE", std::to_string(ranks)},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", std::to_string(port_)},
                  {"WREATH_RECORDER_DIR", folder_.path()}};
    for (const auto& [name, value] : environment) all[name] = value;
    started_.push_back(std::make_unique<RankProcess>(
        RankProcess::start("launched", arguments, all, folder_ / ("log-" + std::to_string(started_.size())))));
    return *started_.back();
  }
  std::vector<std::unique_ptr<RankProcess>>& all() { return started_; }

 private:
  int port_;
  Folder folder_;
  std::vector<std::unique_ptr<RankProcess>> started_;
};

const std::string kKey(64, 'a');
const std::string kOtherKey(64, 'b');

TEST(Environment, BringsRanksTogether) {
  for (const std::string transport : {"", "tcp"}) {
    Launch launch(free_port());
    for (int rank = 3; rank >= 0; --rank)
      launch.start(rank, 4, {}, {{"transport", transport}, {"bootstrap_ms", "15000"}});
    for (auto& process : launch.all()) {
      EXPECT_EQ(process->join(20'000 * kSlower), 0)
          << process->log() << (process->failure() ? process->failure()->message : "");
    }
  }
}

TEST(Environment, PassesAPortThatIsTaken) {
  int port = 0;
  const Fd taken = listener(port);
  Launch launch(port);
  for (int rank = 0; rank < 3; ++rank) launch.start(rank, 3, {{"WREATH_KEY", kKey}});
  for (auto& process : launch.all()) {
    EXPECT_EQ(process->join(20'000 * kSlower), 0) << (process->failure() ? process->failure()->message : "");
  }
}

TEST(Environment, NamesARankThatIsMissing) {
  Launch launch(free_port());
  for (const int rank : {0, 2}) launch.start(rank, 3, {}, {{"bootstrap_ms", "1500"}});
  for (auto& process : launch.all()) {
    EXPECT_EQ(process->join(8'000 * kSlower), 6);
    ASSERT_TRUE(process->failure().has_value()) << process->log();
    EXPECT_NE(process->failure()->message.find("1"), std::string::npos);
    EXPECT_TRUE(process->failure()->code == ErrorCode::Timeout || process->failure()->code == ErrorCode::StartupFailed);
    std::cerr << process->failure()->message << "\n";
  }
}

TEST(Environment, NamesTwoRanksWithOneNumber) {
  Launch launch(free_port());
  std::vector<std::string> pids;
  for (const int rank : {0, 1, 1})
    pids.push_back(std::to_string(launch.start(rank, 3, {}, {{"bootstrap_ms", "4000"}}).pid()));
  bool named = false;
  for (auto& process : launch.all()) {
    EXPECT_EQ(process->join(10'000 * kSlower), 6) << process->log();
    ASSERT_TRUE(process->failure().has_value()) << process->log();
    const std::string message = process->failure()->message;
    std::cerr << message << "\n";
    named = named || (message.find(pids[1]) != std::string::npos && message.find(pids[2]) != std::string::npos);
  }
  EXPECT_TRUE(named) << "nobody named both processes";
}

TEST(Environment, RefusesAnotherKey) {
  Launch launch(free_port());
  launch.start(0, 2, {{"WREATH_KEY", kKey}}, {{"bootstrap_ms", "2500"}});
  launch.start(1, 2, {{"WREATH_KEY", kOtherKey}}, {{"bootstrap_ms", "2500"}});
  for (auto& process : launch.all()) {
    EXPECT_EQ(process->join(8'000 * kSlower), 6);
    ASSERT_TRUE(process->failure().has_value()) << process->log();
    std::cerr << process->failure()->message << "\n";
    EXPECT_EQ(process->failure()->message.find(kKey), std::string::npos) << "a key is never printed";
    EXPECT_EQ(process->failure()->message.find(kOtherKey), std::string::npos) << "a key is never printed";
  }
}

TEST(Environment, RefusesNonsense) {
  for (const auto& [name, value] :
       Arguments{{"RANK", "4"}, {"WORLD_SIZE", "many"}, {"MASTER_PORT", "70000"}, {"RANK", "-1"}}) {
    Launch launch(free_port());
    RankProcess& process = launch.start(0, 4, {{name, value}}, {{"bootstrap_ms", "3000"}});
    EXPECT_TRUE(process.join(5'000 * kSlower).has_value());
    ASSERT_TRUE(process.failure().has_value()) << process.log();
    EXPECT_EQ(process.failure()->code, ErrorCode::InvalidArgument) << process.failure()->message;
    EXPECT_NE(process.failure()->message.find(name), std::string::npos) << process.failure()->message;
  }
}

}  // namespace
}  // namespace wreath::testing_support
