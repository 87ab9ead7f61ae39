// The subcommand `wreath topo`: shows the parts of this machine, and the links between ranks on it.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "src/base/text_file.hpp"
#include "src/command_line/numbers.hpp"
#include "tools/commands.hpp"
#include "tools/topo/outline.hpp"
#include "tools/topo/show.hpp"
#include "wreath/communicator.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

struct TopoArguments {
  int ranks = 0;
  bool job = false;
  bool json = false;
  std::string svg;
  std::string root;
};

constexpr int kMostTopoRanks = 256;

int complain_of(const Error& error) {
  fmt::print(stderr, "wreath: error: topo: {}\n", error.message);
  return exit_code(error.code);
}

Status check_topo(const TopoArguments& arguments) {
  WREATH_TRY(check_root(arguments.root));
  const int ways = (arguments.ranks > 0 ? 1 : 0) + (arguments.job ? 1 : 0) + (arguments.root.empty() ? 0 : 1);
  if (ways > 1) {
    return Error{ErrorCode::InvalidArgument,
                 "--ranks starts ranks here, --job is a launcher's, --root another machine: one of them"};
  }
  return {};
}

Result<RanksShown> local_ranks(const Topology& topology, int ranks) {
  RanksShown shown{share_cores(topology, ranks), {}};
  if (ranks == 1) {
    shown.links = {{topology.host}, {}, {-1}};
    return shown;
  }
  auto links = link_local_ranks(ranks);
  if (!links) return links.error();
  shown.links = *std::move(links);
  return shown;
}

// Describes the devices that programs with CUDA find here. A copy of another machine's files cannot tell that.
std::string cuda_here() {
  const auto devices = cuda_devices();
  return devices ? fmt::format("{} device{}", *devices, *devices == 1 ? "" : "s") : devices.error().message;
}

Status show(const TopoArguments& arguments, const Topology& topology, const RanksShown& ranks) {
  if (!arguments.svg.empty()) {
    const Status written = write_output(arguments.svg, topology_svg(topology, ranks));
    if (!written) return Error{written.error().code, "--svg: " + written.error().message};
  }
  if (arguments.json) {
    Json json = topology_json(topology);
    if (ranks.links.ranks() > 0) json["ranks"] = ranks_json(ranks);
    fmt::print("{}\n", json.dump({.indent = 1, .sorted = true, .strict = false}));
    return {};
  }
  fmt::print("{}", topology_tree(topology, can_draw_lines()));
  if (arguments.root.empty()) fmt::print("CUDA: {}\n", cuda_here());
  if (ranks.links.ranks() > 0) fmt::print("\n{}", ranks_table(ranks));
  return {};
}

// Shows the ranks of a launcher's job. Every rank runs this, and rank 0 prints for all.
Status show_job(const TopoArguments& arguments, const Topology& topology) {
  auto communicator = Communicator::create_from_environment();
  if (!communicator) return communicator.error();
  auto links = gather_links(*communicator);
  if (!links) return links.error();
  if (communicator->rank() != 0) return {};
  return show(arguments, topology, {{}, *std::move(links)});
}

Status run(const TopoArguments& arguments) {
  WREATH_TRY(check_topo(arguments));
  // Ranks are forked before this process makes a thread.
  const Topology topology = read_topology(arguments.root);
  if (arguments.ranks > 0) {
    warn_of_strangers();
    const auto ranks = local_ranks(topology, arguments.ranks);
    return ranks ? show(arguments, topology, *ranks) : Status(ranks.error());
  }
  if (arguments.job) return show_job(arguments, topology);
  return show(arguments, topology, {});
}

}  // namespace

std::function<int()> add_topo(const command_line::Command& command) {
  command.description(
      "what this machine is made of: packages, NUMA nodes, caches, cores, GPUs, networks; and which transport links "
      "which ranks, and why");
  const auto arguments = std::make_shared<TopoArguments>();
  command_line::add_number(command, "--ranks", arguments->ranks, {1, kMostTopoRanks},
                           "start so many processes here, and show what links them");
  command.add_flag("--job", arguments->job,
                   "all ranks of a job run this, as in `wreath run -n 4 wreath topo --job`: "
                   "rank 0 shows its machine, and what links them");
  command.add_flag("--json", arguments->json, "as JSON (docs/formats.md has the keys)");
  command.add_option("--svg", arguments->svg, "also draw it, into this file").type_name("FILE").check(not_empty);
  command.add_option("--root", arguments->root, "read /sys and /proc below this folder: a copy of another machine's")
      .type_name("FOLDER")
      .check(not_empty);
  return [arguments] {
    const Status status = run(*arguments);
    return status ? 0 : complain_of(status.error());
  };
}

}  // namespace wreath
