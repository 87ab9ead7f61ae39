// The subcommand `wreath tune`: reads its arguments for the code in perf/tune.
#include "perf/tune/tune.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "tools/commands.hpp"
#include "wreath/units.hpp"

namespace wreath {
namespace {

constexpr int kTuneUsage = 2;

struct TuneArguments {
  perf::TuneRequest request;
  std::vector<int> more_ranks;
  std::vector<std::string> transports;
  std::vector<std::string> collectives;
  std::string memory = "host";
  std::string smallest = "8";
  std::string largest = "64M";
};

int run(TuneArguments& arguments) {
  perf::TuneRequest& request = arguments.request;
  for (const int ranks : arguments.more_ranks) {
    if (ranks != 2) request.ranks.push_back(ranks);
  }
  request.transports = arguments.transports.empty() ? usable_between_processes() : arguments.transports;
  for (const std::string& name : arguments.transports) {
    const Status usable = find_transport(name)->usable();
    if (!usable)
      return command_line::fail({usable.error().code, fmt::format("--transport {}: {}", name, usable.error().message)});
  }
  for (const std::string& each : arguments.collectives) {
    const auto collective = parse_collective(each);
    const bool tuned = collective && *collective != Collective::Barrier && *collective != Collective::Exchange;
    if (!tuned)
      return command_line::fail(kTuneUsage, fmt::format("--collective {}: there is nothing to choose for it", each));
    request.collectives.push_back(*collective);
  }
  request.memory = perf::parse_memory_place(arguments.memory).value();  // one of the option's words
  if (perf::streams(request.memory)) perf::set_cuda_environment();
  const auto smallest = parse_bytes(arguments.smallest);
  const auto largest = parse_bytes(arguments.largest);
  if (!smallest || !largest) return command_line::fail(kTuneUsage, (smallest ? largest : smallest).error().message);
  if (*smallest < 1 || *smallest > *largest) {
    return command_line::fail(kTuneUsage, fmt::format("--smallest {} --largest {}: at least a byte, and in this order",
                                                      arguments.smallest, arguments.largest));
  }
  request.smallest = *smallest;
  request.largest = *largest;
  request.command = {"wreath", "tune", "--smallest", arguments.smallest, "--largest", arguments.largest};
  for (const std::string& each : arguments.transports)
    request.command.insert(request.command.end(), {"--transport", each});
  for (const std::string& each : arguments.collectives)
    request.command.insert(request.command.end(), {"--collective", each});
  return perf::tune(request);
}

}  // namespace

std::function<int()> add_tune(const command_line::Command& command) {
  const auto arguments = std::make_shared<TuneArguments>();
  command_line::add_numbers(command, "--ranks", arguments->more_ranks, {2, 64},
                            "tune N ranks of this host, too (2 are always tuned)");
  command.add_option("--transport", arguments->transports, "between ranks (default: all of these that work here)")
      .one_of(transports_between_processes());
  command.add_option("--collective", arguments->collectives, "all_reduce, broadcast, ... (default: all)")
      .type_name("NAME");
  command
      .add_option("--memory", arguments->memory,
                  "of the buffers; device: of GPUs, one for each rank in turn; host-device: the same made of "
                  "threads, to try it (name an --output: nothing reads what it measured)")
      .capture_default_str()
      .one_of({"host", "device", "host-device"});
  command.add_option("--smallest", arguments->smallest, "smallest size").capture_default_str().type_name("SIZE");
  command.add_option("--largest", arguments->largest, "largest size").capture_default_str().type_name("SIZE");
  command_line::add_number(command, "--seconds", arguments->request.seconds, {1, 36000},
                           "how long each number of ranks may take, about")
      .type_name("SECONDS")
      .capture_default_str();
  command.add_option("-o,--output", arguments->request.output, "the file (default: this machine's in your cache)")
      .type_name("FILE");
  command.add_option("--start-descriptor", arguments->request.start_descriptor).group("");
  command.add_option("--part-file", arguments->request.part_file).group("");
  command.footer(
      "Every row of the table of algorithms that serves the ranks, with several tiles, in turns; who is far behind\n"
      "leaves early. The times are medians. Leave the machine alone meanwhile. Communicators of this machine read the\n"
      "file from the cache by themselves; WREATH_TUNING names another one, or none. What was measured for another\n"
      "--memory stays in the file.\n\n"
      "Examples:\n"
      "  wreath tune\n"
      "  wreath tune --ranks 4 8 --seconds 90 --output cluster.json\n"
      "  wreath tune --memory device --ranks 4 8\n"
      "  wreath plan explain all_reduce 64M");
  return [arguments] { return run(*arguments); };
}

}  // namespace wreath
