// Starts a rank whose streams are pipes to its launcher.
#include "tools/run/rank_process.hpp"

#include <fcntl.h>

#include "src/process/child_process.hpp"

namespace wreath::launcher {

Result<RankProcess> start_rank(const RankSpecification& specification) {
  auto output = process::make_pipe();
  if (!output) return output.error();
  auto errors = process::make_pipe();
  if (!errors) return errors.error();
  const auto pid = process::start_child({.command = specification.command,
                                         .environment = specification.environment,
                                         .folder = specification.folder,
                                         .processors = specification.processors,
                                         .group = 0,
                                         .output = output->write.get(),
                                         .errors = errors->write.get()});
  if (!pid) return pid.error();
  for (const int end : {output->read.get(), errors->read.get()}) (void)::fcntl(end, F_SETFL, O_NONBLOCK);
  return RankProcess{*pid, std::move(output->read), std::move(errors->read)};
}

}  // namespace wreath::launcher
