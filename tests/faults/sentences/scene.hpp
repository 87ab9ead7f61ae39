// Plays a row over one transport: starts its ranks, does to them what the row says, and checks their errors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "tests/faults/sentences/row.hpp"
#include "tests/support/network.hpp"
#include "tests/support/ports.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/wire.hpp"

namespace wreath::testing_support::sentences {

class Squatter;

class Scene {
 public:
  Scene(const Row& row, std::string transport);
  ~Scene();

  // Says why this machine cannot play the row; empty where it can.
  std::string needs() const;
  void play();
  // Waits until all ranks have met, where they should meet. The row's time runs from now on.
  void begin();
  // Checks that every rank has reported the right error, in time, and ended with the exit code for it.
  void check();
  // Returns the folder of recordings and logs.
  const Folder& folder() const { return folder_; }

 private:
  void start(int rank);
  std::string host_of(int rank) const;
  void act();
  void check_error(const Says& says, int rank);
  void expect_to_end(int rank, int code);
  std::string said() const;

  const Row& row_;
  std::string transport_;
  test::Ports ports_;
  Folder folder_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Wire> wire_;
  std::unique_ptr<Squatter> squatter_;
  std::vector<Fd> taken_;
  std::vector<RankProcess> ranks_;
  Deadline deadline_ = Deadline::after_ms(-1);
};

}  // namespace wreath::testing_support::sentences
