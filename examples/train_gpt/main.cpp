// train_gpt: a GPT trained over ranks in any mesh. `train_gpt --help` says how.
#include <cstdio>
#include <exception>
#include <optional>

#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/run/elastic.hpp"
#include "examples/train_gpt/run/ranks.hpp"
#include "examples/train_gpt/run/session.hpp"

namespace wreath::gpt {
namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "wreath: error: %s\n", error.message.c_str());
  return exit_code(error.code);
}

int run(const CommandLine& line, char** argv) {
  const Result<std::optional<ElasticJob>> elastic = elastic_job();
  if (!elastic) return fail(elastic.error());
  if (*elastic) {
    int code = 0;
    const Status done = train_elastic(**elastic, line, code);
    if (!done) static_cast<void>(fail(done.error()));
    return code;
  }
  Result<std::shared_ptr<Communicator>> world = join_or_start_ranks(line.train.mesh.ranks(), argv);
  if (!world) return fail(world.error());
  const Status done = train(*world, line);
  return done ? 0 : fail(done.error());
}

}  // namespace
}  // namespace wreath::gpt

int main(int argc, char** argv) {
  wreath::gpt::CommandLine line;
  if (const std::optional<int> code = wreath::gpt::parse(argc, argv, line)) return *code;
  try {
    return wreath::gpt::run(line, argv);
  } catch (const wreath::Exception& failure) {
    return wreath::gpt::fail(failure.error());
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "wreath: error: %s\n", failure.what());
    return 1;
  }
}
