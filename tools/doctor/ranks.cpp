// Starts a process for each rank. A pipe returns what each of them measured.
#include "tools/doctor/ranks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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

#include "src/command_line/program.hpp"
#include "tools/topo/local_ranks.hpp"
#include "wreath/wreath.hpp"

namespace wreath {
namespace {

namespace fs = std::filesystem;
// The elements of each buffer, which are enough for all lanes to fill slots.
constexpr std::size_t kElements = std::size_t{1} << 18;

int entries_of(const char* folder) {
  std::error_code gone;
  const fs::directory_iterator all(folder, gone);
  return gone ? 0 : static_cast<int>(std::distance(begin(all), end(all)));
}

// Returns the memory of this process without the pages of programs and libraries. Those pages are the system's, and a
// process counts less of each of them when others run beside it.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::int64_t bytes = 0;
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if ((word == "Pss_Anon:" || word == "Pss_Shmem:") && file >> kib) bytes += kib * 1024;
  }
  return bytes;
}

Held held_now() { return {resident_bytes(), entries_of("/proc/self/fd"), entries_of("/proc/self/task")}; }

// Uses small messages, the slots of every peer, and the lanes of sends and receives.
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

bool read_whole(int descriptor, RankHeld& value) {
  ssize_t got = 0;
  while ((got = ::read(descriptor, &value, sizeof value)) < 0 && errno == EINTR) {
  }
  return got == static_cast<ssize_t>(sizeof value);
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

}  // namespace

Result<std::vector<RankHeld>> hold_ranks(int ranks) {
  std::array<int, 2> results{};
  if (::pipe2(results.data(), O_CLOEXEC) != 0) {
    return Error{ErrorCode::System, fmt::format("doctor: pipe2: {}", std::strerror(errno))};
  }
  const auto body = [&](const UniqueId& id, Rank rank) {
    RankHeld seen;
    seen.rank = rank;
    const Status measured = measure(id, ranks, seen);
    if (!measured) return command_line::fail(measured.error());
    // A pipe takes a value of this size as one piece.
    return ::write(results[1], &seen, sizeof seen) == static_cast<ssize_t>(sizeof seen) ? 0 : 1;
  };
  auto started = LocalRanks::start(0, ranks, body);
  ::close(results[1]);
  std::vector<RankHeld> all;
  // The loop ends when the last rank is gone.
  for (RankHeld seen; started && read_whole(results[0], seen);) all.push_back(seen);
  ::close(results[0]);
  if (!started) return started.error();
  WREATH_TRY(started->wait());
  return all;
}

}  // namespace wreath
