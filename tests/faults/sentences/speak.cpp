// Runs a rank that does the steps of its script and reports the first error.
#include <sys/mman.h>
#include <sys/resource.h>

#include <deque>
#include <fstream>
#include <functional>

#include "tests/faults/sentences/row.hpp"
#include "tests/support/meet_and_die.hpp"
#include "tests/support/network.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/resources.hpp"
#include "wreath/wreath.hpp"

namespace wreath::testing_support::sentences {
namespace {

constexpr std::size_t kMostBytes = 32 << 20;

using Words = std::istringstream;

class Speaker {
 public:
  explicit Speaker(Child& child) : child_(child) {}

  // Runs the script and returns the exit code.
  int run() {
    std::string script = child_.text("script");
    if (script.find("start") == std::string::npos) script = "start;" + script;
    std::istringstream steps(script);
    for (std::string step; std::getline(steps, step, ';');) {
      Words words(step);
      std::string name;
      if (!(words >> name)) continue;
      used_ = 0;
      const Status status = table().at(name)(*this, words);
      if (status) continue;
      const int code = child_.failed(status.error());
      child_.command();  // it does not end before the command
      return code;
    }
    child_.report("done");
    child_.command();
    return 0;
  }

 private:
  using Step = std::function<Status(Speaker&, Words&)>;

  // Returns the next buffer of a step.
  std::byte* buffer() {
    if (used_ == buffers_.size()) buffers_.emplace_back(kMostBytes);
    return buffers_[used_++].data();
  }

  // Reads "COUNT [DTYPE [OP]]".
  Status all_reduce(Words& words) {
    std::size_t count = 0;
    std::string dtype = "float32";
    std::string op = "sum";
    words >> count >> dtype >> op;
    std::byte* const data = buffer();
    return communicator_->all_reduce(data, data, count, *parse_dtype(dtype), Reduction{*parse_op(op)});
  }
  // Reads "COUNT ROOT".
  Status rooted(Words& words, Collective collective) {
    Call call;
    call.collective = collective;
    words >> call.count >> call.root;
    call.dtype = DataType::Float32;
    call.input = call.output = buffer();
    return communicator_->run(call);
  }
  // Reads "send PEER COUNT DTYPE recv PEER COUNT DTYPE ...". Several messages are a group.
  Status exchange(const std::string& first, Words& words) {
    std::optional<Group> group;
    std::vector<std::string> all{first};
    for (std::string word; words >> word;) all.push_back(word);
    if (all.size() > 4) group.emplace();
    for (std::size_t i = 0; i + 3 < all.size(); i += 4) {
      const Rank peer = std::stoi(all[i + 1]);
      const std::size_t count = std::stoul(all[i + 2]);
      const DataType dtype = *parse_dtype(all[i + 3]);
      WREATH_TRY(all[i] == "send" ? communicator_->send(buffer(), count, dtype, peer)
                                  : communicator_->recv(buffer(), count, dtype, peer));
    }
    return group ? group->run() : Status();
  }
  // Reads "send PEER" or "recv PEER". The second half of the buffer is no memory.
  Status with_half_a_buffer(Words& words) {
    std::string direction;
    Rank peer = 0;
    words >> direction >> peer;
    constexpr std::size_t kBytes = 8 << 20;
    void* const half = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::mprotect(static_cast<std::byte*>(half) + kBytes / 2, kBytes / 2, PROT_NONE);
    return direction == "send" ? communicator_->send(half, kBytes, DataType::Uint8, peer)
                               : communicator_->recv(half, kBytes, DataType::Uint8, peer);
  }

  Status start() {
    if (!child_.text("host").empty() && !Network::enter(child_.text("host")))
      return Error{ErrorCode::System, "cannot enter its namespace"};
    auto made = Communicator::create_from_environment(child_.options());
    if (!made) return made.error();
    communicator_ = std::make_unique<Communicator>(std::move(*made));
    child_.report("ready");
    return {};
  }
  // Raises the signal while this rank is in the meeting, which cannot end without the others.
  Status start_until(int signal) {
    std::thread([this] { static_cast<void>(start()); }).detach();
    sleep_ms(600);
    ::raise(signal);
    return {};
  }
  Status leave() {
    communicator_.reset();
    return {};
  }
  Status watch() {
    eventually(60'000, [&] { return !communicator_->error(); });
    return communicator_->error();
  }
  // Reads "MIB": this process gets so much more address space than it has now.
  static Status limit_memory(Words& words) {
    rlim_t mib = 0;
    words >> mib;
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (mib << 20);
    const rlimit both{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &both);
    return {};
  }
  static Status after(const std::function<void()>& deed) {
    deed();
    return {};
  }

  static const std::map<std::string, Step>& table() {
    static const std::map<std::string, Step> steps{
        {"start", [](Speaker& it, Words&) { return it.start(); }},
        {"meet_and_die_before_the_start", [](Speaker& it, Words&) { return meet_and_die(it.child_.options()); }},
        {"die_during_the_start", [](Speaker& it, Words&) { return it.start_until(SIGKILL); }},
        {"stop_during_the_start", [](Speaker& it, Words&) { return it.start_until(SIGSTOP); }},
        {"late_start", [](Speaker& it, Words&) { return sleep_ms(1'200), it.start(); }},
        {"watch_without_start", [](Speaker&, Words&) { return Status(); }},
        {"all_reduce", [](Speaker& it, Words& words) { return it.all_reduce(words); }},
        {"broadcast", [](Speaker& it, Words& words) { return it.rooted(words, Collective::Broadcast); }},
        {"reduce", [](Speaker& it, Words& words) { return it.rooted(words, Collective::Reduce); }},
        {"send", [](Speaker& it, Words& words) { return it.exchange("send", words); }},
        {"recv", [](Speaker& it, Words& words) { return it.exchange("recv", words); }},
        {"half_a_buffer", [](Speaker& it, Words& words) { return it.with_half_a_buffer(words); }},
        {"no_buffer",
         [](Speaker& it, Words&) { return it.communicator_->all_reduce(nullptr, nullptr, 10, DataType::Float32); }},
        {"abort", [](Speaker& it, Words&) { return it.communicator_->abort(); }},
        {"leave", [](Speaker& it, Words&) { return it.leave(); }},
        {"watch", [](Speaker& it, Words&) { return it.watch(); }},
        {"kill", [](Speaker&, Words&) { return after([] { ::raise(SIGKILL); }); }},
        {"exit", [](Speaker&, Words&) { return after([] { ::_exit(0); }); }},
        {"stop", [](Speaker&, Words&) { return after([] { ::raise(SIGSTOP); }); }},
        {"sleep", [](Speaker&, Words&) { return after([] { sleep_ms(300); }); }},
        {"limit_memory", [](Speaker&, Words& words) { return limit_memory(words); }},
        {"become_another_user", [](Speaker&, Words&) { return after([] { static_cast<void>(!::setuid(kNobody)); }); }},
        {"limit_descriptors", [](Speaker&, Words&) { return after([] { leave_descriptors(3); }); }},
        {"forever",
         [](Speaker& it, Words&) {
           for (;;) {
             Words small("100");
             Words large("100000");
             it.used_ = 0;
             WREATH_TRY(it.all_reduce(small));
             WREATH_TRY(it.all_reduce(large));
           }
         }},
    };
    return steps;
  }

  Child& child_;
  std::unique_ptr<Communicator> communicator_;
  std::deque<std::vector<std::byte>> buffers_;
  std::size_t used_ = 0;
};

WREATH_ROLE(speak) { return Speaker(child).run(); }

}  // namespace
}  // namespace wreath::testing_support::sentences
