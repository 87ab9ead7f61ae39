// This file gives folders names that appear whole or not at all.
#include "training/checkpoint/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <string_view>

#include "training/checkpoint/file.hpp"

namespace wreath::training {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kHidden = ".step-";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [next, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (error != std::errc() || next != end || step_name(step) != name) return std::nullopt;
  return step;
}

// Returns a path unlike that of every other save, on any host.
std::string hidden_path(const std::string& folder, const std::string& name) {
  std::random_device random;
  return fmt::format("{}/.{}-{:08x}{:08x}", folder, name, random(), random());
}

Error refused(const std::string& path, std::string_view purpose, const std::error_code& error) {
  errno = error.value();
  return system_error(path, purpose);
}

Status make_folder(const std::string& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) return refused(folder, "made", error);
  const std::string parent = fs::absolute(folder, error).parent_path().string();
  return made && !parent.empty() ? sync_folder(parent) : Status();
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:06}", kStepPrefix, step); }

Result<std::map<std::int64_t, std::string>> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::optional<std::int64_t> step = step_of(entry->path().filename().string());
    std::error_code ignored;
    if (step && entry->is_directory(ignored)) found[*step] = entry->path().string();
  }
  if (error && error != std::errc::no_such_file_or_directory) return refused(folder, "read", error);
  return found;
}

Status check_folder(const std::string& folder) {
  WREATH_TRY(make_folder(folder));
  const std::string hidden = hidden_path(folder, step_name(0));
  std::error_code error;
  if (!fs::create_directory(hidden, error)) return refused(folder, "written", error);
  fs::remove(hidden, error);
  return {};
}

Result<std::string> begin_folder(const std::string& folder, std::int64_t step) {
  WREATH_TRY(make_folder(folder));
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  if (error) return refused(folder, "read", error);
  for (const fs::directory_entry& entry : entries) {
    std::error_code ignored;
    if (entry.path().filename().string().starts_with(kHidden)) fs::remove_all(entry.path(), ignored);
  }
  const std::string hidden = hidden_path(folder, step_name(step));
  if (!fs::create_directory(hidden, error)) return refused(hidden, "made", error);
  return hidden;
}

Status publish_folder(const std::string& folder, const std::string& hidden, std::int64_t step) {
  std::error_code ignored;
  if (!fs::exists(hidden, ignored)) {
    return Error{ErrorCode::InvalidUsage,
                 fmt::format("{}: it is gone; does another job save into {}? Only one at a time may", hidden, folder)};
  }
  WREATH_TRY(sync_folder(hidden));
  const std::string path = folder + "/" + step_name(step);
  if (::rename(hidden.c_str(), path.c_str()) == 0) return sync_folder(folder);
  if (errno != ENOTEMPTY && errno != EEXIST) return system_error(path, "made");
  if (::renameat2(AT_FDCWD, hidden.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    return system_error(path, "replaced in one step (remove it first)");
  }
  WREATH_TRY(sync_folder(folder));
  fs::remove_all(hidden, ignored);
  return {};
}

void remove_folder(const std::string& folder, const std::string& path) {
  const std::string hidden = hidden_path(folder, fs::path(path).filename().string());
  std::error_code ignored;
  if (::rename(path.c_str(), hidden.c_str()) == 0) fs::remove_all(hidden, ignored);
}

void remove_older(const std::string& folder, std::int64_t step, int keep) {
  const Result<std::map<std::int64_t, std::string>> found = checkpoints_in(folder);
  if (!found) return;
  auto older = std::make_reverse_iterator(found->lower_bound(step));
  for (; older != found->rend(); ++older) {
    if (keep-- <= 0) remove_folder(folder, older->second);
  }
}

}  // namespace wreath::training
