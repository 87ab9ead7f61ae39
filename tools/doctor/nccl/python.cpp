// Python: what its packages ship, and how each of them comes to its NCCL.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "tools/doctor/nccl/report.hpp"

namespace wreath {
namespace {

constexpr int kPatienceMs = 30'000;
constexpr std::size_t kMostOutput = 1 << 20;
constexpr const char* kQuestion = "import sys; print(sys.executable); print('\\n'.join(sys.path))";

// What a package loads. Those that need NCCL get it as the loader finds it; others open it by its name later.
struct PackageRow {
  const char* name;
  const char* folder;
  const char* file;         // how its name begins
  bool pathfinder = false;  // cuda-pathfinder first opens NVIDIA's package for it, by its path
};
constexpr PackageRow kPackages[] = {
    {"torch", "torch/lib", "libtorch_cuda.so"},
    {"cupy", "cupy_backends/cuda/libs", "nccl.", true},
    {"jax (CUDA 12)", "jax_plugins/xla_cuda12", "xla_cuda_plugin.so"},
    {"jax (CUDA 13)", "jax_plugins/xla_cuda13", "xla_cuda_plugin.so"},
    {"tensorflow", "tensorflow", "libtensorflow_cc.so"},
    {"horovod", "horovod/torch", "mpi_lib"},
};
constexpr const char* kOwnFile = "nvidia/nccl/lib/libnccl.so.2";  // of the packages nvidia-nccl-cu12 and -cu13

// The child's output, read until it ends or the time is over.
Result<std::string> read_all(const Fd& from, Deadline end) {
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() < kMostOutput) {
    pollfd ready{from.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, end.left_ms());
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return Error{ErrorCode::Timeout, "does not answer"};
    const ssize_t got = ::read(from.get(), piece.data(), piece.size());
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

Result<std::string> answer_of(const std::string& interpreter) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{ErrorCode::System, std::strerror(errno)};
  const Fd reads(ends[0]);
  Fd writes(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDOUT_FILENO);
  std::array<std::string, 3> words = {interpreter, "-c", kQuestion};
  std::array<char*, 4> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, interpreter.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error{ErrorCode::InvalidArgument, std::strerror(failed)};
  writes = Fd();
  Result<std::string> text = read_all(reads, Deadline::after_ms(kPatienceMs));
  if (!text) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (text && status != 0) return Error{ErrorCode::InvalidArgument, "is no Python interpreter: it failed"};
  return text;
}

// The file of a package in one of the folders of sys.path; empty: it is not installed, or has no such file.
std::string file_of(const PackageRow& row, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code none;
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/" + row.folder, none))
      if (entry.path().filename().string().starts_with(row.file)) files.insert(entry.path().string());
    if (!files.empty()) return *files.begin();
  }
  return {};
}

struct Python {
  std::string executable;
  std::vector<std::string> folders;
  std::vector<std::string> variables;
  LoaderEnvironment environment;
};

// NVIDIA's own file in the packages; empty: none.
std::string wheel_of(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string file = folder + "/" + kOwnFile;
    if (::access(file.c_str(), R_OK) == 0) return file;
  }
  return {};
}

std::optional<NcclUse> use_of_package(const Python& python, const PackageRow& row, const std::string& file) {
  Loader loader(python.environment);
  if (!loader.start(python.executable)) return std::nullopt;
  const std::string wheel = row.pathfinder ? wheel_of(python.folders) : std::string();
  if (!wheel.empty()) static_cast<void>(loader.open(wheel, 0));
  const auto opened = loader.open(file, 0);
  if (!opened) return std::nullopt;
  NcclUse use = use_of(loader, python.environment, row.name, *opened, "libnccl.so.2");
  if (!wheel.empty() && use.place.rule == "path") {
    use.place.of = "cuda-pathfinder";
    use.asks = file;
  }
  return use;
}

// vLLM opens VLLM_NCCL_SO_PATH, or the name, beside what torch has loaded.
void add_vllm(const Python& python, NcclReport& report) {
  const auto has = [](const std::string& folder) {
    std::error_code none;
    return std::filesystem::is_directory(folder + "/vllm", none);
  };
  if (std::none_of(python.folders.begin(), python.folders.end(), has)) return;
  const std::string named = value_of_variable(python.variables, "VLLM_NCCL_SO_PATH");
  Loader loader(python.environment);
  if (!loader.start(python.executable)) return;
  if (named.empty()) {
    const std::string torch = file_of(kPackages[0], python.folders);
    if (!torch.empty()) static_cast<void>(loader.open(torch, 0));
  }
  report.uses.push_back(use_of(loader, python.environment, "vllm", 0, named.empty() ? "libnccl.so.2" : named));
  if (!named.empty()) report.uses.back().place.of = "VLLM_NCCL_SO_PATH";
}

}  // namespace

Result<NcclReport> nccl_of_python(const std::string& interpreter, const std::vector<std::string>& variables) {
  const auto answer = answer_of(interpreter);
  if (!answer) return Error{answer.error().code, interpreter + ": " + answer.error().message};
  std::vector<std::string> lines = split_path(*answer, "\n");
  if (lines.size() < 2 || !lines[0].starts_with("/"))
    return Error{ErrorCode::InvalidArgument, interpreter + ": is no Python interpreter: it does not tell its paths"};
  Python python{lines[0], {}, variables, loader_environment(variables)};
  std::error_code ignored;
  python.environment.folder = std::filesystem::current_path(ignored).string();
  std::copy_if(lines.begin() + 1, lines.end(), std::back_inserter(python.folders),
               [](const std::string& folder) { return folder.starts_with("/"); });
  auto report = nccl_of_program(python.executable, python.environment);
  if (!report) return report;
  report->kind = "python";
  report->subject = python.executable;
  for (const PackageRow& row : kPackages) {
    const std::string file = file_of(row, python.folders);
    if (file.empty()) continue;
    if (auto use = use_of_package(python, row, file)) report->uses.push_back(std::move(*use));
  }
  add_vllm(python, *report);
  const std::string wheel = wheel_of(python.folders);
  if (!wheel.empty()) {
    const NcclIdentity identity = identify_nccl(wheel);
    report->notes.push_back(wheel + " is " + identity.library + " " + identity.version + ": for packages that name it");
  }
  return report;
}

}  // namespace wreath
