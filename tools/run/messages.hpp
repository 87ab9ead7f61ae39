// What the launcher and its agents tell each other, over a pipe or an ssh connection.
//
//   launcher -> agent   Job, when there is an agent on every host, then Signal whenever ranks shall be signalled, and
//                       Start for one that joins an elastic job;
//                       the end of the stream: end all ranks
//   agent -> launcher   a line kGreeting, for what a login shell may print before it is not ours; then
//                       Started, Output, Ended, Refused of ranks, and Done
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath::launcher {

inline constexpr std::string_view kGreeting = "\nwreath-agent 1\n";

enum class Kind : std::uint8_t { Job, Signal, Started, Output, Ended, Refused, Done, Start };

struct Message {
  Kind kind = Kind::Done;
  std::int32_t rank = -1;
  // Signal: its number. Started: the pid. Output: 1 stdout, 2 stderr. Ended: the status of waitpid. Start: the rank
  // whose cores it gets.
  std::int32_t value = 0;
  std::string text;  // Job: JSON; empty: the one that this host's agent was made with. Started: its cores. Output: the
                     // bytes. Refused: why.
};

std::string encode(const Message& message);

// Cuts a stream into messages. A stream that is none is an error.
class MessageReader {
 public:
  void add(std::string_view bytes) { buffer_.append(bytes); }
  // nullopt: the next one is not complete.
  Result<std::optional<Message>> next();
  // Drops everything up to the greeting; true when it has come. `noise` receives what stood before it.
  bool skip_to_greeting(std::string& noise);
  // What was no message, when the stream has ended.
  std::string rest() { return std::exchange(buffer_, {}); }

 private:
  std::string buffer_;
};

enum class Bind { Cores, None };

// What an agent starts on its host.
struct HostJob {
  std::vector<int> ranks;                // of this host, ascending
  int all_ranks = 1;                     // of the job
  std::vector<std::string> command;      // with its arguments
  std::string folder;                    // where it runs; empty: where the agent is
  std::vector<std::string> environment;  // NAME=value for all ranks; replaces what the agent has
  std::vector<std::string> unset;        // names that ranks do not inherit
  Bind bind = Bind::Cores;
  std::string elastic_folder;  // not empty: ranks may end and others start, until the launcher says that it is over
};

std::string encode(const HostJob& job);
Result<HostJob> decode_job(std::string_view json);

}  // namespace wreath::launcher
