// The messages between the launcher and its agents, over a pipe or an ssh connection.
//
//   launcher -> agent   Job when there is an agent on every host, Signal whenever ranks must be signalled, and Start
//                       for a rank that joins an elastic job. The end of the stream ends all ranks.
//   agent -> launcher   The line kGreeting first, since a login shell may print texts before it. Then come Started,
//                       Output, Ended and Refused for each rank, and Done.
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
  // Signal has its number here, and Started has the pid. Output has 1 for stdout and 2 for stderr. Ended has the status
  // of waitpid. Start has the rank whose cores the new rank gets.
  std::int32_t value = 0;
  // Job has JSON here; an empty text stands for the job that this host's agent was made with. Started has its cores,
  // Output has the bytes, and Refused has the reason.
  std::string text;
};

std::string encode(const Message& message);

// Cuts a stream into messages. A stream that is no sequence of messages is an error.
class MessageReader {
 public:
  void add(std::string_view bytes) { buffer_.append(bytes); }
  // Returns the next message; nullopt where it is not complete.
  Result<std::optional<Message>> next();
  // Drops everything up to the greeting, and returns true when it has come. `noise` receives what stood before it.
  bool skip_to_greeting(std::string& noise);
  // Returns the bytes that formed no message, when the stream has ended.
  std::string rest() { return std::exchange(buffer_, {}); }

 private:
  std::string buffer_;
};

enum class Bind { Cores, None };

// The work of an agent on its host.
struct HostJob {
  std::vector<int> ranks;            // of this host, ascending
  int all_ranks = 1;                 // of the job
  std::vector<std::string> command;  // with its arguments
  // The working folder; empty: the folder of the agent.
  std::string folder;
  // Variables NAME=value for all ranks, which replace those of the agent.
  std::vector<std::string> environment;
  std::vector<std::string> unset;  // names that ranks do not inherit
  Bind bind = Bind::Cores;
  // Where it is not empty, ranks may end and others start until the launcher ends the job.
  std::string elastic_folder;
};

std::string encode(const HostJob& job);
Result<HostJob> decode_job(std::string_view json);

}  // namespace wreath::launcher
