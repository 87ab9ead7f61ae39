// Where ranks' output goes: see output.hpp.
#include "tools/run/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace wreath::launcher {

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
  if (prefix_) found->second.lines = Lines(fmt::format("[{}] ", rank));
  if (folder_.empty()) return found->second;
  const std::string path = fmt::format("{}/rank-{}.{}", folder_, rank, stream == 1 ? "out" : "err");
  found->second.file = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  return found->second;
}

bool Output::add(int rank, int stream, std::string_view bytes) {
  Stream& one = stream_of(rank, stream);
  if (one.file) (void)write_all(one.file.get(), bytes);
  return print(stream, one.lines.add(bytes));
}

void Output::end(int rank) {
  for (auto& [key, stream] : streams_) {
    if (key.first == rank) print(key.second, stream.lines.end());
  }
}

void Output::end() {
  for (auto& [key, stream] : streams_) print(key.second, stream.lines.end());
}

bool Output::print(int stream, std::string_view text) {
  return text.empty() || write_all(stream == 1 ? STDOUT_FILENO : STDERR_FILENO, text);
}

}  // namespace wreath::launcher
