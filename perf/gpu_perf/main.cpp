// gpu_perf: collectives of ranks that are threads, in streams of one device: times beside the device's own copies, and
// results that must be exact.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "perf/common/flags.hpp"
#include "perf/common/sizes.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "tools/command_line/numbers.hpp"
#include "tools/command_line/program.hpp"

namespace wreath::perf {
namespace {

struct GpuPart {
  std::string_view name;
  Result<PartReport> (*run)(const GpuSetup&);
};
constexpr std::array kParts{GpuPart{"copy", measure_copies},
                            GpuPart{"all_reduce", measure_all_reduce},
                            GpuPart{"executors", measure_executors},
                            GpuPart{"graph", measure_graph},
                            GpuPart{"bits", prove_bits},
                            GpuPart{"mixed", prove_mixed}};

struct Options {
  std::vector<std::string> parts;
  std::string device = "cuda:0";
  std::string memory = "device";
  std::string json;
  bool quick = false;
  GpuSetup setup;
};

int fail(const Error& error) {
  fmt::print(stderr, "gpu_perf: {}\n", error.message);
  return exit_code(error.code);
}

Result<Device*> find_device(const std::string& name) {
  if (name == "host") return &host_device();
  return cuda_device(name == "cuda:0" ? 0 : std::stoi(name.substr(name.find(':') + 1)));
}

int run(Options& options) {
  const auto device = find_device(options.device);
  if (!device) return fail(device.error());
  options.setup.device = *device;
  options.setup.memory = options.memory == "pinned" ? MemoryUse::Pinned : MemoryUse::Plain;
  if (options.quick) {
    options.setup.most_bytes = std::min(options.setup.most_bytes, std::size_t{64} << 10);
    options.setup.iterations = 2;
    options.setup.calls = 100;
  }
  fmt::print("device {}, {} memory{}\n", options.device, options.memory,
             options.device == "host" ? ": the host's processor, no GPU" : "; one device: no link between devices");
  nlohmann::ordered_json json{{"device", options.device}, {"memory", options.memory}};
  bool wrong = false;
  for (const GpuPart& part : kParts) {
    const bool wanted = std::find(options.parts.begin(), options.parts.end(), part.name) != options.parts.end();
    if (!wanted && !options.parts.empty()) continue;
    const auto report = part.run(options.setup);
    if (!report) return fail(report.error());
    json[std::string(part.name)] = report->json;
    wrong = wrong || report->wrong;
  }
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << json.dump(2) << "\n";
    file.close();
    if (!file) return fail({ErrorCode::System, "--json " + options.json + ": not written"});
  }
  return wrong ? 1 : 0;
}

std::string check_device(const std::string& name) {
  const bool cuda = name.starts_with("cuda:") && name.size() > 5 && name.size() < 9 &&
                    name.find_first_not_of("0123456789", 5) == std::string::npos;
  return cuda || name == "host" ? "" : fmt::format("'{}' is no device: give host, cuda:0, cuda:1 ...", name);
}

int main_of(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  for (const GpuPart& part : kParts) names.emplace_back(part.name);
  CLI::App app("Collectives of ranks that are threads, in streams of one device: times, and exact results.");
  command_line::set_style(app);
  command_line::one_of(app.add_option("--parts", options.parts, "these only")->delimiter(','), names);
  app.add_option("--device", options.device, "cuda:0 and so on; host: the device made of host threads")
      ->check(check_device)
      ->capture_default_str();
  command_line::one_of(app.add_option("--memory", options.memory, "of the buffers"), {"device", "pinned"})
      ->capture_default_str();
  command_line::add_numbers(app, "--ranks", options.setup.ranks, {1, 64}, "ranks, each a thread")->delimiter(',');
  app.add_option_function<std::string>(
         "--most", [&](const std::string& text) { options.setup.most_bytes = *parse_size(text); }, "largest size")
      ->type_name("SIZE")
      ->check(check_size);
  command_line::add_number(app, "--iterations", options.setup.iterations, {1, 1'000'000}, "timed calls, or launches")
      ->capture_default_str();
  command_line::add_number(app, "--calls", options.setup.calls, {1, 100'000'000}, "of the part mixed")
      ->capture_default_str();
  app.add_flag("--quick", options.quick, "small sizes and few calls: that it works, not how fast");
  app.add_option("--json", options.json, "the numbers, as JSON")->type_name("FILE")->check(check_output_file);
  app.footer(
      "Times are of events in the streams. One device: what links devices is not measured.\n"
      "exit: 0 ok, 1 wrong results or an error, 2 usage, 77 there is no such device here");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    return command_line::finish(app, error);
  }
  return run(options);
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::main_of(argc, argv); });
}
