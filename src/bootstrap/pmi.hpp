// Speaks PMI-1 and PMI-2 with the process that started this one, over the socket that it left open (PMI_FD). These are
// what mpiexec and mpirun of MPICH, their relatives, and srun --mpi=pmi2 give.
#pragma once

#include <string>
#include <string_view>

#include "src/bootstrap/carrier.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Holds a request's word and its answer's.
struct PmiVerb {
  std::string_view ask;
  std::string_view answer;
};

// Describes one version of the protocol. Both have the same requests, in other words.
struct PmiVersion {
  int version;
  int subversion;
  // Ends each pair of a name and a value. The last one of PMI-1 ends with a new line.
  char separator;
  // Is true where a message begins with its length, in six characters.
  bool counted;
  // Introduces the process; `name_asked` of its answer is given with each later request.
  PmiVerb begin;
  std::string_view name_asked;
  PmiVerb put;
  PmiVerb fence;
  PmiVerb get;
  PmiVerb end;
};

inline constexpr PmiVersion kPmi1{1,
                                  1,
                                  ' ',
                                  false,
                                  {"get_my_kvsname", "my_kvsname"},
                                  "kvsname",
                                  {"put", "put_result"},
                                  {"barrier_in", "barrier_out"},
                                  {"get", "get_result"},
                                  {"finalize", "finalize_ack"}};
inline constexpr PmiVersion kPmi2{2,
                                  0,
                                  ';',
                                  true,
                                  {"fullinit", "fullinit-response"},
                                  "",
                                  {"kvs-put", "kvs-put-response"},
                                  {"kvs-fence", "kvs-fence-response"},
                                  {"kvs-get", "kvs-get-response"},
                                  {"finalize", "finalize-response"}};

// Carries rank 0's text over `socket`, then takes leave of the launcher: it listens to this process no longer. The
// socket stays open. What comes from there is read as a stranger's.
Result<std::string> carry_by_pmi(int socket, const PmiVersion& version, const Carriage& carriage);

}  // namespace wreath
