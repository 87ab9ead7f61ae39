// Runs the loader of this program with --list. It maps a program and what that program needs, prints what it did, and
// ends.
#include "tools/doctor/nccl/loader.hpp"

#include <fcntl.h>
#include <link.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "src/base/text_file.hpp"
#include "src/process/child_process.hpp"
#include "tools/doctor/nccl/trace_reader.hpp"

namespace wreath {
namespace {

constexpr const char* kAuditor = "libwreath_nccl_audit.so";
constexpr std::size_t kMostPreloadBytes = 64 << 10;
constexpr int kPatienceMs = 60'000;

std::string folder_of(const std::string& path) { return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1)); }
std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Returns the loader that this program names; empty: it is linked statically.
std::string own_loader() {
  std::string path;
  const auto look = [](dl_phdr_info* program, std::size_t, void* to) {
    for (int i = 0; i < program->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = program->dlpi_phdr[i];
      if (header.p_type != PT_INTERP) continue;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the C library gives addresses as numbers
      *static_cast<std::string*>(to) = reinterpret_cast<const char*>(program->dlpi_addr + header.p_vaddr);
    }
    // The first entry is this program, so the walk ends.
    return 1;
  };
  ::dl_iterate_phdr(look, &path);
  return path;
}

// Refuses programs with the loader of another C library, which has other rules.
Status check_loader(const LoaderEnvironment& environment, const ElfFile& file, const std::string& ours) {
  if (ours.empty()) return Error{ErrorCode::Unavailable, "this program has no loader that could be asked"};
  if (file.interpreter.empty()) return {};
  if (file_of(file.interpreter) != file_of(ours))
    return Error{ErrorCode::InvalidArgument, "its loader is " + file.interpreter + ", which goes by rules of its own"};
  const auto interpreter = read_elf(environment.root, file.interpreter);
  if (interpreter) return {};
  return Error{ErrorCode::InvalidArgument, "its loader " + file.interpreter + ": " + interpreter.error().message};
}

// Returns the list for LD_PRELOAD. Refuses names with blanks or colons, which would end a name there.
Result<std::string> preload_list(const LoaderEnvironment& environment, const std::vector<std::string>& opened) {
  std::string list = environment.preload;
  for (const std::string& name : opened) {
    if (name.find_first_of(": \t\n") != std::string::npos)
      return Error{ErrorCode::InvalidArgument,
                   name + ": the loader cannot be asked for a name with a blank or a colon"};
    list += (list.empty() ? "" : ":") + name;
  }
  return list;
}

}  // namespace

bool is_nccl_name(const std::string& file) {
  const std::string name = file_of(file);
  return name == "libnccl.so" || name == "libnccl.so.2" || name.starts_with("libnccl.so.2.");
}

LoaderEnvironment loader_environment(const std::vector<std::string>& variables) {
  LoaderEnvironment environment;
  const auto value = [&](std::string_view name) {
    for (const std::string& variable : variables) {
      if (variable.starts_with(name) && variable.substr(name.size(), 1) == "=") return variable.substr(name.size() + 1);
    }
    return std::string();
  };
  environment.library_path = value("LD_LIBRARY_PATH");
  environment.preload = value("LD_PRELOAD");
  environment.audit = split_path(value("LD_AUDIT"), ":");
  environment.nccl_library = value("WREATH_NCCL_LIBRARY");
  return environment;
}

std::string absolute_path(const LoaderEnvironment& environment, const std::string& path) {
  return path.starts_with("/") ? path : path.empty() ? environment.folder : environment.folder + "/" + path;
}

// Finds the answer in the same way as the auditor itself.
Auditor auditor_of(const LoaderEnvironment& environment) {
  Auditor result;
  for (const std::string& auditor : environment.audit) {
    if (file_of(auditor) != kAuditor) continue;
    const std::string file = absolute_path(environment, auditor);
    const bool given = !environment.nccl_library.empty();
    const std::string path =
        absolute_path(environment, given ? environment.nccl_library : folder_of(file) + "/libnccl.so.2");
    const auto there = read_elf(environment.root, file);
    const auto target = read_elf(environment.root, path);
    if (there && target) {
      result.answer = path;
    } else {
      result.trouble = there ? path + ": " + target.error().message : auditor + ": " + there.error().message;
    }
  }
  return result;
}

const AskedObject* LoaderTrace::nccl() const {
  const auto is_it = [&](const AskedObject& each) {
    const bool preloaded = each.place.rule == "LD_PRELOAD" || each.place.rule == "/etc/ld.so.preload";
    return is_nccl_name(each.name) ||
           (preloaded && !each.file.empty() && identify_nccl(root + each.file).library != "unknown");
  };
  const auto found = std::find_if(asked.begin(), asked.end(), is_it);
  return found == asked.end() ? nullptr : &*found;
}

Result<LoaderTrace> trace_loader(const LoaderEnvironment& environment, const std::string& program,
                                 const std::vector<std::string>& opened) {
  std::string path = absolute_path(environment, program);
  std::error_code gone;
  const std::filesystem::path real = std::filesystem::canonical(path, gone);
  if (environment.root.empty() && !gone) path = real.string();
  const auto file = read_elf(environment.root, path);
  if (!file) return file.error();
  LoaderTrace trace;
  trace.program = path;
  trace.linked_statically = !file->dynamic;
  if (trace.linked_statically) return trace;
  const std::string ours = own_loader();
  WREATH_TRY(check_loader(environment, *file, ours));
  const auto preload = preload_list(environment, opened);
  if (!preload) return preload.error();
  const Fd loader(::open(ours.c_str(), O_RDONLY | O_CLOEXEC));
  const Fd root(environment.root.empty() ? -1 : ::open(environment.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!loader || (!environment.root.empty() && !root)) return Error{ErrorCode::System, std::strerror(errno)};
  const auto output = process::output_of(
      {.command = {ours, "--list", path},
       .environment = {"LD_DEBUG=libs,files", "LD_PRELOAD=" + *preload, "LD_LIBRARY_PATH=" + environment.library_path},
       .folder = environment.folder,
       .program = loader.get(),
       .root = root.get()},
      kPatienceMs);
  if (!output) return Error{output.error().code, ours + ": " + output.error().message};
  const auto listed = read_file(environment.root + "/etc/ld.so.preload", kMostPreloadBytes);
  TraceReader reader(environment, listed ? preload_words(*listed) : std::vector<std::string>());
  reader.read(output->text);
  if (WIFSIGNALED(output->status)) reader.crashed(WTERMSIG(output->status));
  trace = reader.take();
  trace.root = environment.root;
  trace.program = path;
  return trace;
}

}  // namespace wreath
