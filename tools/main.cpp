// The `wreath` command: a table of subcommands.
#include <fmt/format.h>

#include <array>
#include <cstdio>

#include "tools/commands.hpp"

namespace wreath {
namespace {

struct Subcommand {
  const char* name;
  const char* meaning;
  AddCommand add;
};

// A new subcommand is its own file and one row here.
constexpr std::array kSubcommands{
    Subcommand{"key", "make the key that ranks of several hosts share", add_key},
    Subcommand{"plan", "look at the schedules of collectives, and prove them", add_plan},
    Subcommand{"why", "say who is behind, in which call, and what differs", add_why},
};

constexpr int kUsage = 2;

int run(int argc, char** argv) {
  CLI::App app{"Looks into Wreath, the collective communication library.", "wreath"};
  app.require_subcommand(1);
  std::array<std::function<int()>, kSubcommands.size()> actions;
  for (std::size_t i = 0; i < kSubcommands.size(); ++i) {
    CLI::App* command = app.add_subcommand(kSubcommands[i].name, kSubcommands[i].meaning);
    actions[i] = kSubcommands[i].add(*command);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  for (std::size_t i = 0; i < kSubcommands.size(); ++i) {
    if (app.got_subcommand(kSubcommands[i].name)) return actions[i]();
  }
  return kUsage;
}

}  // namespace
}  // namespace wreath

int main(int argc, char** argv) {
  try {
    return wreath::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "wreath: error: {}\n", error.what());
    return 1;
  }
}
