// Reports exceptions and standard streams that are closed or full in our own words.
#include "src/command_line/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "src/base/printable.hpp"
#include "src/command_line/threads.hpp"
#include "wreath/environment.hpp"
#include "wreath/result.hpp"

namespace wreath::command_line {
namespace {

void open_standard_streams() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = ::open("/dev/null", O_RDWR);
  if (opened > STDERR_FILENO) (void)::close(opened);
}

int output_lost(const std::string& why) { return fail(exit_code(ErrorCode::System), "standard output: " + why); }

}  // namespace

// Writes with fputs, since fmt::print would throw where standard error is lost, too.
void complain(std::string_view text) {
  (void)std::fputs(("wreath: error: " + printable_lines(text) + "\n").c_str(), stderr);
}

void complain_of_usage(std::string_view text) {
  const auto job = environment_job();
  if (job && (job->local_rank >= 0 ? job->local_rank : job->rank) > 0) return;
  complain(text);
}

int fail(int code, std::string_view text) {
  complain(text);
  return code;
}

int fail(const Error& error) { return fail(exit_code(error.code), error.message); }

int run_main(const std::function<int()>& body) {
  open_standard_streams();
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& thrown) {
    if (std::ferror(stdout) != 0) return output_lost(std::strerror(errno));
    return fail(error_of(thrown));
  }
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  const int lost = output_lost(flushed ? "not all of it could be written" : std::strerror(errno));
  return code != 0 ? code : lost;
}

}  // namespace wreath::command_line
