// Plays a row: see scene.hpp.
#include "tests/faults/sentences/scene.hpp"

#include <regex>

#include "src/base/socket.hpp"

namespace wreath::testing_support::sentences {
namespace {

// Rank 0 may listen at so many ports, from MASTER_PORT on.
constexpr std::uint16_t kPorts = 16;

bool contains(const std::string& text, const std::string& expression) {
  return std::regex_search(text, std::regex(expression));
}

// Returns the name at which a process waits for others of its job; empty where there is none yet.
std::string meeting_name(pid_t pid) {
  std::set<std::string> sockets;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
    std::error_code closed;
    sockets.insert(std::filesystem::read_symlink(entry.path(), closed).string());
  }
  std::ifstream all("/proc/net/unix");
  for (std::string line; std::getline(all, line);) {
    const std::size_t at = line.find(" @wreath-job-");
    if (at == std::string::npos) continue;
    const std::size_t inode = line.rfind(' ', at - 1) + 1;
    if (sockets.contains("socket:[" + line.substr(inode, at - inode) + "]")) return line.substr(at + 2);
  }
  return {};
}

}  // namespace

// Runs a process of another user that listens at a name.
class Squatter {
 public:
  explicit Squatter(const std::string& name) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool other = ::setuid(kNobody) == 0;
    for (const auto listener = listen_on(SocketAddress::abstract_unix(name)); other && listener;) ::pause();
    ::_exit(1);
  }
  Squatter(const Squatter&) = delete;
  Squatter& operator=(const Squatter&) = delete;
  ~Squatter() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

Scene::Scene(const Row& row, std::string transport) : row_(row), transport_(std::move(transport)) {
  const int hosts = static_cast<int>(row.scripts.size() + 1) / 2;
  if (row.hosts == Hosts::Namespaces) network_ = std::make_unique<Network>(hosts);
  if (row.hosts == Hosts::Wire) wire_ = std::make_unique<Wire>(hosts);
}

Scene::~Scene() = default;

std::string Scene::needs() const {
  if (network_ && !network_->made()) return Network::kNeeds;
  if (wire_ && !wire_->made()) return Wire::kNeeds;
  const auto any = [&](const auto& is_one) { return std::ranges::any_of(row_.scripts, is_one); };
  if (kSanitized && any([](const std::string& script) { return script.find("limit_memory") != std::string::npos; })) {
    return "runs out of memory, which a sanitizer's allocator does not survive: run it in the preset dev";
  }
  const bool others = any([](const std::string& script) { return script.starts_with("become"); });
  if ((others || row_.act == Act::HoldTheirPlace) && ::geteuid() != 0) return "becomes another user: run it as root";
  return {};
}

std::string Scene::host_of(int rank) const {
  if (network_) return Network::space(rank / 2);
  return wire_ ? wire_->space(rank / 2) : std::string();
}

void Scene::start(int rank) {
  const std::string address = network_ ? network_->address(0) : wire_ ? Wire::address(0) : "127.0.0.1";
  Arguments environment = row_.own.empty() ? Arguments() : row_.own[static_cast<std::size_t>(rank)];
  environment.insert(row_.environment.begin(), row_.environment.end());
  environment.insert({{"RANK", std::to_string(rank)},
                      {"WORLD_SIZE", std::to_string(row_.scripts.size())},
                      {"MASTER_ADDR", address},
                      {"MASTER_PORT", std::to_string(ports_.first())},
                      {"HOME", folder_.path()},
                      {"WREATH_RECORDER_DIR", folder_.path()}});
  Arguments arguments = short_clocks();
  arguments.insert({{"rank", std::to_string(rank)},
                    {"ranks", std::to_string(row_.scripts.size())},
                    {"transport", transport_},
                    {"script", row_.scripts[static_cast<std::size_t>(rank)]},
                    {"host", host_of(rank)}});
  arguments["arrival_ms"] = std::to_string(row_.arrival_ms);
  if (!row_.starts) arguments["bootstrap_ms"] = std::to_string(row_.start_ms);
  ranks_.push_back(
      RankProcess::start("speak", arguments, environment, folder_ / ("log-" + std::to_string(ranks_.size()))));
}

