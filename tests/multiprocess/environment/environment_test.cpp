// Tests a start from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as launchers do it.
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

// Returns a listening socket on 127.0.0.1, so that its port is free or taken.
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

}  // namespace
}  // namespace wreath::testing_support
