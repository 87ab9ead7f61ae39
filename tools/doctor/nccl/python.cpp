// Examines Python: the packages that are installed, and the way on which each of them gets its NCCL.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "src/process/child_process.hpp"
#include "tools/doctor/nccl/report.hpp"

namespace wreath {
namespace {

constexpr int kPatienceMs = 30'000;
constexpr const char* kQuestion = "import sys; print(sys.executable); print('\\n'.join(sys.path))";

// A package and the file that it loads. A file that needs NCCL gets it as the loader finds it; others open it by name
// later.
struct PackageRow {
  const char* name;
  const char* folder;
  const char* file;  // the start of its name
  // The cuda-pathfinder first opens NVIDIA's package for it, by its path.
  bool pathfinder = false;
};
constexpr PackageRow kPackages[] = {
    {"torch", "torch/lib", "libtorch_cuda.so"},
    {"cupy", "cupy_backends/cuda/libs", "nccl.", true},
    {"jax (CUDA 12)", "jax_plugins/xla_cuda12", "xla_cuda_plugin.so"},
    {"jax (CUDA 13)", "jax_plugins/xla_cuda13", "xla_cuda_plugin.so"},
    {"tensorflow", "tensorflow", "libtensorflow_cc.so"},
    {"horovod", "horovod/torch", "mpi_lib"},
};
// The file of the packages nvidia-nccl-cu12 and nvidia-nccl-cu13.
constexpr const char* kOwnFile = "nvidia/nccl/lib/libnccl.so.2";

Result<std::string> answer_of(const std::string& interpreter) {
  auto output = process::output_of({.command = {interpreter, "-c", kQuestion}}, kPatienceMs);
  if (!output) return output.error();
  if (output->status != 0) return Error{ErrorCode::InvalidArgument, "is no Python interpreter: it failed"};
  return std::move(output->text);
}

// Returns the file of a package in one of the folders of sys.path; empty: it is not installed, or has no such file.
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

// Returns NVIDIA's own file in the packages; empty: there is none.
std::string wheel_of(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::string file = folder + "/" + kOwnFile;
    if (::access(file.c_str(), R_OK) == 0) return file;
  }
  return {};
}

Result<NcclUse> use_of_package(const Python& python, const PackageRow& row, const std::string& file) {
  const std::string wheel = row.pathfinder ? wheel_of(python.folders) : std::string();
  NcclQuestion question{.by = row.name, .program = python.executable, .opened = {file}, .opener = file};
  if (!wheel.empty()) question.opened.insert(question.opened.begin(), wheel);
  auto use = use_of(python.environment, question);
  if (use && !wheel.empty() && use->place.rule == "path") {
    use->place.of = "cuda-pathfinder";
    use->asks = file;
  }
  return use;
}

// Adds vLLM, which opens VLLM_NCCL_SO_PATH or else libnccl.so.2 by name, beside what torch has loaded.
void add_vllm(const Python& python, NcclReport& report) {
  const auto has = [](const std::string& folder) {
    std::error_code none;
    return std::filesystem::is_directory(folder + "/vllm", none);
  };
  if (std::none_of(python.folders.begin(), python.folders.end(), has)) return;
  const std::string named = value_of_variable(python.variables, "VLLM_NCCL_SO_PATH");
  NcclQuestion question{.by = "vllm", .program = python.executable};
  if (!named.empty()) question.name = named;
  const std::string torch = named.empty() ? file_of(kPackages[0], python.folders) : std::string();
  if (!torch.empty()) question.opened = {torch};
  auto use = use_of(python.environment, question);
  if (!use) return;
  if (!named.empty()) use->place.of = "VLLM_NCCL_SO_PATH";
  report.uses.push_back(*std::move(use));
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
    auto use = use_of_package(python, row, file);
    if (use)
      report->uses.push_back(*std::move(use));
    else
      report->notes.push_back(file + ": " + use.error().message);
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
