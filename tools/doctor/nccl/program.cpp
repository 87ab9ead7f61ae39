// What is asked about, and programs: what needs NCCL gets it at their start, and others may open it by name.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "src/base/text_file.hpp"
#include "tools/doctor/nccl/report.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMostVariables = 8 << 20;
constexpr std::size_t kLongestLine = 4096;  // of a script: its first

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
bool is_python(const std::string& path) { return base_name(path).starts_with("python"); }

std::string in_path(const std::string& name, const std::vector<std::string>& variables) {
  if (name.find('/') != std::string::npos) return name;
  for (const std::string& folder : split_path(value_of_variable(variables, "PATH"), ":")) {
    std::string file = (folder.empty() ? std::string(".") : folder) + "/" + name;
    std::error_code ignored;
    if (::access(file.c_str(), X_OK) == 0 && !std::filesystem::is_directory(file, ignored)) return file;
  }
  return {};
}

// The words behind "#!"; empty: it is no script.
std::vector<std::string> script_line(const std::string& path) {
  const auto text = read_file(path, kLongestLine);
  if (!text || !text->starts_with("#!")) return {};
  std::vector<std::string> words = split_path(text->substr(2, text->find('\n') - 2), " \t\r");
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

Result<NcclReport> of_script(const std::string& path, std::vector<std::string> line,
                             const std::vector<std::string>& variables) {
  if (base_name(line.front()) == "env" && line.size() > 1) line.erase(line.begin());
  const std::string interpreter = in_path(line.front(), variables);
  if (!interpreter.empty() && is_python(interpreter)) return nccl_of_python(interpreter, variables);
  return Error{ErrorCode::InvalidArgument,
               path + ": is a script of " + line.front() + ": name the program that it starts, or its process"};
}

}  // namespace

std::vector<std::string> variables_of(const std::string& environment_file) {
  const auto text = read_file(environment_file, kMostVariables);
  return text ? split_path(*text, std::string_view("\0", 1)) : std::vector<std::string>();
}

std::string value_of_variable(const std::vector<std::string>& variables, const std::string& name) {
  for (const std::string& variable : variables) {
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  }
  return {};
}

NcclUse use_of(Loader& loader, const LoaderEnvironment& environment, const std::string& by, std::size_t asks,
               const std::string& name) {
  NcclUse use;
  use.by = by;
  std::optional<std::size_t> found = loader.nccl();
  const auto& missing = loader.missing();
  const auto lacks =
      std::find_if(missing.begin(), missing.end(), [](const auto& each) { return is_nccl_name(each.name); });
  if (!found && lacks == missing.end()) {
    use.request = NcclUse::Request::Opened;
    found = loader.open(name, asks);
  }
  if (!found) {
    const MissingObject& none = use.request == NcclUse::Request::Needed ? *lacks : loader.missing().back();
    use.asks = loader.object(none.loader).file.path;
    use.passed = none.passed;
    return use;
  }
  const LoadedObject& object = loader.object(*found);
  use.asks = loader.object(object.loader).file.path;
  use.file = object.file.path;
  use.identity = identify_nccl(environment.root + use.file);
  use.place = object.place;
  use.passed = object.passed;
  return use;
}

Result<NcclReport> nccl_of_program(const std::string& path, const LoaderEnvironment& environment) {
  Loader loader(environment);
  if (const Status started = loader.start(path); !started)
    return Error{started.error().code, path + ": " + started.error().message};
  const std::string program = loader.object(0).file.path;
  NcclReport report{program, "program", {}, {}};
  if (loader.object(0).file.interpreter.empty()) {
    report.notes.push_back("it is linked statically: the loader has no part in it");
    return report;
  }
  report.uses.push_back(use_of(loader, environment, program, 0, "libnccl.so.2"));
  if (!loader.audit_trouble().empty()) report.notes.push_back("LD_AUDIT has no effect: " + loader.audit_trouble());
  for (const MissingObject& missing : loader.missing()) {
    if (!is_nccl_name(missing.name) && missing.name.find(".so") != std::string::npos)
      report.notes.push_back(missing.name + ", which " + loader.object(missing.loader).file.path +
                             " asks for, is not found");
  }
  return report;
}

Result<NcclReport> examine_nccl(const std::string& what) {
  if (!what.empty() &&
      std::all_of(what.begin(), what.end(), [](unsigned char each) { return std::isdigit(each) != 0; })) {
    int pid = 0;
    const auto [end, wrong] = std::from_chars(what.data(), what.data() + what.size(), pid);
    if (wrong != std::errc() || pid == 0) return Error{ErrorCode::InvalidArgument, what + ": is no process id"};
    return nccl_of_process(pid);
  }
  const std::vector<std::string> variables = variables_of("/proc/self/environ");
  const std::string path = in_path(what, variables);
  if (path.empty()) return Error{ErrorCode::InvalidArgument, what + ": no such program in PATH"};
  if (is_python(path)) return nccl_of_python(path, variables);
  if (auto line = script_line(path); !line.empty()) return of_script(path, std::move(line), variables);
  LoaderEnvironment environment = loader_environment(variables);
  std::error_code ignored;
  environment.folder = std::filesystem::current_path(ignored).string();
  return nccl_of_program(path, environment);
}

}  // namespace wreath
