// Examines a running process. Its mapped files are certain; the reason for them is found by a new trace of the loader.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "src/base/text_file.hpp"
#include "tools/doctor/nccl/report.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMostMaps = 64 << 20;

std::string link_of(const std::string& path) {
  std::error_code none;
  return std::filesystem::read_symlink(path, none).string();
}

// Returns the folder to put before the paths of the process; empty where it has the mounts and the root of this
// process.
std::string root_of(const std::string& folder) {
  const bool same = link_of(folder + "/ns/mnt") == link_of("/proc/self/ns/mnt") && link_of(folder + "/root") == "/";
  return same ? std::string() : folder + "/root";
}

// Returns the paths of mapped files, each once, in the order of their addresses.
std::vector<std::string> mapped_files(const std::string& maps) {
  std::vector<std::string> files;
  for (const std::string& line : split_path(maps, "\n")) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos) continue;
    std::string file = line.substr(path);
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(std::move(file));
  }
  return files;
}

// Returns the libraries that the loader can be asked to open: those that are no NCCL, with names without blanks and
// colons.
std::vector<std::string> libraries_of(const std::vector<std::string>& files, const std::string& program,
                                      const std::string& root) {
  std::vector<std::string> libraries;
  for (const std::string& file : files) {
    if (file == program || is_nccl_name(file) || file.find_first_of(" :") != std::string::npos) continue;
    const auto read = read_elf(root, file);
    if (read && read->dynamic) libraries.push_back(file);
  }
  return libraries;
}

class Retracing {
 public:
  Retracing(const std::string& folder, std::vector<std::string> files)
      : files_(std::move(files)), program_(link_of(folder + "/exe")) {
    environment_ = loader_environment(variables_of(folder + "/environ"));
    environment_.root = root_of(folder);
    environment_.folder = link_of(folder + "/cwd");
  }

  const std::string& program() const { return program_; }
  const LoaderEnvironment& environment() const { return environment_; }

  // Finds the way on which the process got this mapped file: at its start, through another mapped library, by name, or
  // else by path.
  NcclUse use_of_file(const std::string& file) const {
    if (auto use = reached(file, {})) return *use;
    if (auto use = reached(file, libraries_of(files_, program_, environment_.root))) return *use;
    NcclUse use;
    use.by = program_;
    use.request = NcclUse::Request::Mapped;
    use.asks = program_;
    use.file = file;
    use.identity = identify_nccl(environment_.root + file);
    use.place = {"path", "", file, ""};
    return use;
  }

 private:
  // Opens these libraries, and then NCCL by its name where none of them needs it. Returns the result where it is
  // `file`, else nullopt.
  std::optional<NcclUse> reached(const std::string& file, const std::vector<std::string>& libraries) const {
    auto use = use_of(environment_, {.by = program_, .program = program_, .opened = libraries});
    if (!use || !same_file(use->file, file)) return std::nullopt;
    use->file = file;
    return *std::move(use);
  }

  bool same_file(const std::string& one, const std::string& other) const {
    struct stat first {};
    struct stat second {};
    return !one.empty() && ::stat((environment_.root + one).c_str(), &first) == 0 &&
           ::stat((environment_.root + other).c_str(), &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
  }

  std::vector<std::string> files_;
  std::string program_;
  LoaderEnvironment environment_;
};

}  // namespace

Result<NcclReport> nccl_of_process(int pid) {
  const std::string name = "process " + std::to_string(pid);
  const std::string folder = "/proc/" + std::to_string(pid);
  std::error_code none;
  if (!std::filesystem::exists(folder, none))
    return Error{ErrorCode::InvalidArgument, name + ": there is none of that number"};
  const auto maps = read_file(folder + "/maps", kMostMaps);
  if (!maps || link_of(folder + "/exe").empty())
    return Error{ErrorCode::System, name + ": its files cannot be read: it is another user's, or the kernel's"};
  const std::vector<std::string> files = mapped_files(*maps);
  const Retracing retracing(folder, files);
  NcclReport report{name + ", " + retracing.program(), "process", {}, {}};
  for (const std::string& file : files) {
    if (is_nccl_name(file)) report.uses.push_back(retracing.use_of_file(file));
  }
  if (report.uses.empty()) {
    report.notes.push_back("it has no libnccl loaded now; what follows is what its program would load");
    auto program = nccl_of_program(retracing.program(), retracing.environment());
    if (program) report.uses = std::move(program->uses);
  }
  return report;
}

}  // namespace wreath
