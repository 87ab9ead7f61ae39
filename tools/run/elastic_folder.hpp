// The private folder through which members of an elastic job find each other again.
#pragma once

#include <sys/types.h>

#include <string>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath::launcher {

// Mode 0700, new, inside a given folder or that for temporary files. It is removed with all that is in it when this
// object goes, and by a process of its own when this process and its forks are gone without having done so. Not for
// programs with several threads.
class ElasticFolder {
 public:
  // `parent` empty: TMPDIR, else /tmp.
  static Result<ElasticFolder> make(const std::string& parent);
  ElasticFolder(ElasticFolder&& other) noexcept;
  ElasticFolder& operator=(ElasticFolder&&) = delete;
  ~ElasticFolder();

  const std::string& path() const { return path_; }
  // Whether member `number`, which was started anew, has said in the folder that it is in the job.
  bool has_joined(int number) const;

 private:
  ElasticFolder(std::string path, Fd alive, pid_t keeper)
      : path_(std::move(path)), alive_(std::move(alive)), keeper_(keeper) {}

  std::string path_;  // empty: moved away
  Fd alive_;          // the keeper waits for the end of this pipe
  pid_t keeper_ = -1;
};

}  // namespace wreath::launcher
