// This file gets ranks from a launcher, or becomes a launcher.
#include "examples/train_gpt/run/ranks.hpp"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/process/child_process.hpp"
#include "wreath/environment.hpp"

namespace wreath::gpt {

namespace {

// Ranks that keep checkpoints have a last one to write when the job is ended.
constexpr const char* kSecondsForTheLastCheckpoint = "30";

Error become_launcher(const CommandLine& line, char** argv) {
  std::error_code failed;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) self = std::filesystem::absolute(process::own_program(), failed);
  const std::string launcher = (self.parent_path() / "wreath").string();
  const std::string number = std::to_string(line.train.mesh.ranks());
  std::string program = self.string();
  std::vector<char*> words;
  std::vector<std::string> own = {launcher, "run", "-n", number, "--no-prefix"};
  if (!line.checkpoint.empty()) own.insert(own.end(), {"--grace", kSecondsForTheLastCheckpoint});
  own.insert(own.end(), {"--", program});
  for (std::string& word : own) words.push_back(word.data());
  for (char** argument = argv + 1; *argument != nullptr; ++argument) words.push_back(*argument);
  words.push_back(nullptr);
  execv(launcher.c_str(), words.data());
  return {ErrorCode::StartupFailed,
          launcher + ": cannot be started (it launches the " + number + " ranks; or start them by torchrun or Slurm)"};
}

}  // namespace

Result<std::shared_ptr<Communicator>> join_or_start_ranks(const CommandLine& line, char** argv) {
  const int ranks = line.train.mesh.ranks();
  const Result<EnvironmentJob> job = environment_job();
  if (!job) return job.error();
  if (!job->launched && ranks > 1 && !job->strangers.empty()) {
    return Error{ErrorCode::InvalidArgument, job->strangers + ": start train_gpt by `wreath run`, or once"};
  }
  if (!job->launched && ranks > 1) return become_launcher(line, argv);
  if (job->launched && job->ranks != ranks) {
    return Error{ErrorCode::InvalidArgument, job->source + " say " + std::to_string(job->ranks) +
                                                 " ranks, but --dp x --pp x --cp x --tp is " + std::to_string(ranks)};
  }
  CommunicatorOptions communicator;
  if (line.train.device != nullptr) communicator.device = line.train.device->name();
  Result<Communicator> world = Communicator::create_from_environment(communicator);
  if (!world) return world.error();
  return std::make_shared<Communicator>(std::move(*world));
}

}  // namespace wreath::gpt
