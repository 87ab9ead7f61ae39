// wire PREFIX HOSTS makes network namespaces PREFIX0 .. for kernels without netem. A switch in user space joins them
// and makes the faults that commands set. Each has a card tun0 with the address 10.78.0.(HOST + 1). The program needs
// root and iproute2.
//
// It prints "ready" when all namespaces are there. Then it answers each line of its input with "ok", counts, or what is
// wrong. At the end of its input it removes the namespaces. Exit codes: 0 ok, 2 usage, 77 hosts cannot be made here.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "tests/wire/faults.hpp"

namespace wreath::wire {
namespace {

constexpr std::int64_t kSecond = 1000 * kNsPerMs;

bool sh(const std::string& command) {
  return ::system((command + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT(cert-env33-c)
}

// A namespace with a card whose packets this process reads and writes.
class Host {
 public:
  Host(const std::string& prefix, int number) : space_(prefix + std::to_string(number)) {
    if (!sh("ip netns add " + space_)) return;
    card_ = make_card();
    const std::string in = "ip -n " + space_ + " ";
    if (!sh(in + "link set lo up") || !sh(in + "addr add 10.78.0." + std::to_string(number + 1) + "/24 dev tun0") ||
        !sh(in + "link set tun0 txqueuelen 5000 mtu 9000") || !sh(in + "link set tun0 up"))
      card_ = Fd();
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() { sh("ip netns del " + space_); }

  int card() const { return card_.get(); }  // -1: not made
  // Returns a whole packet, or an empty one if there is none.
  std::vector<std::uint8_t> read() const {
    std::vector<std::uint8_t> bytes(65'536);
    const ssize_t size = ::read(card_.get(), bytes.data(), bytes.size());
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }
  void write(const std::vector<std::uint8_t>& bytes) const {
    // A card without room loses the packet, as cards do.
    (void)!::write(card_.get(), bytes.data(), bytes.size());
  }

 private:
  Fd make_card() const {
    const Fd home(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    const Fd there(::open(("/run/netns/" + space_).c_str(), O_RDONLY | O_CLOEXEC));
    if (::setns(there.get(), CLONE_NEWNET) != 0) return {};
    Fd card(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    ifreq request{};
    std::strcpy(request.ifr_name, "tun0");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    const bool made = card && ::ioctl(card.get(), TUNSETIFF, &request) == 0;
    return ::setns(home.get(), CLONE_NEWNET) == 0 && made ? std::move(card) : Fd();
  }

  std::string space_;
  Fd card_;
};

class Switch {
 public:
  Switch(const std::string& prefix, int hosts) {
    for (int number = 0; number < hosts; ++number) hosts_.push_back(std::make_unique<Host>(prefix, number));
  }
  bool made() const {
    return std::ranges::all_of(hosts_, [](const auto& host) { return host->card() >= 0; });
  }

  // Carries packets until the end of the input.
  void run() {
    std::vector<pollfd> set;
    for (const auto& host : hosts_) set.push_back({host->card(), POLLIN, 0});
    set.push_back({0, POLLIN, 0});
    for (;;) {
      // poll() counts in whole milliseconds, so that it would be late, or would not sleep before a packet is due.
      const std::int64_t left_ns = queue_.empty() ? kSecond : std::max<std::int64_t>(0, queue_.top().due_ns - now_ns());
      const timespec left{left_ns / kSecond, left_ns % kSecond};
      (void)::ppoll(set.data(), set.size(), &left, nullptr);
      if (set.back().revents != 0 && !obey()) return;
      for (const auto& host : hosts_) take_from(*host);
      deliver();
    }
  }

 private:
  struct Due {
    std::int64_t due_ns;
    // The number keeps the order of packets that are due at the same time.
    std::uint64_t number;
    std::vector<std::uint8_t> bytes;
    int to;
    bool operator<(const Due& other) const { return std::pair(due_ns, number) > std::pair(other.due_ns, other.number); }
  };

  void take_from(const Host& host) {
    for (int burst = 0; burst < 64; ++burst) {
      Packet packet(host.read());
      if (packet.bytes().empty()) return;
      if (!packet.valid() || packet.to() < 0 || packet.to() >= static_cast<int>(hosts_.size())) continue;
      const std::int64_t now = now_ns();
      for (Delivery& each : faults_.carry(std::move(packet), now))
        queue_.push({now + each.after_ns, ++number_, each.packet.bytes(), each.packet.to()});
    }
  }
  void deliver() {
    for (; !queue_.empty() && queue_.top().due_ns <= now_ns(); queue_.pop())
      hosts_[static_cast<std::size_t>(queue_.top().to)]->write(queue_.top().bytes);
  }
  // Obeys the lines that have come. Returns false at the end of the input.
  bool obey() {
    std::array<char, 4096> buffer;
    const ssize_t size = ::read(0, buffer.data(), buffer.size());
    if (size <= 0) return false;
    input_.append(buffer.data(), static_cast<std::size_t>(size));
    for (std::size_t end; (end = input_.find('\n')) != std::string::npos; input_.erase(0, end + 1)) {
      const std::string line = input_.substr(0, end);
      const std::string wrong = line == "counts" ? faults_.counts() : faults_.command(line);
      std::cout << (wrong.empty() ? "ok" : wrong) << std::endl;
    }
    return true;
  }

  std::vector<std::unique_ptr<Host>> hosts_;
  Faults faults_{std::random_device()()};
  std::priority_queue<Due> queue_;
  std::uint64_t number_ = 0;
  std::string input_;
};

}  // namespace
}  // namespace wreath::wire

int main(int count, char** words) {
  const int hosts = count == 3 ? std::atoi(words[2]) : 0;
  if (hosts < 1 || hosts > 200) {
    std::cerr << "usage: wire PREFIX HOSTS (1 to 200), then lines of input:\n" << wreath::wire::Faults::help();
    return 2;
  }
  // A terminal's interrupt ends the tests first, and with them the input.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  wreath::wire::Switch all(words[1], hosts);
  if (!all.made()) {
    std::cerr << "wire: cannot make network namespaces with a tun card: run it as root, with iproute2 installed\n";
    return 77;
  }
  std::cout << "ready" << std::endl;
  all.run();
  return 0;
}
