// Defines the roles of this program.
#include "tests/support/meet_and_die.hpp"
#include "tests/support/processes.hpp"

namespace wreath::testing_support {
namespace {

WREATH_ROLE(sum) {
  const std::int64_t victim = child.number("victim", -1);
  const auto failed = [](const Error& error) {
    std::cerr << error.message << "\n";
    return exit_code(error.code);
  };
  if (child.text("ends") == "linking" && environment_job().value().rank == victim)
    return failed(meet_and_die(child.options()).error());
  auto communicator = Communicator::create_from_environment(child.options());
  if (!communicator) return failed(communicator.error());
  if (communicator->rank() == victim) ::raise(SIGKILL);
  std::cout << "to a neighbour: " << communicator->transport_to(communicator->rank() == 0 ? 1 : 0) << std::endl;
  const auto n = static_cast<float>(communicator->ranks());
  for (std::int64_t i = child.number("calls", 1); i > 0; --i) {
    std::vector<float> buffer(1000, static_cast<float>(communicator->rank() + 1));
    if (const Status status = communicator->all_reduce(std::span<float>(buffer)); !status)
      return failed(status.error());
    if (buffer[999] != n * (n + 1) / 2) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace wreath::testing_support
