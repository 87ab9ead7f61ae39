// Formats and writes log lines.
#include "src/base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "src/base/config.hpp"
#include "src/base/io.hpp"
#include "src/base/printable.hpp"

namespace wreath {
namespace {

thread_local int t_rank = -1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

std::string host_name() {
  std::array<char, 256> text{};
  if (gethostname(text.data(), text.size() - 1) != 0) return "unknown";
  return printable(text.data());
}

std::string_view word(LogLevel level) {
  switch (level) {
    case LogLevel::Error: return "error";
    case LogLevel::Warning: return "warning";
    case LogLevel::Info: return "info";
    case LogLevel::Trace: return "trace";
  }
  return "info";
}

void write_line(int descriptor, std::string_view line) {
  const int saved_errno = errno;
  // A failure is ignored, for there is no other place to report it.
  static_cast<void>(write_all(descriptor, line));
  errno = saved_errno;
}

std::string make_line(LogLevel level, std::string_view text) {
  std::string one_line(text);
  std::replace(one_line.begin(), one_line.end(), '\n', ' ');
  return fmt::format("wreath: {}: {}: {}\n", word(level), log_identity(t_rank), printable(one_line));
}

std::string expand_file_name(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') path += host_name();
    if (next == 'p') path += fmt::format("{}", getpid());
    if (next == 'h' || next == 'p') {
      ++i;
    } else {
      path += pattern[i];
    }
  }
  return path;
}

// Returns the descriptor that lines go to. It is opened at the first line and kept for the life of the process.
int descriptor() {
  static const int opened = [] {
    if (!is_set(Setting::DebugFile)) return STDERR_FILENO;
    const std::string path = expand_file_name(setting_text(Setting::DebugFile));
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0) return file;
    write_line(STDERR_FILENO,
               make_line(LogLevel::Warning, fmt::format("WREATH_DEBUG_FILE={} cannot be opened: errno {}; "
                                                        "logging to stderr",
                                                        path, errno)));
    return STDERR_FILENO;
  }();
  return opened;
}

LogLevel level_from_environment() {
  const std::string text = setting_text(Setting::Debug);
  if (text == "WARN") return LogLevel::Warning;
  if (text == "INFO") return LogLevel::Info;
  if (text == "TRACE") return LogLevel::Trace;
  write_line(descriptor(), make_line(LogLevel::Warning,
                                     fmt::format("WREATH_DEBUG={} must be WARN, INFO or TRACE; using WARN", text)));
  return LogLevel::Warning;
}

std::atomic<LogLevel>& level() {
  static std::atomic<LogLevel> current = level_from_environment();
  return current;
}

}  // namespace

LogLevel log_level() { return level().load(std::memory_order_relaxed); }
void reload_log_level() { level().store(level_from_environment(), std::memory_order_relaxed); }

LogRank::LogRank(int rank) : previous_(t_rank) { t_rank = rank; }
LogRank::~LogRank() { t_rank = previous_; }

std::string log_identity(int rank) {
  const std::string place = fmt::format("host {}, pid {}", host_name(), getpid());
  return rank < 0 ? place : fmt::format("rank {} ({})", rank, place);
}

void log_line(LogLevel level, std::string_view text) { write_line(descriptor(), make_line(level, text)); }

}  // namespace wreath
