// ElasticFolder lets the members of an elastic job find each other where they share no communicator. Waiting members
// read there that something changes, and later processes ask there to be admitted.
//
// FOLDER/pool: "generation N" asks the members to make the pool anew for the N-th time. "over CODE" tells that the job
// has ended with this exit code.
// FOLDER/join-NUMBER: a new process asks to be admitted, with its pid and host.
// FOLDER/invite-NUMBER: the answer has a unique id, the rank and size to join with, and the generation; mode 0600.
// FOLDER/joined-NUMBER: an empty file tells the launcher that the process has joined.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wreath/unique_id.hpp"

namespace wreath::training {

struct Joiner {
  int number = 0;
  int pid = 0;
  std::string host;
};

struct Invitation {
  UniqueId id;
  int rank = 0;
  int ranks = 1;
  std::int64_t generation = 0;
};

// Reads and writes the folder. Any number of processes, on any hosts, may use it at the same time.
class ElasticFolder {
 public:
  explicit ElasticFolder(std::string path) : path_(std::move(path)) {}

  // Writes in place, so that a process that reads again on a shared file system sees the text. The error is System,
  // which names the file.
  Status announce(std::int64_t generation) const;
  Status announce_over(int code) const;
  struct Announcement {
    std::int64_t generation = 0;
    // Also true where the folder is gone, which means that the job is gone.
    bool over = false;
    int code = 0;  // of a job that is over
  };
  Announcement announced() const;

  // A new process calls this to ask to be admitted.
  Status ask(const Joiner& self) const;
  // Returns and removes the answer to ask(), or nullopt while there is none. A malformed answer counts as none.
  std::optional<Invitation> take_invitation(int number) const;

  Status note_joined(int number) const;

  // Returns the waiting joiners, by number. Removes requests of processes of this host that are gone.
  std::vector<Joiner> joiners() const;
  Status invite(int number, const Invitation& invitation) const;
  // Removes the request, and the invitation where it was not taken.
  void dismiss(int number) const;

 private:
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string path_;
};

// Returns this host's name.
std::string own_host();

}  // namespace wreath::training
