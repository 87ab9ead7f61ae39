// Provides what the start-up tests share.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/socket.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/meeting.hpp"
#include "src/bootstrap/proof.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath {

// Returns the number of open descriptors of this process.
inline std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// Returns the number of meeting threads of this process that still run.
inline int running_meetings() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    count += name == "wreath-meet" ? 1 : 0;
  }
  return count;
}

// Waits until at most `count` meetings run, but no longer than 3 s.
inline void wait_for_meetings(int count) {
  const Deadline deadline = Deadline::after_ms(3000);
  while (running_meetings() > count && !deadline.passed()) sleep_ms(5);
}

// Remembers how many descriptors are open when no meeting runs. settles() returns whether all descriptors that were
// opened since then are closed again.
class DescriptorCount {
 public:
  bool settles() const {
    wait_for_meetings(0);
    return open_descriptors() == before_;
  }

 private:
  std::ptrdiff_t before_ = (wait_for_meetings(0), open_descriptors());
};

using test::Environment;
using test::Folder;

inline std::shared_ptr<const Key> test_key(int seed = 1) {
  std::array<std::byte, kKeyBytes> bytes{};
  bytes.fill(static_cast<std::byte>(seed));
  return Key::from_bytes(bytes);
}

inline Identity test_identity(int seed = 1, int rank = -1, Purpose purpose = Purpose::Meet) {
  return {test_key(seed), {kProtocol, rank, purpose, std::string(library_version())}};
}

using Results = std::vector<Result<Membership>>;

inline BootstrapRequest request(int rank, int ranks, std::int64_t timeout_ms = 20'000) {
  return {rank, ranks, "settings of rank " + std::to_string(rank), timeout_ms, false};
}

// Calls `join_one(i)` for i = 0 .. n-1, each in a thread, and returns the results by i.
template <typename JoinOne>
Results join_all(int n, JoinOne join_one) {
  Results results;
  for (int i = 0; i < n; ++i) results.emplace_back(Error{ErrorCode::System, "not run"});
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] { results[static_cast<std::size_t>(i)] = join_one(i); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Opens a meeting point on the loopback address, which a thread serves, and returns how to find it.
inline MeetingPlace open_meeting(const Identity& self = test_identity()) {
  MeetingPlace place;
  place.self = self;
  std::vector<Fd> listeners;
  listeners.push_back(listen_on(SocketAddress::loopback(AF_INET, 0)).value());
  place.candidates = {local_address(listeners[0].get())};
  serve_meeting(std::move(listeners), place.self).value();
  return place;
}

}  // namespace wreath
