// Prints the output of ranks (see output.hpp).
#include "tools/run/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "src/base/io.hpp"

namespace wreath::launcher {
namespace {

// The time to wait for the reader of the output when the job ends early.
constexpr int kLastWaitMs = 1000;

}  // namespace

Status Output::open() {
  if (folder_.empty()) return {};
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure || ::access(folder_.c_str(), W_OK) != 0) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("--output {}: {}", folder_, failure ? failure.message() : "it cannot be written to")};
  }
  return {};
}

Output::Stream& Output::stream_of(int rank, int stream) {
  const auto [found, added] = streams_.try_emplace({rank, stream});
  if (!added) return found->second;
  Lines::Filter filter;
  if (stream == 2) filter = [this, rank](std::string_view line) { return shows(rank, line); };
  found->second.lines = Lines(prefix_ ? fmt::format("[{}] ", rank) : "", std::move(filter));
  if (folder_.empty()) return found->second;
  found->second.file = Fd(::open(path_of(rank, stream).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!found->second.file) lose_file(rank, stream, errno);
  return found->second;
}

bool Output::shows(int rank, std::string_view line) {
  constexpr std::size_t kMostKept = 1000;
  if (!line.starts_with("wreath: error: ")) return true;
  if (const auto found = errors_.find(line); found != errors_.end()) return found->second == rank;
  if (errors_.size() < kMostKept) errors_.emplace(line, rank);
  return true;
}

int Output::add(int rank, int stream, std::string_view bytes) {
  Stream& one = stream_of(rank, stream);
  if (one.file && !write_all(one.file.get(), bytes)) {
    lose_file(rank, stream, errno);
    one.file = Fd();
  }
  return print(stream, one.lines.add(bytes));
}

void Output::end(int rank) {
  for (auto& [key, stream] : streams_) {
    if (key.first == rank) print(key.second, stream.lines.end());
  }
}

void Output::end() {
  for (auto& [key, stream] : streams_) print(key.second, stream.lines.end());
  errors_.clear();
}

void Output::lose_file(int rank, int stream, int error) {
  print(2, fmt::format("wreath: warning: --output {}: {}\n", path_of(rank, stream), std::strerror(error)));
}

std::string Output::path_of(int rank, int stream) const {
  return fmt::format("{}/rank-{}.{}", folder_, rank, stream == 1 ? "out" : "err");
}

int Output::print(int stream, std::string_view text) {
  const int descriptor = stream == 1 ? STDOUT_FILENO : STDERR_FILENO;
  int& failure = failures_[stream == 1 ? 0 : 1];
  while (!text.empty() && failure == 0) {
    failure = wait_for(descriptor);
    if (failure != 0) break;
    // A pipe that is ready takes this many bytes without waiting.
    const ssize_t written = ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    if (written < 0 && errno != EINTR && errno != EAGAIN) failure = errno;
  }
  return failure;
}

// Waits until the descriptor takes something. Returns 0, or ETIMEDOUT.
int Output::wait_for(int descriptor) {
  std::array<pollfd, 2> set{{{descriptor, POLLOUT, 0}, {wake_, POLLIN, 0}}};
  for (;;) {
    const bool patient = wait_on_();
    const int ready = ::poll(set.data(), patient ? 2 : 1, patient ? -1 : kLastWaitMs);
    if (set[0].revents != 0) return 0;
    if (ready == 0 && !patient) return ETIMEDOUT;
  }
}

}  // namespace wreath::launcher
