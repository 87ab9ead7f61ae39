// The private folder through which members of an elastic job find each other again.
#pragma once

#include <sys/types.h>

#include <string>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath::launcher {

// A new folder with mode 0700, inside a given folder or the folder for temporary files. The destructor removes it with
// all its contents. A process of its own removes it when this process and its forks end without that. Programs with
// several threads must not use it.
class ElasticFolder {
 public:
  // Makes a folder in `parent`. Where `parent` is empty, that is TMPDIR, else /tmp.
  static Result<ElasticFolder> make(const std::string& parent);
  ElasticFolder(ElasticFolder&& other) noexcept;
  ElasticFolder& operator=(ElasticFolder&&) = delete;
  ~ElasticFolder();

  const std::string& path() const { return path_; }
  // Returns whether member `number`, which joins the running job, has recorded in the folder that it is in the job.
  bool has_joined(int number) const;

 private:
  ElasticFolder(std::string path, Fd alive, pid_t keeper)
      : path_(std::move(path)), alive_(std::move(alive)), keeper_(keeper) {}

  std::string path_;  // empty: moved away
  // The keeper waits for the end of this pipe.
  Fd alive_;
  pid_t keeper_ = -1;
};

}  // namespace wreath::launcher
