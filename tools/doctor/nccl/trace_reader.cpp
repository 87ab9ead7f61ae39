// Lines of LD_DEBUG begin with the number of the process. Lines of the list of loaded files begin with a tab.
#include "tools/doctor/nccl/trace_reader.hpp"

#include <algorithm>
#include <string_view>

namespace wreath {
namespace {

constexpr std::string_view kCache = "/etc/ld.so.cache";
constexpr std::string_view kLibraryPath = "LD_LIBRARY_PATH";
// The folders inside a folder in which older loaders look for libraries for newer processors.
constexpr std::string_view kProcessorFolders[] = {"tls",      "x86_64",  "haswell", "xeon_phi",
                                                  "avx512_1", "atomics", "aarch64"};

std::string_view parent(std::string_view path) { return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1)); }
std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Returns whether a folder is another listed folder's place for newer processors, such as
// FOLDER/glibc-hwcaps/x86-64-v3.
bool for_newer_processors(const std::string& folder, const std::vector<std::string>& list) {
  std::string_view base = folder;
  if (last_part(parent(base)) == "glibc-hwcaps") base = parent(parent(base));
  const auto known = [](std::string_view name) {
    return std::find(std::begin(kProcessorFolders), std::end(kProcessorFolders), name) != std::end(kProcessorFolders);
  };
  while (known(last_part(base))) base = parent(base);
  return base != folder && std::find(list.begin(), list.end(), base) != list.end();
}

// Returns the start of a text such as "libs.so [0];  needed by /bin/program [0]", up to the last bracket that opens.
std::string up_to_namespace(std::string_view text) { return std::string(text.substr(0, text.rfind(" ["))); }

}  // namespace

std::vector<std::string> preload_words(const std::string& text) {
  std::vector<std::string> words = split_path(text, ": \t\n");
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return words;
}

TraceReader::TraceReader(const LoaderEnvironment& environment, std::vector<std::string> preloads)
    : environment_(environment),
      user_preloads_(preload_words(environment.preload)),
      file_preloads_(std::move(preloads)) {}

void TraceReader::read(const std::string& output) {
  for (const std::string& line : split_path(output, "\n")) {
    const std::size_t mark = line.find_first_not_of(" 0123456789");
    const bool debug = mark != std::string::npos && mark > 0 && line.compare(mark, 2, ":\t") == 0;
    debug ? read_debug(line.substr(mark + 2)) : read_plain(line);
  }
}

void TraceReader::read_debug(const std::string& text) {
  constexpr std::string_view kFile = "file=";
  constexpr std::string_view kTrying = "  trying file=";
  constexpr std::string_view kPath = " search path=";
  constexpr std::string_view kNeeded = "];  needed by ";
  if (text.starts_with(kFile)) {
    const std::size_t needed = text.find(kNeeded);
    if (needed == std::string::npos) return;
    asked_.push_back({up_to_namespace(text.substr(kFile.size(), needed - kFile.size())),
                      up_to_namespace(text.substr(needed + kNeeded.size())),
                      {},
                      {}});
  } else if (!asked_.empty() && text.starts_with(kTrying)) {
    asked_.back().last_tried = absolute_path(environment_, text.substr(kTrying.size()));
  } else if (!asked_.empty() && text.starts_with(kPath)) {
    read_search(text.substr(kPath.size()));
  } else if (!asked_.empty() && text.starts_with(" search cache=")) {
    asked_.back().searches.push_back({std::string(kCache), "", {}});
  }
}

// Reads a line such as "FOLDER:FOLDER\t\t(RPATH from file NAME)".
void TraceReader::read_search(const std::string& text) {
  constexpr std::string_view kFrom = " from file ";
  const std::size_t tab = text.find("\t\t(");
  if (tab == std::string::npos) return;
  const std::string what = text.substr(tab + 3, text.rfind(')') - tab - 3);
  const std::size_t from = what.find(kFrom);
  Search search;
  search.rule = what == "system search path" ? "default folder" : what;
  if (from != std::string::npos) {
    search.rule = "DT_" + what.substr(0, from);
    search.of = what.substr(from + kFrom.size());
  }
  const std::vector<std::string> all = split_path(text.substr(0, tab), ":");
  for (const std::string& folder : all) {
    if (!for_newer_processors(folder, all)) search.folders.push_back(absolute_path(environment_, folder));
  }
  asked_.back().searches.push_back(lists_.emplace(what, std::move(search)).first->second);
}

