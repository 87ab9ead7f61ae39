// A process for each rank, forked; one pipe tells them the id, another brings back what they saw.
#include "tools/doctor_ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "wreath/wreath.hpp"

namespace wreath {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kElements = std::size_t{1} << 18;  // of each buffer, so that all lanes fill slots

int entries_of(const char* folder) {
  std::error_code gone;
  const fs::directory_iterator all(folder, gone);
  return gone ? 0 : static_cast<int>(std::distance(begin(all), end(all)));
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == "Pss:" && file >> kib) return kib * 1024;
  }
  return 0;
}

Held held_now() { return {resident_bytes(), entries_of("/proc/self/fd"), entries_of("/proc/self/task")}; }

// Small messages, slots of every peer, and those of sends and receives.
Status use(Communicator& communicator, std::vector<float>& input, std::vector<float>& output) {
  const int ranks = communicator.ranks();
  const std::size_t block = kElements / static_cast<std::size_t>(ranks);
  WREATH_TRY(communicator.all_reduce(input.data(), output.data(), kElements, DataType::Float32));
  WREATH_TRY(communicator.all_to_all(input.data(), output.data(), block, DataType::Float32));
  Group group;
  for (Rank peer = 0; peer < ranks; ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * block;
    WREATH_TRY(communicator.send(input.data() + at, block, DataType::Float32, peer));
    WREATH_TRY(communicator.recv(output.data() + at, block, DataType::Float32, peer));
  }
  return group.run();
}

Status measure(const UniqueId& id, int ranks, RankHeld& seen) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> input(kElements, 1.0F);
  std::vector<float> output(kElements, 0.0F);
  seen.before = held_now();
  const auto start = Clock::now();
  auto communicator = Communicator::create(id, seen.rank, ranks);
  if (!communicator) return communicator.error();
  WREATH_TRY(communicator->all_reduce(input.data(), output.data(), 2, DataType::Float32));
  seen.start_us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
  WREATH_TRY(use(*communicator, input, output));
  WREATH_TRY(communicator->barrier());
  seen.used = held_now();
  return communicator->barrier();
}

template <typename T>
bool read_whole(int descriptor, T& value) {
  ssize_t got = 0;
  while ((got = ::read(descriptor, &value, sizeof value)) < 0 && errno == EINTR) {
  }
  return got == static_cast<ssize_t>(sizeof value);
}

// Shorter than what a pipe takes as one.
template <typename T>
bool write_whole(int descriptor, const T& value) {
  return ::write(descriptor, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

[[noreturn]] void become_rank(pid_t parent, int rank, int ranks, int id_pipe, int seen_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  UniqueId id;
  if (::getppid() != parent || !read_whole(id_pipe, id)) ::_exit(exit_code(ErrorCode::StartupFailed));
  RankHeld seen;
  seen.rank = rank;
  const Status measured = measure(id, ranks, seen);
  if (!measured) {
    seen.exit_code = exit_code(measured.error().code);
    fmt::print(stderr, "wreath: error: {}\n", measured.error().message);
  }
  write_whole(seen_pipe, seen);
  ::_exit(seen.exit_code);
}

Error refused(const char* what) {
  return {ErrorCode::System, fmt::format("doctor: {}: {}", what, std::strerror(errno))};
}

// Ended with it.
struct Children {
  std::vector<pid_t> pids;
  ~Children() {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
  }
};

Status start_all(int ranks, const std::array<int, 2>& ids, const std::array<int, 2>& results, Children& children) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) return refused("fork");
    if (pid == 0) {
      ::close(ids[1]);
      ::close(results[0]);
      become_rank(parent, rank, ranks, ids[0], results[1]);
    }
    children.pids.push_back(pid);
  }
  const auto id = UniqueId::create();  // starts a thread: after the forks
  if (!id) return id.error();
  for (int rank = 0; rank < ranks; ++rank) {
    if (!write_whole(ids[1], *id)) return refused("telling the id");
  }
  return {};
}

}  // namespace

Result<std::vector<RankHeld>> hold_ranks(int ranks) {
  std::array<int, 2> ids{};
  std::array<int, 2> results{};
  if (::pipe2(ids.data(), O_CLOEXEC) != 0) return refused("pipe2");
  if (::pipe2(results.data(), O_CLOEXEC) != 0) return refused("pipe2");
  Children children;
  const Status started = start_all(ranks, ids, results, children);
  for (const int descriptor : {ids[0], ids[1], results[1]}) ::close(descriptor);
  std::vector<RankHeld> all;
  for (RankHeld seen; started && read_whole(results[0], seen);) all.push_back(seen);  // until the last one is gone
  ::close(results[0]);
  if (!started) return started.error();
  for (const RankHeld& seen : all) {
    if (seen.exit_code != 0)
      return Error{ErrorCode::StartupFailed, fmt::format("doctor: rank {} failed", seen.rank), seen.rank};
  }
  if (all.size() == static_cast<std::size_t>(ranks)) return all;
  return Error{ErrorCode::PeerLost, fmt::format("doctor: {} of {} ranks came to their end", all.size(), ranks)};
}

}  // namespace wreath
