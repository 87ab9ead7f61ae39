// The folder through which the members of an elastic job find each other where no communicator leads: those that wait
// hear there that something changes, and who comes later asks there to be let in.
//
// FOLDER/pool         "generation N": the pool is to be made anew for the N-th time; "over CODE": the job has ended,
// with
//                     this exit code
// FOLDER/join-NUMBER  a new process asks to be let in: its pid and host
// FOLDER/invite-NUMBER  the answer: a unique id, the rank and size to join with, and the generation; mode 0600
// FOLDER/joined-NUMBER  empty: it is in, which the launcher wants to know
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

// Any number of processes, of any hosts, may use it at the same time.
class ElasticFolder {
 public:
  explicit ElasticFolder(std::string path) : path_(std::move(path)) {}

  // Written in place, so that who reads it again on a shared file system sees it. System names the file.
  Status announce(std::int64_t generation) const;
  Status announce_over(int code) const;
  struct Announcement {
    std::int64_t generation = 0;
    bool over = false;  // or the folder is gone, and with it the job
    int code = 0;       // of what is over
  };
  Announcement announced() const;

  // A new process's side.
  Status ask(const Joiner& self) const;
  // Takes the answer to ask() away with it. nullopt: there is none yet. An answer that is none counts as none.
  std::optional<Invitation> take_invitation(int number) const;

  Status note_joined(int number) const;

  // The other side: who waits, by number. Requests of processes of this host that are gone are removed.
  std::vector<Joiner> joiners() const;
  Status invite(int number, const Invitation& invitation) const;
  // Removes the request, and the invitation where it was not taken.
  void dismiss(int number) const;

 private:
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string path_;
};

// This host's name.
std::string own_host();

}  // namespace wreath::training
