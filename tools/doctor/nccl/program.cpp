// Finds the kind of what the user names, and examines programs. A library that needs NCCL gets it at the start of the
// program; others may open it by name.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "src/base/text_file.hpp"
#include "tools/doctor/nccl/report.hpp"

namespace wreath {
namespace {

constexpr std::size_t kMostVariables = 8 << 20;
// The most bytes that are read of a script, whose first line alone counts.
constexpr std::size_t kLongestLine = 4096;

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

// Returns the words behind "#!"; empty: it is no script.
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

Result<NcclUse> use_of(const LoaderEnvironment& environment, const NcclQuestion& question) {
  auto trace = trace_loader(environment, question.program, question.opened);
  if (!trace) return trace.error();
  NcclUse use;
  use.by = question.by;
  if (trace->nccl() == nullptr) {
    use.request = NcclUse::Request::Opened;
    std::vector<std::string> opened = question.opener.empty() ? question.opened : std::vector<std::string>();
    opened.push_back(question.name);
    trace = trace_loader(environment, question.opener.empty() ? question.program : question.opener, opened);
    if (!trace) return trace.error();
  }
  const AskedObject* object = trace->nccl();
  const auto named = std::find_if(trace->asked.begin(), trace->asked.end(),
                                  [&](const auto& each) { return each.name == question.name; });
  // The question may name a library that is no NCCL.
  if (object == nullptr && named != trace->asked.end()) object = &*named;
  use.asks = object == nullptr ? trace->program : object->by;
  const std::string answer = auditor_of(environment).answer;
  if (!answer.empty()) {
    use.file = answer;
    use.place = {"LD_AUDIT", "", answer, ""};
  } else if (object != nullptr) {
    use.file = object->file;
    use.place = object->file.empty() ? Place() : object->place;
    use.passed = object->passed;
  }
  if (!use.file.empty()) use.identity = identify_nccl(environment.root + use.file);
  return use;
}

Result<NcclReport> nccl_of_program(const std::string& path, const LoaderEnvironment& environment) {
  const auto trace = trace_loader(environment, path);
  if (!trace) return Error{trace.error().code, path + ": " + trace.error().message};
  const auto file = read_elf(environment.root, trace->program);
  const bool library = file && file->interpreter.empty() && !trace->linked_statically;
  NcclReport report{trace->program, library ? "library" : "program", {}, {}};
  if (trace->linked_statically) {
    report.notes.emplace_back("it is linked statically: the loader has no part in it");
    return report;
  }
  auto use = use_of(environment, {.by = trace->program, .program = path});
  if (!use) return Error{use.error().code, path + ": " + use.error().message};
  report.uses.push_back(*std::move(use));
  if (const std::string trouble = auditor_of(environment).trouble; !trouble.empty())
    report.notes.push_back("LD_AUDIT has no effect: " + trouble);
  for (const AskedObject& asked : trace->asked) {
    if (asked.file.empty() && !is_nccl_name(asked.name) && asked.name.find(".so") != std::string::npos)
      report.notes.push_back(asked.name + ", which " + asked.by + " asks for, is not found");
  }
  if (!trace->trouble.empty()) report.notes.push_back("the loader gives up: " + trace->trouble);
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
