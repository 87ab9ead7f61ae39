// Exchanges raw data over loopback: this process and a forked child both poll non-blocking sockets.
#include "perf/limits/tcp.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "perf/base/statistics.hpp"
#include "perf/limits/machine.hpp"
#include "src/base/clock.hpp"
#include "src/base/fd.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // the most that one send() takes well

struct Connection {
  Fd parent;
  Fd child;
};

void set_congestion_control(const Fd& socket, const std::string& name) {
  setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
}

Fd tcp_socket() { return Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

void make_fast(const Fd& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

std::optional<Connection> connect_loopback(const std::string& congestion_control) {
  const Fd listener = tcp_socket();
  Connection connection{tcp_socket(), Fd()};
  if (!listener || !connection.parent) return std::nullopt;
  set_congestion_control(listener, congestion_control);
  set_congestion_control(connection.parent, congestion_control);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* where = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  if (::bind(listener.get(), where, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), where, &length) != 0 || ::connect(connection.parent.get(), where, length) != 0) {
    return std::nullopt;
  }
  connection.child = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.child) return std::nullopt;
  make_fast(connection.parent);
  make_fast(connection.child);
  return connection;
}

// Returns the bytes that a system call moved: 0 when it could move none, -1 when the connection is over.
std::ptrdiff_t moved(std::ptrdiff_t result) {
  if (result > 0) return result;
  return result < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

// Sends and receives `bytes`. Returns false when the other side is gone. It makes only system calls, since it also runs
// after fork.
bool exchange(int socket, const std::byte* out, std::byte* in, std::size_t bytes) {
  std::size_t sent = 0;
  std::size_t received = 0;
  while (sent < bytes || received < bytes) {
    if (sent < bytes) {
      const std::size_t piece = std::min(kPieceBytes, bytes - sent);
      const std::ptrdiff_t done = moved(::send(socket, out + sent, piece, MSG_DONTWAIT | MSG_NOSIGNAL));
      if (done < 0) return false;
      sent += static_cast<std::size_t>(done);
    }
    if (received < bytes) {
      const std::ptrdiff_t done = moved(::recv(socket, in + received, bytes - received, MSG_DONTWAIT));
      if (done < 0) return false;
      received += static_cast<std::size_t>(done);
    }
  }
  return true;
}

// Runs in the child: exchanges until the parent closes the connection.
[[noreturn]] void run_child(const Connection& connection, int core, const Pages& out, const Pages& in,
                            std::size_t bytes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::close(connection.parent.get());
  const Pin pin(core);
  while (exchange(connection.child.get(), out.data(), in.data(), bytes)) {
  }
  _exit(0);
}

double median_exchange_us(int socket, const Pages& out, const Pages& in, std::size_t bytes, const Effort& effort) {
  bool alive = true;
  const auto time_us = [&](int calls) {
    const std::int64_t start = now_ns();
    for (int call = 0; call < calls && alive; ++call) alive = exchange(socket, out.data(), in.data(), bytes);
    return static_cast<double>(now_ns() - start) / 1000 / calls;
  };
  time_us(5);
  const int calls = calls_per_round(effort, time_us(5));
  std::vector<double> times;
  for (int round = 0; round < effort.rounds; ++round) times.push_back(time_us(calls));
  return alive ? summarize(times).p50 : kNotANumber;
}

double exchange_us(std::size_t bytes, const std::string& congestion_control, const std::vector<int>& cores,
                   const Effort& effort) {
  std::optional<Connection> connection = connect_loopback(congestion_control);
  if (!connection) return kNotANumber;
  const Pages out(bytes);
  const Pages in(bytes);
  const pid_t child = fork();
  if (child < 0) return kNotANumber;
  if (child == 0) run_child(*connection, cores[1], out, in, bytes);
  connection->child = Fd();
  double us = kNotANumber;
  {
    const Pin pin(cores[0]);
    us = median_exchange_us(connection->parent.get(), out, in, bytes, effort);
  }
  connection->parent = Fd();
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return us;
}

}  // namespace

std::vector<std::string> congestion_controls() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::vector<std::string> names;
  for (std::string name; file >> name;) names.push_back(name);
  if (names.empty()) names.emplace_back("reno");
  return names;
}

double tcp_exchange_limit_us(std::size_t bytes, const Effort& effort) {
  const std::vector<int> cores = pick_cores(2);
  if (cores.empty()) return kNotANumber;
  double best = kNotANumber;
  for (const std::string& name : congestion_controls()) {
    const double us = exchange_us(bytes, name, cores, effort);
    // This also replaces a `best` that is NaN.
    if (!(us >= best)) best = us;
  }
  return best;
}

}  // namespace wreath::perf
