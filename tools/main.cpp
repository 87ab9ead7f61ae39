// The `wreath` command: a table of subcommands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "tools/command_line/program.hpp"
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

// CLI11 would only say that a subcommand is missing.
void refuse_unknown(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  for (int at = 1; at < argc && argv[at][0] != '-' && command->get_require_subcommand_min() > 0; ++at) {
    const auto next = command->get_subcommands([&](const CLI::App* each) { return each->check_name(argv[at]); });
    if (next.empty()) throw CLI::ExtrasError({argv[at]});
    command = next.front();
  }
}

std::string help_of(int argc, char** argv) {
  if (argc > 1 && known(argv[1])) return fmt::format("`wreath {} --help` explains it", argv[1]);
  return "`wreath --help` lists the subcommands";
}

int run(int argc, char** argv) {
  CLI::App app{"Looks into Wreath, the collective communication library.", "wreath"};
  command_line::set_style(app);
  app.set_version_flag("--version", "wreath " WREATH_VERSION);
  app.require_subcommand(1);
  std::array<std::function<int()>, kSubcommands.size()> actions;
  for (std::size_t i = 0; i < kSubcommands.size(); ++i) {
    CLI::App* command = app.add_subcommand(kSubcommands[i].name, kSubcommands[i].meaning);
    actions[i] = kSubcommands[i].add(*command);
  }
  try {
    refuse_unknown(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "wreath: error: {}\n{}\n", command_line::words_of(app, error), help_of(argc, argv));
    return kUsage;
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
