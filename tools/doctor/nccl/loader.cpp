// The order is that of glibc: what is loaded already, the auditor, a path, DT_RPATH of who asks and of those who asked
// for that (unless it has a DT_RUNPATH), LD_LIBRARY_PATH, DT_RUNPATH, the cache, the default folders.
#include "tools/doctor/nccl/loader.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "src/base/text_file.hpp"

namespace wreath {
namespace {

constexpr const char* kAuditor = "libwreath_nccl_audit.so";
constexpr std::size_t kMostObjects = 4096;
constexpr std::size_t kMostPreloadBytes = 64 << 10;

#if defined(__aarch64__)
constexpr std::string_view kMultiarch = "aarch64-linux-gnu";
#else
constexpr std::string_view kMultiarch = "x86_64-linux-gnu";
#endif

std::vector<std::string> default_folders() {
  const std::string multiarch(kMultiarch);
  return {"/lib/" + multiarch, "/usr/lib/" + multiarch, "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
}

std::string folder_of(const std::string& path) { return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1)); }
std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Entries of LD_PRELOAD, which may be separated by blanks, too.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words = split_path(text, ": \t\n");
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
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
  environment.library_path = split_path(value("LD_LIBRARY_PATH"), ":;");
  environment.preload = words_of(value("LD_PRELOAD"));
  environment.audit = split_path(value("LD_AUDIT"), ":");
  environment.nccl_library = value("WREATH_NCCL_LIBRARY");
  return environment;
}

// ---- loading ----

Status Loader::start(const std::string& program) {
  std::string path = absolute(program);
  std::error_code gone;
  const std::filesystem::path real = std::filesystem::canonical(path, gone);
  if (environment_.root.empty() && !gone) path = real.string();
  auto file = read_elf(environment_.root, path);
  if (!file) return file.error();
  objects_.push_back({*std::move(file), {"path", "", path, ""}, {}, 0, {program}});
  if (objects_[0].file.interpreter.empty()) return {};  // linked statically
  cache_ = read_loader_cache(environment_.root);
  read_audit();
  preload(environment_.preload, "LD_PRELOAD");
  const auto listed = read_file(environment_.root + "/etc/ld.so.preload", kMostPreloadBytes);
  if (listed) preload(words_of(*listed), "/etc/ld.so.preload");
  load_needed(0);
  return {};
}

std::optional<std::size_t> Loader::open(const std::string& name, std::size_t by) {
  const std::size_t first = objects_.size();
  const auto opened = load(name, by, "");
  load_needed(first);
  return opened;
}

std::optional<std::size_t> Loader::nccl() const {
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const LoadedObject& object = objects_[i];
    if (is_nccl_name(object.file.soname) || std::any_of(object.names.begin(), object.names.end(), &is_nccl_name))
      return i;
  }
  return std::nullopt;
}

// As the auditor itself does it.
void Loader::read_audit() {
  for (const std::string& auditor : environment_.audit) {
    if (file_of(auditor) != kAuditor) continue;
    const bool given = !environment_.nccl_library.empty();
    const std::string path =
        absolute(given ? environment_.nccl_library : folder_of(absolute(auditor)) + "/libnccl.so.2");
    const auto there = read_elf("", environment_.root + absolute(auditor));
    const auto target = read_elf(environment_.root, path);
    if (there && target) {
      redirected_ = path;
    } else {
      audit_trouble_ = there ? path + ": " + target.error().message : auditor + ": " + there.error().message;
    }
  }
}

void Loader::preload(const std::vector<std::string>& names, const std::string& rule) {
  for (const std::string& name : names) static_cast<void>(load(name, 0, rule));
}

// Breadth first, as the loader does it.
void Loader::load_needed(std::size_t first) {
  for (std::size_t i = first; i < objects_.size() && objects_.size() < kMostObjects; ++i) {
    const std::vector<std::string> needed = objects_[i].file.needed;
    for (const std::string& name : needed) static_cast<void>(load(name, i, ""));
  }
}

