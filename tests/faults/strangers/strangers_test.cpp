// Strangers connect to everything that a job listens at, while it meets and while it runs. The job takes no harm, and
// listens no longer than it must.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <random>

#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"

namespace wreath::testing_support::strangers {
namespace {

constexpr int kRanks = 3;

// Waits for the parent between the meeting and the calls.
WREATH_ROLE(member) {
  const bool first = child.rank() == 0;
  const UniqueId id =
      first ? UniqueId::create("127.0.0.1").value() : UniqueId::parse(child.command().substr(3)).value();
  if (first) {
    child.report("id " + id.to_string());
    child.command();
  }
  auto communicator = Communicator::create(id, child.rank(), child.ranks(), child.options());
  if (!communicator) return child.failed(communicator.error());
  child.report("met");
  child.command();
  std::vector<float> buffer(70'000);
  for (int i = 0; i < 200; ++i) {
    std::fill(buffer.begin(), buffer.end(), 1.0F);
    if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
      return child.failed(status.error());
    if (buffer[69'999] != static_cast<float>(child.ranks())) return 1;
  }
  return 0;
}

// Returns the inodes of the sockets of a process.
std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(proc(pid, "fd"), gone)) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(entry.path(), closed).string();
    if (target.starts_with("socket:[")) found.insert(target.substr(8, target.size() - 9));
  }
  return found;
}

// Lists the places where the processes of a job listen: TCP ports, and abstract names.
struct Listeners {
  std::set<int> ports;
  std::set<std::string> names;
  std::size_t count() const { return ports.size() + names.size(); }
};

Listeners listeners_of(Job& job) {
  std::set<std::string> inodes;
  for (int rank = 0; rank < job.ranks(); ++rank) inodes.merge(sockets_of(job[rank].pid()));
  Listeners found;
  std::ifstream tcp("/proc/net/tcp");
  std::string line;
  while (std::getline(tcp, line)) {
    std::istringstream words(line);
    std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
    if (word.size() > 9 && word[3] == "0A" && inodes.count(word[9]) != 0) {
      found.ports.insert(std::stoi(word[1].substr(word[1].find(':') + 1), nullptr, 16));
    }
  }
  std::ifstream local("/proc/net/unix");
  while (std::getline(local, line)) {
    std::istringstream words(line);
    std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
    const bool listens = word.size() > 7 && word[3] == "00010000";
    if (listens && inodes.count(word[6]) != 0 && word[7].starts_with("@")) found.names.insert(word[7].substr(1));
  }
  return found;
}

Fd connect_port(int port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  static_cast<void>(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
  return socket;
}

Fd connect_name(const std::string& name) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  static_cast<void>(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size));
  return socket;
}

// Opens connections that send nothing, half of a message, or garbage. Some are closed at once, some are kept open.
void pester(const Listeners& listeners, int connections, std::vector<Fd>& kept) {
  std::mt19937 random(4711);
  for (int i = 0; i < connections; ++i) {
    std::vector<Fd> sockets;
    for (const int port : listeners.ports) sockets.push_back(connect_port(port));
    for (const std::string& name : listeners.names) sockets.push_back(connect_name(name));
    for (Fd& socket : sockets) {
      std::string text(random() % 3 == 0 ? 0 : random() % 5'000, '\0');
      for (char& byte : text) byte = static_cast<char>(random());
      if (i % 4 == 0) text = "GET / HTTP/1.1\r\n\r\n";
      static_cast<void>(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
      if (kept.size() < 100 && i % 5 == 0) kept.push_back(std::move(socket));
    }
  }
}

class Strangers : public ::testing::TestWithParam<std::string> {};

TEST_P(Strangers, DoNoHarm) {
  const int connections = rounds(250, 5'000);
  std::vector<Fd> kept;
  Job job("member", kRanks, {{"transport", GetParam()}, {"bootstrap_ms", "30000"}});
  ASSERT_TRUE(job[0].wait_for("id ", 10'000 * kSlower));
  const std::string id = job[0].lines().back();
  const Listeners meeting = listeners_of(job);
  EXPECT_GE(meeting.count(), 2u) << "it listens at a UNIX socket and a TCP port";
  pester(meeting, connections, kept);
  job[0].command("go");
  for (int rank = 1; rank < kRanks; ++rank) {
    job[rank].command(id);
    pester(listeners_of(job), connections / 10, kept);
  }
  ASSERT_TRUE(job.all_report("met", 30'000 * kSlower)) << job.logs();
  EXPECT_TRUE(eventually(2'000 * kSlower, [&] { return listeners_of(job).count() == 0; }))
      << listeners_of(job).count() << " sockets still listen after the start";
  job.command_all("go");
  pester(meeting, connections / 10, kept);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(job[rank].join(30'000 * kSlower), 0) << job.logs();
}

INSTANTIATE_TEST_SUITE_P(Over, Strangers, ::testing::Values("shm", "tcp"),
                         [](const auto& transport) { return transport.param; });

}  // namespace
}  // namespace wreath::testing_support::strangers
