// What `wreath doctor` finds: of each thing whether it is fine, and where it is not, what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/doctor/probes.hpp"
#include "wreath/topology.hpp"

namespace wreath {

// A note costs time or names something to know; a problem hinders ranks from starting or from finishing.
enum class Verdict { Ok, Note, Problem };
const char* name(Verdict verdict);

struct CheckResult {
  Verdict verdict = Verdict::Ok;
  std::string group;
  std::string subject;
  std::string text;
  std::string fix;  // a command, or what to do; empty: nothing to do
};

class Findings {
 public:
  void begin(std::string_view group) { group_ = group; }
  void ok(std::string_view subject, std::string text) { add(Verdict::Ok, subject, std::move(text), {}); }
  void note(std::string_view subject, std::string text, std::string fix) {
    add(Verdict::Note, subject, std::move(text), std::move(fix));
  }
  void problem(std::string_view subject, std::string text, std::string fix) {
    add(Verdict::Problem, subject, std::move(text), std::move(fix));
  }
  const std::vector<CheckResult>& all() const { return all_; }

 private:
  void add(Verdict verdict, std::string_view subject, std::string text, std::string fix) {
    all_.push_back({verdict, group_, std::string(subject), std::move(text), std::move(fix)});
  }

  std::string group_;
  std::vector<CheckResult> all_;
};

// What is looked at. Without `probes` another machine's files are: what only a running system can say, and what
// belongs to this process, is left out.
struct Surroundings {
  std::string root;
  Topology topology;
  std::optional<Probes> probes;
};

// Every check of the table, in its order.
std::vector<CheckResult> examine(const Surroundings& surroundings);

// Checks say nothing of what they cannot read.
void check_limits(const Surroundings& surroundings, Findings& findings);
void check_memory(const Surroundings& surroundings, Findings& findings);
void check_processors(const Surroundings& surroundings, Findings& findings);
void check_kernel(const Surroundings& surroundings, Findings& findings);
void check_single_copy(const Surroundings& surroundings, Findings& findings);
void check_interfaces(const Surroundings& surroundings, Findings& findings);
void check_tcp(const Surroundings& surroundings, Findings& findings);
void check_gpus(const Surroundings& surroundings, Findings& findings);
void check_rdma(const Surroundings& surroundings, Findings& findings);
void check_libraries(const Surroundings& surroundings, Findings& findings);
void check_build(const Surroundings& surroundings, Findings& findings);
void check_key(const Surroundings& surroundings, Findings& findings);
void check_settings(const Surroundings& surroundings, Findings& findings);

struct ReportStyle {
  bool colour = false;
};
std::string report_text(const std::vector<CheckResult>& findings, const ReportStyle& style);
std::string report_json(const std::vector<CheckResult>& findings);

// 0, or 1 where there is a problem.
int report_code(const std::vector<CheckResult>& findings);

}  // namespace wreath