std::optional<std::size_t> Loader::loaded(const std::string& name) {
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    std::vector<std::string>& names = objects_[i].names;
    if (objects_[i].file.soname == name || std::find(names.begin(), names.end(), name) != names.end()) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> Loader::load(const std::string& name, std::size_t by, const std::string& rule) {
  if (name.empty()) return std::nullopt;
  if (const auto already = loaded(name)) return already;
  Request request{name, by, {}};
  auto found = find(request, rule);
  if (!found) {
    missing_.push_back({name, by, std::move(request.passed)});
    return std::nullopt;
  }
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    if (objects_[i].file.device != found->first.device || objects_[i].file.inode != found->first.inode) continue;
    objects_[i].names.push_back(name);
    return i;
  }
  objects_.push_back({std::move(found->first), std::move(found->second), std::move(request.passed), by, {name}});
  return objects_.size() - 1;
}

// ---- finding ----

std::optional<std::pair<ElfFile, Place>> Loader::find(Request& request, const std::string& rule) const {
  const bool redirected = !redirected_.empty() && is_nccl_name(request.name);
  if (!redirected && request.name.find('/') == std::string::npos) {
    auto found = search(request);
    if (found && !rule.empty()) found->second = {rule, "", request.name, ""};
    return found;
  }
  const std::string path = redirected ? redirected_ : absolute(expanded(request.name, request.by));
  const Place place{redirected ? "LD_AUDIT" : rule.empty() ? "path" : rule, "", path, ""};
  auto file = attempt(path, place, request);
  if (!file) return std::nullopt;
  return std::pair(*std::move(file), place);
}

std::optional<std::pair<ElfFile, Place>> Loader::search(Request& request) const {
  const ElfFile& asks = objects_[request.by].file;
  if (!asks.has_runpath) {
    if (auto found = in_rpaths(request)) return found;
  }
  if (auto found = in_folders(environment_.library_path, {"LD_LIBRARY_PATH", "", "", ""}, request)) return found;
  if (auto found = in_folders(asks.runpath, {"DT_RUNPATH", asks.path, "", ""}, request)) return found;
  if (auto found = in_cache(request)) return found;
  if (!asks.default_folders) return std::nullopt;
  return in_folders(default_folders(), {"default folder", "", "", ""}, request);
}

std::optional<std::pair<ElfFile, Place>> Loader::in_rpaths(Request& request) const {
  for (std::size_t i = request.by;; i = objects_[i].loader) {
    const ElfFile& file = objects_[i].file;
    Request own{request.name, i, {}};  // $ORIGIN is that of whose path it is
    auto found = in_folders(file.rpath, {"DT_RPATH", file.path, "", ""}, own);
    request.passed.insert(request.passed.end(), own.passed.begin(), own.passed.end());
    if (found || i == 0) return found;
  }
}

std::optional<std::pair<ElfFile, Place>> Loader::in_folders(const std::vector<std::string>& folders, const Place& rule,
                                                            Request& request) const {
  for (const std::string& folder : folders) {
    Place place = rule;
    place.folder = absolute(expanded(folder, request.by));
    if (auto file = attempt(place.folder + "/" + request.name, place, request))
      return std::pair(*std::move(file), place);
  }
  return std::nullopt;
}

std::optional<std::pair<ElfFile, Place>> Loader::in_cache(Request& request) const {
  const auto [first, last] = cache_.equal_range(request.name);
  const bool any_folder = objects_[request.by].file.default_folders;
  const std::vector<std::string> defaults = default_folders();
  Place place{"/etc/ld.so.cache", "", "/etc/ld.so.cache", ""};
  for (auto entry = first; entry != last; ++entry) {
    if (!any_folder && std::find(defaults.begin(), defaults.end(), folder_of(entry->second)) != defaults.end())
      continue;
    if (auto file = attempt(entry->second, place, request)) return std::pair(*std::move(file), place);
  }
  if (first == last) {
    place.why = "does not list it";
    request.passed.push_back(place);
  }
  return std::nullopt;
}

std::optional<ElfFile> Loader::attempt(const std::string& path, Place place, Request& request) const {
  auto file = read_elf(environment_.root, path);
  if (file && file->dynamic) return *std::move(file);
  place.why = file ? "is no library" : file.error().message;
  request.passed.push_back(std::move(place));
  return std::nullopt;
}

std::string Loader::absolute(const std::string& path) const {
  return path.starts_with("/") ? path : path.empty() ? environment_.folder : environment_.folder + "/" + path;
}

std::string Loader::expanded(const std::string& path, std::size_t by) const {
  std::string text = path;
  const std::string origin = folder_of(absolute(objects_[by].file.path));
  replace_all(text, "${ORIGIN}", origin);
  replace_all(text, "$ORIGIN", origin);
  return text;
}

}  // namespace wreath
