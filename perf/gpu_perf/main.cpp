// gpu_perf: runs collectives of ranks that are threads, in streams of one device. It checks results that must be exact,
// and prints what small calls in a graph cost.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "perf/base/flags.hpp"
#include "perf/base/sizes.hpp"
#include "perf/base/streamed.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "src/command_line/numbers.hpp"
#include "src/command_line/program.hpp"
#include "src/json/value.hpp"
#include "wreath/device.hpp"
#include "wreath/topology.hpp"

namespace wreath::perf {
namespace {

struct GpuPart {
  std::string_view name;
  Status (*run)(const GpuSetup&, Results&);
};
constexpr std::array kParts{GpuPart{"graph", measure_graph}, GpuPart{"bits", prove_bits},
                            GpuPart{"mixed", prove_mixed}};

struct Options {
  std::vector<std::string> parts;
  std::string memory = "device";
  std::string json;
  std::string low_latency = "both";
  int budget_s = 0;
  bool machine = false;
  GpuSetup setup;
};

int fail(const Error& error) {
  fmt::print(stderr, "gpu_perf: {}\n", error.message);
  return exit_code(error.code);
}

// Returns the name of the first GPU as CUDA's driver gives it, such as "NVIDIA H200"; empty: it is not known. The
// library has started the driver.
std::string card_name() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return {};
  const auto get = reinterpret_cast<int (*)(int*, int)>(::dlsym(library, "cuDeviceGet"));
  const auto get_name = reinterpret_cast<int (*)(char*, int, int)>(::dlsym(library, "cuDeviceGetName"));
  std::array<char, 256> name{};
  int handle = 0;
  const bool known = get != nullptr && get_name != nullptr && get(&handle, 0) == 0 &&
                     get_name(name.data(), static_cast<int>(name.size()) - 1, handle) == 0;
  return known ? name.data() : "";
}

// Applies --quick and the words of the command line to the setup.
void choose(Options& options) {
  GpuSetup& setup = options.setup;
  if (options.low_latency != "both") setup.low_latency = {options.low_latency == "on"};
  if (!setup.quick) return;
  setup.most_bytes = std::min(setup.most_bytes, std::size_t{64} << 10);
  setup.iterations = 2;
  setup.calls = std::min(setup.calls, 100);
}

int run(Options& options) {
  const MemoryPlace place = *parse_memory_place(options.memory);
  const auto device = device_of(place, 0);
  if (!device) return fail(device.error());
  choose(options);
  GpuSetup& setup = options.setup;
  setup.device = *device;
  setup.memory = place == MemoryPlace::Pinned ? MemoryUse::Pinned : MemoryUse::Plain;
  const std::string name((*device)->name());
  const std::string card = place == MemoryPlace::HostDevice ? "the host's processor, no GPU" : card_name();
  Results results({name, card, options.memory, options.json, static_cast<double>(options.budget_s)});
  fmt::print("device {} ({}), {} memory; {}\n", name, card, options.memory, kOneGpu);
  for (const GpuPart& part : kParts) {
    const bool wanted = std::find(options.parts.begin(), options.parts.end(), part.name) != options.parts.end();
    if (!wanted && !options.parts.empty()) continue;
    results.begin(part.name);
    const Status done = part.run(setup, results);
    if (!done) results.note("all of it", done.error());
  }
  if (const Status written = results.write(); !written) return fail(written.error());
  return results.failed() ? 1 : results.empty() ? exit_code(ErrorCode::Unavailable) : 0;
}

// Prints the description of this machine for a report, as JSON. Returns 77 where there is no GPU.
int print_machine() {
  const auto devices = cuda_devices();
  const auto first = devices && *devices > 0 ? cuda_device(0) : Result<Device*>(nullptr);
  if (!devices || *devices == 0 || !first) {
    const std::string why = !devices ? devices.error().message
                            : !first ? first.error().message
                                     : "CUDA finds no device";
    fmt::print(stderr, "no GPU here: {}\n", why);
    return exit_code(ErrorCode::Unavailable);
  }
  Json machine{{"version", WREATH_VERSION},
               {"commit", WREATH_COMMIT},
               {"card", card_name()},
               {"gpus", Json::array()},
               {"note", kOneGpu}};
  for (const Gpu& gpu : read_topology().gpus) {
    if (!gpu.driver.empty()) machine["gpus"].push_back(fmt::format("{} ({})", gpu.name, gpu.place.address));
  }
  fmt::print("{}\n", machine.dump());
  return 0;
}

int main_of(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  for (const GpuPart& part : kParts) names.emplace_back(part.name);
  const command_line::Program app(
      "Collectives of ranks that are threads, in streams of one device: exact results, and graphs of small calls.");
  app.add_option("--parts", options.parts, "these only").delimiter(',').one_of(names);
  app.add_option("--memory", options.memory,
                 "of the first GPU, pinned for it, or of the device made of host threads (host-device)")
      .one_of({"device", "pinned", "host-device"})
      .capture_default_str();
  command_line::add_numbers(app, "--ranks", options.setup.ranks, {1, 64}, "ranks, each a thread").delimiter(',');
  app.add_text(
         "--most", [&](const std::string& text) { options.setup.most_bytes = *parse_size(text); },
         "largest size of the part graph")
      .type_name("SIZE")
      .check(check_size);
  command_line::add_number(app, "--iterations", options.setup.iterations, {1, 1'000'000}, "timed launches")
      .capture_default_str();
  command_line::add_number(app, "--calls", options.setup.calls, {1, 100'000'000}, "of the part mixed")
      .capture_default_str();
  command_line::add_number(app, "--streams", options.setup.streams, {1, 64}, "of each rank in the part mixed")
      .capture_default_str();
  app.add_flag("--quick", options.setup.quick, "small sizes and few calls: that it works, not how fast");
  app.add_option("--low-latency", options.low_latency,
                 "small all_reduces as kernels of their own, where both are measured or proved")
      .one_of({"both", "on", "off"})
      .capture_default_str();
  command_line::add_number(app, "--budget", options.budget_s, {0, 86'400},
                           "seconds after which nothing more is begun, and what is left is listed; 0: any")
      .capture_default_str();
  app.add_option("--json", options.json, "the numbers, as JSON, written after each")
      .type_name("FILE")
      .check(check_output_file);
  app.add_flag("--machine", options.machine, "print what a report says of this machine's GPUs, as JSON, and end");
  app.footer(
      "Times are of events in the streams. One device: what links devices is not measured.\n"
      "exit: 0 ok, 1 wrong results or an error, 2 usage, 77 there is no such device here, or nothing of it could run");
  if (const auto code = app.parse(argc, argv)) return *code;
  // Each line is printed at once, so that the output shows the finished parts where the run is cut short.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  set_cuda_environment();
  return options.machine ? print_machine() : run(options);
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  return wreath::command_line::run_main([&] { return wreath::perf::main_of(argc, argv); });
}
