// The report of `wreath doctor --nccl`: the libnccl.so.2 that something loads, and the rule of the loader that chose
// it.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/nccl/elf_file.hpp"
#include "tools/doctor/nccl/loader.hpp"
#include "wreath/result.hpp"

namespace wreath {

// The NCCL of one program, mapped file or Python package.
struct NcclUse {
  enum class Request { Needed, Opened, Mapped };

  std::string by;  // "torch", or a program's path
  Request request = Request::Needed;
  // The file that needs NCCL or opens it.
  std::string asks;
  std::string file;  // empty: none is found
  NcclIdentity identity;
  Place place;
  std::vector<Place> passed;
};

struct NcclReport {
  std::string subject;
  // The kind: program, library, python or process.
  std::string kind;
  std::vector<NcclUse> uses;
  std::vector<std::string> notes;
};

// Examines `what`: a process id, a program (a path, or a name in PATH), a shared library, a Python interpreter or a
// script of one. Runs an interpreter to ask for the places of its packages. Programs are examined with the variables of
// this process. Errors name `what`.
Result<NcclReport> examine_nccl(const std::string& what);

std::string nccl_text(const NcclReport& report);
std::string nccl_json(const NcclReport& report);
// Returns 1 where an NCCL that is needed is not found, else 0.
int nccl_code(const NcclReport& report);

// ---- the three kinds ----

Result<NcclReport> nccl_of_program(const std::string& path, const LoaderEnvironment& environment);
// Examines the interpreter itself and each of its packages. `variables` holds texts NAME=value.
Result<NcclReport> nccl_of_python(const std::string& interpreter, const std::vector<std::string>& variables);
// Examines the mapped files of a process, and the rule that leads to them with the variables of its start.
Result<NcclReport> nccl_of_process(int pid);

// The question for the NCCL of a program, or of what the program opens.
struct NcclQuestion {
  std::string by{};       // as in NcclUse
  std::string program{};  // a path
  // The libraries that the program opens before NCCL.
  std::vector<std::string> opened{};
  // The library among these that opens NCCL by name where nothing needs it; empty: the program itself opens it.
  std::string opener{};
  std::string name = "libnccl.so.2";
};

// Answers the question by a trace of the loader. Where nothing asks for an NCCL, the answer is what opening `name`
// leads to.
Result<NcclUse> use_of(const LoaderEnvironment& environment, const NcclQuestion& question);
// Returns the texts NAME=value of a file such as /proc/PID/environ; empty where it cannot be read.
std::vector<std::string> variables_of(const std::string& environment_file);
std::string value_of_variable(const std::vector<std::string>& variables, const std::string& name);

}  // namespace wreath
