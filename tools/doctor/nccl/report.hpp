// `wreath doctor --nccl`: which libnccl.so.2 something loads, and which rule of the loader chose it.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/nccl/elf_file.hpp"
#include "tools/doctor/nccl/loader.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Of one program, mapped file or Python package.
struct NcclUse {
  enum class Request { Needed, Opened, Mapped };

  std::string by;  // "torch", or a program's path
  Request request = Request::Needed;
  std::string asks;  // the file that needs it, or opens it
  std::string file;  // empty: none is found
  NcclIdentity identity;
  Place place;
  std::vector<Place> passed;
};

struct NcclReport {
  std::string subject;
  std::string kind;  // program, library, python or process
  std::vector<NcclUse> uses;
  std::vector<std::string> notes;
};

// `what`: a process id, a program (a path, or found in PATH), a shared library, a Python interpreter or a script of
// one. An interpreter is run, to ask where its packages are. Programs are looked at with this process's variables.
// Errors name `what`.
Result<NcclReport> examine_nccl(const std::string& what);

std::string nccl_text(const NcclReport& report);
std::string nccl_json(const NcclReport& report);
// 0, or 1 where an NCCL that is needed is not found.
int nccl_code(const NcclReport& report);

// ---- the three kinds ----

Result<NcclReport> nccl_of_program(const std::string& path, const LoaderEnvironment& environment);
// The interpreter itself, and each of its packages; `variables`: NAME=value.
Result<NcclReport> nccl_of_python(const std::string& interpreter, const std::vector<std::string>& variables);
// What it has mapped, and the rule that leads there with the variables it was started with.
Result<NcclReport> nccl_of_process(int pid);

// Who gets an NCCL, and how: a program, or what it opens.
struct NcclQuestion {
  std::string by{};                   // as in NcclUse
  std::string program{};              // a path
  std::vector<std::string> opened{};  // what the program opens before
  std::string opener{};               // which of these opens NCCL by name where nothing needs it; empty: the program
  std::string name = "libnccl.so.2";
};

// What the loader does for the question. Where nothing asks for an NCCL, it is what opening `name` leads to.
Result<NcclUse> use_of(const LoaderEnvironment& environment, const NcclQuestion& question);
// NAME=value of a file as /proc/PID/environ; empty where it cannot be read.
std::vector<std::string> variables_of(const std::string& environment_file);
std::string value_of_variable(const std::vector<std::string>& variables, const std::string& name);

}  // namespace wreath