void TraceReader::read_plain(const std::string& text) {
  constexpr std::string_view kPreload = "ERROR: ld.so: object '";
  constexpr std::string_view kTrouble = ": error while loading shared libraries: ";
  if (text.starts_with(kPreload)) {
    missing_.insert(text.substr(kPreload.size(), text.find("' from ") - kPreload.size()));
  } else if (const std::size_t none = text.find(" => not found"); none != std::string::npos) {
    missing_.insert(text.substr(1, none - 1));
  } else if (const std::size_t trouble = text.find(kTrouble); trouble != std::string::npos) {
    trouble_ = text.substr(trouble + kTrouble.size());
    missing_.insert(trouble_.substr(0, trouble_.find(": ")));
  } else if (text == "\tstatically linked") {
    static_ = true;
  }
}

void TraceReader::crashed(int signal) {
  if (asked_.empty()) return;
  missing_.insert(asked_.back().name);
  trouble_ =
      asked_.back().last_tried + ": it is ended by signal " + std::to_string(signal) + " while it maps this file";
}

LoaderTrace TraceReader::take() {
  LoaderTrace trace;
  for (const Asked& each : asked_) trace.asked.push_back(finished(each));
  trace.trouble = trouble_;
  trace.linked_statically = static_;
  return trace;
}

AskedObject TraceReader::finished(const Asked& asked) const {
  const bool is_path = asked.name.find('/') != std::string::npos;
  const std::string file = is_path ? absolute_path(environment_, asked.name) : asked.last_tried;
  const bool found = !file.empty() && !missing_.contains(asked.name) && !missing_.contains(file);
  AskedObject object{asked.name, asked.by, found ? file : "", {}, passed(asked, found)};
  const std::string preload = preload_rule(asked.name);
  if (is_path || !preload.empty()) {
    object.place = {preload.empty() ? "path" : preload, "", is_path ? file : asked.name, ""};
    if (is_path && !found) object.passed = {{object.place.rule, "", file, why_passed(file)}};
  } else if (found) {
    object.place = place_of(asked);
  }
  return object;
}

Place TraceReader::place_of(const Asked& asked) const {
  if (asked.searches.empty()) return {};
  const Search& last = asked.searches.back();
  const bool cache = last.rule == kCache;
  return {last.rule, last.of, cache ? last.rule : std::string(parent(asked.last_tried)), ""};
}

std::vector<Place> TraceReader::passed(const Asked& asked, bool found) const {
  std::vector<Search> searches = asked.searches;
  // The loader does not search LD_LIBRARY_PATH again where none of its folders exists. Its folders are added here,
  // since they count as passed, too.
  const auto rule_is = [](std::string_view rule) { return [rule](const Search& each) { return each.rule == rule; }; };
  const auto behind =
      std::find_if(searches.begin(), searches.end(), [](const Search& each) { return each.rule != "DT_RPATH"; });
  const auto list = lists_.find(std::string(kLibraryPath));
  if (list != lists_.end() && behind != searches.end() &&
      std::none_of(searches.begin(), searches.end(), rule_is(kLibraryPath)))
    searches.insert(behind, list->second);
  std::vector<Place> places;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    const Search& search = searches[i];
    const bool last = found && i + 1 == searches.size();
    if (search.rule == kCache && !last) {
      places.push_back({search.rule, "", search.rule, "does not list it"});
    }
    for (const std::string& folder : search.folders) {
      if (last && asked.last_tried == folder + "/" + asked.name) break;
      places.push_back({search.rule, search.of, folder, why_passed(folder + "/" + asked.name)});
    }
  }
  return places;
}

std::string TraceReader::preload_rule(const std::string& name) const {
  const auto has = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  return has(user_preloads_) ? "LD_PRELOAD" : has(file_preloads_) ? "/etc/ld.so.preload" : "";
}

std::string TraceReader::why_passed(const std::string& file) const {
  const auto read = read_elf(environment_.root, file);
  return !read ? read.error().message : read->dynamic ? "cannot be loaded" : "is no library";
}

}  // namespace wreath
