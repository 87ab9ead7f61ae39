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
  // Takes in `preloads` the names of /etc/ld.so.preload.
  TraceReader(const LoaderEnvironment& environment, std::vector<std::string> preloads);

  void read(const std::string& output);
  // Records that the loader died of a signal, as it does while it maps a file that is too short.
  void crashed(int signal);
  LoaderTrace take();

 private:
  // A list of folders, or the cache, that the loader searched for one library.
  struct Search {
    std::string rule;
    std::string of;
    // All folders that the rule names. The loader tries a folder that does not exist only once.
    std::vector<std::string> folders;
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

// Returns the words of LD_PRELOAD or /etc/ld.so.preload.
std::vector<std::string> preload_words(const std::string& text);

}  // namespace wreath
