// train_gpt: a GPT trained over ranks in any mesh. `train_gpt --help` says how.
#include <malloc.h>

#include <climits>
#include <cstdio>
#include <optional>

#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/run/device.hpp"
#include "examples/train_gpt/run/elastic.hpp"
#include "examples/train_gpt/run/ranks.hpp"
#include "examples/train_gpt/run/session.hpp"
#include "tools/command_line/program.hpp"

namespace wreath::gpt {
namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "wreath: error: %s\n", error.message.c_str());
  return exit_code(error.code);
}

// Each step asks for the blocks that the one before freed: they stay in the process, whose pages would else be faulted
// in again at every step (a sixth of its time).
#ifdef M_TRIM_THRESHOLD
void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
}
#else  // the C library has no such setting
void keep_freed_memory() {}
#endif

constexpr int kNoDevice = 77;

// What --device names, into the options. The exit code where there is none.
std::optional<int> take_device(CommandLine& line) {
  const Result<EnvironmentJob> job = environment_job();
  if (!job) return fail(job.error());
  const Result<Device*> device = find_device(line.device, *job);
  if (!device) return fail(device.error()), device.error().code == ErrorCode::Unavailable ? kNoDevice : 2;
  line.train.device = *device;
  if (const Status fits = check(line.train); !fits) return fail(fits.error()), 2;
  return std::nullopt;
}

int run_elastic(const ElasticJob& job, const CommandLine& line) {
  if (!line.device.empty()) {
    return fail({ErrorCode::InvalidArgument, "--device " + line.device + ": not in an elastic job yet"});
  }
  if (const Status fits = check(line.train); !fits) return fail(fits.error());
  int code = 0;
  const Status done = train_elastic(job, line, code);
  if (!done) static_cast<void>(fail(done.error()));
  return code;
}

// A process that joins an elastic job has no place yet: its environment is not asked for one.
int run(CommandLine line, char** argv) {
  const Result<std::optional<ElasticJob>> elastic = elastic_job();
  if (!elastic) return fail(elastic.error());
  if (*elastic) return run_elastic(**elastic, line);
  if (const std::optional<int> code = take_device(line)) return *code;
  Result<std::shared_ptr<Communicator>> world = join_or_start_ranks(line.train, argv);
  if (!world) return fail(world.error());
  const Status done = train(*world, line);
  return done ? 0 : fail(done.error());
}

int parse_and_run(int argc, char** argv) {
  CommandLine line;
  if (const std::optional<int> code = parse(argc, argv, line)) return *code;
  keep_freed_memory();
  try {
    return run(line, argv);
  } catch (const Exception& failure) {
    return fail(failure.error());
  }
}

}  // namespace
}  // namespace wreath::gpt

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::gpt::parse_and_run(argc, argv); });
}
