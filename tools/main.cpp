// The `wreath` command: a table of subcommands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "src/command_line/program.hpp"
#include "tools/commands.hpp"

namespace wreath {
namespace {

struct Subcommand {
  const char* name;
  const char* meaning;
  AddCommand add;
};

// The subcommands. A new one needs its own file and one row here.
constexpr std::array kSubcommands{
    Subcommand{"doctor", "say what the library needs of this machine", add_doctor},
    Subcommand{"key", "make the key that ranks of several hosts share", add_key},
    Subcommand{"plan", "look at the schedules of collectives, and prove them", add_plan},
    Subcommand{"run", "start a program as ranks, on this host and others", add_run},
    Subcommand{"topo", "show what this machine is made of, and what links ranks on it", add_topo},
    Subcommand{"trace", "join the traces of ranks for a viewer", add_trace},
    Subcommand{"tune", "measure which algorithms are fastest on this machine, for its communicators", add_tune},
    Subcommand{"why", "say who is behind, in which call, and what differs", add_why},
};

constexpr int kUsage = 2;

bool known(std::string_view name) {
  return std::any_of(kSubcommands.begin(), kSubcommands.end(), [&](const Subcommand& row) { return row.name == name; });
}

std::string help_of(int argc, char** argv) {
  if (argc > 1 && known(argv[1])) return fmt::format("`wreath {} --help` explains it", argv[1]);
  return "`wreath --help` lists the subcommands";
}

int run(int argc, char** argv) {
  const command_line::Program app("Looks into Wreath, the collective communication library.", "wreath");
  app.version("wreath " WREATH_VERSION);
  app.require_subcommand();
  std::array<std::function<int()>, kSubcommands.size()> actions;
  for (std::size_t i = 0; i < kSubcommands.size(); ++i) {
    actions[i] = kSubcommands[i].add(app.add_subcommand(kSubcommands[i].name, kSubcommands[i].meaning));
  }
  if (const auto ending = app.read(argc, argv)) {
    if (ending->code == 0) fmt::print("{}", ending->text);
    if (ending->code != 0) command_line::complain_of_usage(ending->text + "\n" + help_of(argc, argv));
    return ending->code;
  }
  for (std::size_t i = 0; i < kSubcommands.size(); ++i) {
    if (app.got_subcommand(kSubcommands[i].name)) return actions[i]();
  }
  return kUsage;
}

}  // namespace
}  // namespace wreath

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::run(argc, argv); });
}
