// train_gpt trains a GPT over ranks in any mesh. `train_gpt --help` describes its use.
#include <optional>

#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/run/device.hpp"
#include "examples/train_gpt/run/elastic.hpp"
#include "examples/train_gpt/run/ranks.hpp"
#include "examples/train_gpt/run/session.hpp"
#include "src/command_line/program.hpp"

namespace wreath::gpt {
namespace {

using command_line::fail;

int end(const Ending& ending) {
  if (!ending.status && ending.tells) command_line::complain(ending.status.error().message);
  return ending.code;
}

constexpr int kNoDevice = 77;

// Puts the device of --device into the options. Returns the exit code where there is no such device.
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
  return end(train_elastic(job, line));
}

// A process that joins an elastic job has no place yet, so its environment is not asked for one.
int run(CommandLine line, char** argv) {
  const Result<std::optional<ElasticJob>> elastic = elastic_job();
  if (!elastic) return fail(elastic.error());
  if (*elastic) return run_elastic(**elastic, line);
  if (const std::optional<int> code = take_device(line)) return *code;
  Result<std::shared_ptr<Communicator>> world = join_or_start_ranks(line, argv);
  if (!world) return fail(world.error());
  return end(train(*world, line));
}

int parse_and_run(int argc, char** argv) {
  CommandLine line;
  if (const std::optional<int> code = parse(argc, argv, line)) return *code;
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
