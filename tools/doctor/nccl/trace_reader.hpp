// Reads what glibc's loader prints in its tracing mode with LD_DEBUG=libs,files.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/doctor/nccl/loader.hpp"

namespace wreath {

class TraceReader {
 public:
  // `preloads` are the names of /etc/ld.so.preload.
  TraceReader(const LoaderEnvironment& environment, std::vector<std::string> preloads);

  void read(const std::string& output);
  // The loader died of a signal, as it does while it maps a file that is too short.
  void crashed(int signal);
  LoaderTrace take();

 private:
  // A list of folders, or the cache, that the loader went through for one library.
  struct Search {
    std::string rule;
    std::string of;
    std::vector<std::string> folders;  // all that the rule names; the loader tries one that does not exist only once
  };
  struct Asked {
    std::string name;
    std::string by;
    std::vector<Search> searches;
    std::string last_tried;
  };

  void read_debug(const std::string& text);
  void read_plain(const std::string& text);
  void read_search(const std::string& text);
  AskedObject finished(const Asked& asked) const;
  std::vector<Place> passed(const Asked& asked, bool found) const;
  Place place_of(const Asked& asked) const;
  std::string preload_rule(const std::string& name) const;
  std::string why_passed(const std::string& file) const;

  LoaderEnvironment environment_;
  std::vector<std::string> user_preloads_;
  std::vector<std::string> file_preloads_;
  std::vector<Asked> asked_;
  std::map<std::string, Search> lists_;
  std::set<std::string> missing_;
  std::string trouble_;
  bool static_ = false;
};

// The words of LD_PRELOAD or /etc/ld.so.preload.
std::vector<std::string> preload_words(const std::string& text);

}  // namespace wreath