void Scene::act() {
  if (row_.act == Act::ResetALink) wire_->tell("reset 1");
  if (row_.act == Act::CutTheWay) wire_->tell("cut 1");
  if (row_.act == Act::TakeTheirPorts) {
    for (std::uint16_t i = 0; i < kPorts; ++i)
      taken_.push_back(
          listen_on(SocketAddress::loopback(AF_INET, static_cast<std::uint16_t>(ports_.first() + i))).value());
  }
  if (row_.act != Act::HoldTheirPlace) return;
  start(0);
  std::string name;
  ASSERT_TRUE(eventually(5'000 * kSlower, [&] { return !(name = meeting_name(ranks_[0].pid())).empty(); }));
  ranks_.clear();
  squatter_ = std::make_unique<Squatter>(name);
  ASSERT_TRUE(eventually(5'000, [&] { return user_who_listens(SocketAddress::abstract_unix(name)).has_value(); }));
}

void Scene::play() {
  if (!row_.starts) act();
  for (std::size_t rank = 0; rank < row_.scripts.size(); ++rank) start(static_cast<int>(rank));
}

void Scene::begin() {
  for (RankProcess& rank : ranks_) {
    if (row_.starts) {
      ASSERT_TRUE(rank.wait_for("ready", 20'000 * kSlower)) << said();
    }
  }
  if (row_.starts) act();
  deadline_ = Deadline::after_ms(row_.within_ms * kSlower);
}

void Scene::check() {
  SCOPED_TRACE(row_.situation + " over " + transport_);
  for (const Says& says : row_.errors) {
    for (const int rank : says.ranks) check_error(says, rank);
  }
  for (std::size_t rank = 0; row_.errors.empty() && rank < ranks_.size(); ++rank)
    EXPECT_TRUE(ranks_[rank].wait_for("done", deadline_.left_ms())) << said();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (row_.scripts[rank].find("stop;") == std::string::npos) continue;
    ranks_[rank].signal(SIGCONT);
    EXPECT_TRUE(ranks_[rank].wait_for("error ", 3'000 * kSlower)) << "the continued rank learns nothing\n" << said();
  }
  for (const RankProcess& rank : ranks_) rank.command("end");
  for (const Says& says : row_.errors) {
    for (const int rank : says.ranks) expect_to_end(rank, exit_code(says.code));
  }
  for (std::size_t rank = 0; row_.errors.empty() && rank < ranks_.size(); ++rank)
    expect_to_end(static_cast<int>(rank), 0);
}

void Scene::check_error(const Says& says, int number) {
  RankProcess& rank = ranks_[static_cast<std::size_t>(number)];
  if (!rank.failure()) {
    ASSERT_TRUE(rank.wait_for("error ", deadline_.left_ms())) << "rank " << number << " said nothing in time\n"
                                                              << said();
  }
  const Failure failure = *rank.failure();
  SCOPED_TRACE("rank " + std::to_string(number) + ": " + failure.message);
  EXPECT_EQ(name(failure.code), name(says.code));
  EXPECT_EQ(std::ranges::count(says.blames, failure.failed_rank), 1) << "it blames rank " << failure.failed_rank;
  for (const std::string& text : says.says) EXPECT_TRUE(contains(failure.message, text)) << "does not say: " << text;
  if (!says.never.empty()) {
    EXPECT_FALSE(contains(failure.message, says.never)) << "says: " << says.never;
  }
  if (!says.warns.empty()) {
    EXPECT_TRUE(contains(rank.log(), says.warns)) << "no warning " << says.warns << " in " << rank.log();
  }
  if (row_.starts) {  // the documented form
    const std::string form =
        "^rank " + std::to_string(number) + R"( \(host [^ ]+, pid \d+\): .+: )" + std::string(name(says.code)) + ": .+";
    EXPECT_TRUE(contains(failure.message, form)) << form;
  }
  const auto key = row_.environment.find("WREATH_KEY");
  EXPECT_TRUE(key == row_.environment.end() || !contains(said(), key->second)) << "a key is never printed";
}

void Scene::expect_to_end(int rank, int code) {
  EXPECT_EQ(ranks_[static_cast<std::size_t>(rank)].join(10'000 * kSlower), code) << said();
}

std::string Scene::said() const {
  std::string text;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    text += "--- rank " + std::to_string(rank) + "\n" + ranks_[rank].log();
    for (const std::string& line : ranks_[rank].lines()) text += "> " + line + "\n";
  }
  return text;
}

}  // namespace wreath::testing_support::sentences
