// Writes the report as sentences and as JSON.
#include "tools/doctor/nccl/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "src/base/printable.hpp"
#include "src/json/value.hpp"
#include "src/topology/kernel_files.hpp"

namespace wreath {
namespace {

// Returns Wreath's folder of this installation, or of the build that this program is from.
std::string own_folder() {
  std::error_code none;
  const auto prefix = std::filesystem::read_symlink("/proc/self/exe", none).parent_path().parent_path();
  for (const char* libraries : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
    const auto folder = prefix / libraries / "wreath/nccl";
    if (std::filesystem::exists(folder / "libnccl.so.2", none)) return folder.string();
  }
  return "PREFIX/lib/wreath/nccl";
}

std::string chosen_by(const NcclUse& use) {
  const Place& place = use.place;
  if (place.rule == "LD_PRELOAD" || place.rule == "/etc/ld.so.preload")
    return fmt::format("{} names {}, which is loaded before all that others need", place.rule, place.folder);
  if (place.rule == "LD_AUDIT") return "LD_AUDIT names libwreath_nccl_audit.so, which answers for every NCCL";
  if (place.rule == "path") return fmt::format("{} opens it by its path", place.of.empty() ? use.asks : place.of);
  if (place.rule == "/etc/ld.so.cache") return "/etc/ld.so.cache lists it (ldconfig)";
  if (place.rule == "default folder") return fmt::format("{} is one of the loader's default folders", place.folder);
  return fmt::format("{}{} names {}", place.rule, place.of.empty() ? "" : " of " + place.of, place.folder);
}

// Returns the setting that would load Wreath's library in its place; empty: it is Wreath's library already.
std::string instead(const NcclUse& use) {
  if (use.identity.library == "Wreath") return {};
  const std::string folder = own_folder();
  const std::string preload = fmt::format("LD_PRELOAD={}/libnccl.so.2", folder);
  std::string audit = fmt::format("LD_AUDIT={}/libwreath_nccl_audit.so", folder);
  const std::string& rule = use.place.rule;
  if (rule == "LD_PRELOAD" || rule == "/etc/ld.so.preload") return fmt::format("name {}/libnccl.so.2 there", folder);
  if (rule == "LD_AUDIT") return fmt::format("WREATH_NCCL_LIBRARY={}/libnccl.so.2", folder);
  if (rule == "path") return audit;
  if (rule == "DT_RPATH") return fmt::format("{} (LD_LIBRARY_PATH would come after DT_RPATH)", preload);
  if (rule == "LD_LIBRARY_PATH") return fmt::format("{} first in LD_LIBRARY_PATH, or {}", folder, preload);
  return fmt::format("LD_LIBRARY_PATH={}, or {}", folder, preload);
}

std::string request_of(const NcclUse& use) {
  switch (use.request) {
    case NcclUse::Request::Needed: return fmt::format("{} needs libnccl.so.2", use.asks);
    case NcclUse::Request::Opened: return fmt::format("nothing needs it; if {} opens libnccl.so.2 by name", use.asks);
    case NcclUse::Request::Mapped: break;
  }
  return "it is mapped";
}

const char* word_of(NcclUse::Request request) {
  switch (request) {
    case NcclUse::Request::Needed: return "needed";
    case NcclUse::Request::Opened: return "opened";
    case NcclUse::Request::Mapped: break;
  }
  return "mapped";
}

std::string who(const NcclUse& use) {
  if (use.identity.library == "unknown") return "an unknown library";
  if (use.identity.library == "NCCL") return "NVIDIA's NCCL " + use.identity.version;
  return fmt::format("Wreath, with the interface of NCCL {}", use.identity.version);
}

std::string where(const Place& place) {
  if (place.folder == place.rule) return place.rule;
  return fmt::format("{}{}, {}", place.rule, place.of.empty() ? "" : " of " + place.of, place.folder);
}

std::string text_of(const NcclUse& use) {
  std::string text = fmt::format("\n{}\n  asked    {}\n", use.by, request_of(use));
  for (const Place& place : use.passed) text += fmt::format("  passed   {}: {}\n", where(place), place.why);
  if (use.file.empty()) return text + "  loads    none: it is not found\n";
  text += fmt::format("  loads    {}: {}\n  because  {}\n", use.file, who(use), chosen_by(use));
  const std::string other = instead(use);
  return other.empty() ? text : text + fmt::format("  instead  {}\n", other);
}

Json json_of(const Place& place) {
  return {{"rule", place.rule}, {"of", place.of}, {"folder", place.folder}, {"why", place.why}};
}

Json json_of(const NcclUse& use) {
  Json passed = Json::array();
  for (const Place& place : use.passed) passed.push_back(json_of(place));
  return {{"by", use.by},
          {"request", word_of(use.request)},
          {"asks", use.asks},
          {"file", use.file},
          {"library", use.identity.library},
          {"version", use.identity.version},
          {"rule", use.place.rule},
          {"of", use.place.of},
          {"folder", use.place.folder},
          {"because", use.file.empty() ? "" : chosen_by(use)},
          {"instead", use.file.empty() ? "" : instead(use)},
          {"passed", passed}};
}

}  // namespace

std::string nccl_text(const NcclReport& report) {
  std::string text = fmt::format("libnccl.so.2 of {}\n", report.subject);
  for (const NcclUse& use : report.uses) text += text_of(use);
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  std::string shown;
  for (const std::string& line : split_path(text, "\n")) shown += printable(line) + "\n";
  shown.pop_back();
  return shown;
}

std::string nccl_json(const NcclReport& report) {
  Json uses = Json::array();
  for (const NcclUse& use : report.uses) uses.push_back(json_of(use));
  const Json json{{"subject", report.subject}, {"kind", report.kind}, {"uses", uses}, {"notes", report.notes}};
  return json.dump({.indent = 1, .sorted = true, .strict = false}) + "\n";
}

int nccl_code(const NcclReport& report) {
  return std::any_of(report.uses.begin(), report.uses.end(),
                     [](const NcclUse& use) { return use.file.empty() && use.request == NcclUse::Request::Needed; });
}

}  // namespace wreath
