// The subcommand `wreath key`: makes the file by which ranks of several hosts trust each other.
#include "wreath/key.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "src/command_line/program.hpp"
#include "tools/commands.hpp"

namespace wreath {

std::function<int()> add_key(const command_line::Command& command) {
  command.description("make ~/.config/wreath/key, the secret that ranks of several hosts share");
  const auto force = std::make_shared<bool>(false);
  command.add_flag("--force", *force, "replace the key that is there; running jobs keep the old one");
  return [force] {
    const auto path = create_key_file(*force);
    if (!path) return command_line::fail(path.error());
    fmt::print("{}\n", *path);
    return 0;
  };
}

}  // namespace wreath
