// Writes messages for people, one line and one write(2) each, on stderr or in WREATH_DEBUG_FILE.
//
//   wreath: warning: rank 3 (host h1, pid 4711): text
//
// Below the level of WREATH_DEBUG a message costs one load and is not formatted.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace wreath {

enum class LogLevel : int { Error, Warning, Info, Trace };

// Returns the level of WREATH_DEBUG, which is read at the first use.
LogLevel log_level();
// Reads WREATH_DEBUG again.
void reload_log_level();

// Sets the rank that this thread's messages name, as long as the object lives; -1 leaves the rank out. Ranks that are
// threads share a process, so it is per thread. Threads that serve several communicators set it around each piece of
// work.
class LogRank {
 public:
  explicit LogRank(int rank);
  LogRank(const LogRank&) = delete;
  LogRank& operator=(const LogRank&) = delete;
  ~LogRank();

 private:
  int previous_;
};

// Returns what a line begins with: "rank 3 (host h1, pid 4711)", or "host h1, pid 4711" without a rank.
std::string log_identity(int rank);

// Writes "wreath: error: IDENTITY: TEXT\n". Newlines of the text become spaces.
void log_line(LogLevel level, std::string_view text);

template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::Error, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() >= LogLevel::Warning) log_line(LogLevel::Warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() >= LogLevel::Info) log_line(LogLevel::Info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_trace(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() >= LogLevel::Trace) log_line(LogLevel::Trace, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace wreath
