// Lists every environment variable that Wreath reads, with its default and a line of meaning. Nothing else in the
// library calls getenv.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

enum class Setting : std::uint8_t {
  Debug,
  DebugFile,
  TransportNames,
  AlgorithmName,
  Lanes,
  TileBytes,
  BufferBytes,
  Reproducible,
  Check,
  StallTimeoutMs,
  ArrivalTimeoutMs,
  LateWarningMs,
  BootstrapTimeoutMs,
  Key,
  KeyFile,
  Insecure,
  OwnRank,
  OwnRanks,
  OwnLocalRank,
  HostCores,
  ElasticFolder,
  MinRanks,
  MaxRanks,
  SpareRanks,
  JoinNumber,
  Address,
  Port,
  MeetingFile,
  JobName,
  SocketInterface,
  TcpSockets,
  Hca,
  Rails,
  IbGidIndex,
  IbTimeout,
  IbRetryCount,
  IbServiceLevel,
  IbTrafficClass,
  IbPkeyIndex,
  IbQueuePairs,
  IbRelaxedOrdering,
  LandingWaitMs,
  OfiProvider,
  PortRange,
  Ssh,
  RecorderDir,
  Faults,
  Trace,
  Tuning,
  Library,
  TestLong,
  SpinUs,
  SingleCopyBytes,
  StreamBytes,
  LowLatencyBytes,
  DeviceName,
  JobRank,
  WorldSize,
  MasterAddr,
  MasterPort,
  LocalRank,
  AgentStore,
  SlurmRank,
  SlurmStep,
  SlurmStepRanks,
  SlurmRanks,
  SlurmLocalRank,
  SlurmStepNodes,
  SlurmNodes,
  SlurmJob,
  OpenMpiRank,
  OpenMpiRanks,
  OpenMpiLocalRank,
  PmiRank,
  PmiRanks,
  PmiLocalRank,
  PmiDescriptor,
  PmixRank,
  PmixNamespace,
  FiProvider,
  NcclDebug,
  NcclDebugFile,
  NcclDebugSubsystems,
  NcclSocketInterface,
  NcclIbHca,
  NcclAlgorithm,
  NcclProtocol,
  NcclCommId,
  NcclHostId,
  NcclTopologyDump,
  NcclLibrary,
  CudaQueues,
  CacheHome,
  NoColor,
  Home,
};

struct SettingRow {
  Setting setting;
  std::string_view name;
  // Is the value where the variable is not set or empty.
  std::string_view fallback;
  std::string_view meaning;
  // Limits integers and bytes.
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;
};

// Clocks are set to one day at most.
inline constexpr std::int64_t kMaximumMs = 86'400'000;
inline constexpr std::int64_t kMaximumPort = 65'535;

// Lists the settings in the order of Setting. docs/formats.md shows this table; a test keeps the two equal.
inline constexpr std::array kSettings{
    SettingRow{Setting::Debug, "WREATH_DEBUG", "WARN",
               "how much is logged: WARN, INFO (topology, choices, reasons) or TRACE"},
    SettingRow{Setting::DebugFile, "WREATH_DEBUG_FILE", "",
               "log to this file instead of stderr; %h is the host, %p the pid"},
    SettingRow{Setting::TransportNames, "WREATH_TRANSPORT", "",
               "allowed transports, comma-separated: shm,tcp; empty: all of this build"},
    SettingRow{Setting::AlgorithmName, "WREATH_ALGORITHM", "",
               "the algorithm, by registry name; empty: the tuner chooses"},
    SettingRow{Setting::Lanes, "WREATH_LANES", "0", "data lanes of a call; 0: the tuner chooses", 0, 64},
    SettingRow{Setting::TileBytes, "WREATH_TILE_BYTES", "0", "bytes of a tile; 0: the tuner chooses", 0, 1 << 30},
    SettingRow{Setting::BufferBytes, "WREATH_BUFFER_BYTES", "32M",
               "memory for slots, per process, all communicators together", 64 << 10, std::int64_t{1} << 40},
    SettingRow{Setting::Reproducible, "WREATH_REPRODUCIBLE", "1",
               "1: same inputs, same bits, whatever size, algorithm or transport; 0: every algorithm is allowed"},
    SettingRow{Setting::Check, "WREATH_CHECK", "0",
               "1: messages over wires carry a checksum, so that data altered on its way is an error"},
    SettingRow{Setting::StallTimeoutMs, "WREATH_STALL_TIMEOUT_MS", "30000",
               "all ranks entered a call and no byte moved for so long: error", 1, kMaximumMs},
    SettingRow{Setting::ArrivalTimeoutMs, "WREATH_ARRIVAL_TIMEOUT_MS", "600000",
               "a live rank has not entered a call for so long: error", 1, kMaximumMs},
    SettingRow{Setting::LateWarningMs, "WREATH_LATE_WARNING_MS", "10000",
               "a live rank has not entered a call for so long: warning", 1, kMaximumMs},
    SettingRow{Setting::BootstrapTimeoutMs, "WREATH_BOOTSTRAP_TIMEOUT_MS", "60000",
               "all ranks must have met within this time", 1, kMaximumMs},
    SettingRow{Setting::Key, "WREATH_KEY", "", "the job's key, 64 hexadecimal digits; never printed"},
    SettingRow{Setting::KeyFile, "WREATH_KEY_FILE", "", "file that holds the job's key; mode 0600, owned by the user"},
    SettingRow{Setting::Insecure, "WREATH_INSECURE", "0", "1: ranks of several hosts may meet without a key"},
    SettingRow{Setting::OwnRank, "WREATH_RANK", "", "this process's rank", 0, (1 << 20) - 1},
    SettingRow{Setting::OwnRanks, "WREATH_RANKS", "", "number of ranks", 1, 1 << 20},
    SettingRow{Setting::OwnLocalRank, "WREATH_LOCAL_RANK", "", "this process's number among the ranks of its host", 0,
               (1 << 20) - 1},
    SettingRow{
        Setting::HostCores, "WREATH_HOST_CORES", "0",
        "cores that the ranks of this host have together; 0: those that their affinity masks and quota let them use", 0,
        1 << 20},
    SettingRow{Setting::ElasticFolder, "WREATH_ELASTIC", "",
               "folder through which the ranks of an elastic job find each other again (`wreath run --elastic`)"},
    SettingRow{Setting::MinRanks, "WREATH_MIN_RANKS", "1", "an elastic job of fewer ranks starts again as a whole", 1,
               1 << 20},
    SettingRow{Setting::MaxRanks, "WREATH_MAX_RANKS", "", "an elastic job works with at most so many ranks", 1,
               1 << 20},
    SettingRow{Setting::SpareRanks, "WREATH_SPARES", "0", "ranks of an elastic job that were started as spares", 0,
               1 << 20},
    SettingRow{Setting::JoinNumber, "WREATH_JOIN", "", "this process's number, where it joins an elastic job that runs",
               0, (1 << 20) - 1},
    SettingRow{
        Setting::Address, "WREATH_ADDRESS", "",
        "hosts or addresses where rank 0 can be reached, comma-separated; empty: the launcher's, else this host only"},
    SettingRow{Setting::Port, "WREATH_PORT", "0",
               "ports where rank 0 waits for the others, as 29600-29615,30000; 0: the launcher's, else 29500-29515"},
    SettingRow{Setting::MeetingFile, "WREATH_FILE", "", "file that all ranks can read, through which they meet"},
    SettingRow{Setting::JobName, "WREATH_JOB", "", "name of the job: ranks of jobs with other names do not meet"},
    SettingRow{
        Setting::SocketInterface, "WREATH_SOCKET_IFNAME", "",
        "network interfaces, by prefix: eth,ib; =eth0 is that one, ^docker all others; empty: the one to rank 0"},
    SettingRow{Setting::TcpSockets, "WREATH_TCP_SOCKETS", "auto",
               "sockets to each peer over tcp, in turns over the interfaces; auto: 1, and between hosts up to 4 where "
               "measuring shows a gain",
               1, 8},
    SettingRow{Setting::Hca, "WREATH_HCA", "",
               "RDMA adapters, by prefix: mlx5; =mlx5_0:1 is that port, ^mlx5_3 all others; empty: the fastest, then "
               "the nearest"},
    SettingRow{Setting::Rails, "WREATH_RAILS", "1",
               "RDMA adapters, or libfabric's, that a rank uses at once, alike on all ranks", 1, 8},
    SettingRow{Setting::IbGidIndex, "WREATH_IB_GID_INDEX", "-1",
               "index of an RDMA port's GID; -1: RoCE v2 before v1, IPv4 before IPv6", -1, 255},
    SettingRow{Setting::IbTimeout, "WREATH_IB_TIMEOUT", "17",
               "an RDMA adapter sends again after 4.096 us x 2^this without an answer: 17 is half a second", 1, 22},
    SettingRow{Setting::IbRetryCount, "WREATH_IB_RETRY_COUNT", "6",
               "an RDMA adapter sends again so often before the connection is lost; adapters take 7 for no end", 0, 6},
    SettingRow{Setting::IbServiceLevel, "WREATH_IB_SERVICE_LEVEL", "0",
               "service level of RDMA messages (RoCE: priority)", 0, 15},
    SettingRow{Setting::IbTrafficClass, "WREATH_IB_TRAFFIC_CLASS", "0",
               "traffic class of RDMA messages (RoCE v2: the IP header's, DSCP x 4)", 0, 255},
    SettingRow{Setting::IbPkeyIndex, "WREATH_IB_PKEY_INDEX", "0", "index of the partition key in an RDMA port's table",
               0, 65535},
    SettingRow{Setting::IbQueuePairs, "WREATH_IB_QUEUE_PAIRS", "1",
               "queue pairs to each peer, alike on all ranks: several take several ways through a network", 1, 4},
    SettingRow{Setting::IbRelaxedOrdering, "WREATH_IB_RELAXED_ORDERING", "1",
               "1: RDMA adapters that can may write memory in any order over PCIe"},
    SettingRow{
        Setting::LandingWaitMs, "WREATH_LANDING_WAIT_MS", "-1",
        "a message over RDMA waits so long to be put where the receiver wants it, so that no core copies it; -1: "
        "as long as that pays",
        -1, 60'000},
    SettingRow{Setting::OfiProvider, "WREATH_OFI_PROVIDER", "",
               "libfabric's provider, as tcp;ofi_rxm, alike on all ranks; empty: FI_PROVIDER's, else efa where it is"},
    SettingRow{Setting::PortRange, "WREATH_PORT_RANGE", "",
               "ports where ranks of several hosts wait for each other, as 40000-40100; empty: any"},
    SettingRow{Setting::Ssh, "WREATH_SSH", "", "how `wreath run` reaches other hosts; empty: ssh without questions"},
    SettingRow{Setting::RecorderDir, "WREATH_RECORDER_DIR", ".",
               "where wreath-RANK.json is written when a communicator fails"},
    SettingRow{Setting::Faults, "WREATH_FAULTS", "",
               "faults of links, for tests: delay, drop, close, truncate = probability per message, delay_ms, seed"},
    SettingRow{Setting::Trace, "WREATH_TRACE", "",
               "folder where every rank leaves a trace of its calls and steps, for `wreath trace`"},
    SettingRow{Setting::Tuning, "WREATH_TUNING", "",
               "file of `wreath tune`; none: only the library's own rules; empty: this machine's in the user's cache"},
    SettingRow{Setting::Library, "WREATH_LIBRARY", "",
               "libwreath.so.0, or its folder, that the Python package loads; empty: the first of where it looks"},
    SettingRow{Setting::TestLong, "WREATH_TEST_LONG", "0", "1: tests run their long matrices"},
    SettingRow{Setting::SpinUs, "WREATH_SPIN_US", "-1",
               "how long a waiter spins before it sleeps; -1: 50 or as long as its call has worked, but 0 without a "
               "core for each rank",
               -1, 1'000'000},
    SettingRow{
        Setting::SingleCopyBytes, "WREATH_SINGLE_COPY_BYTES", "auto",
        "messages of so many bytes are read out of the sender's memory, on one host; 0: none; auto: by processor, of a "
        "device 16 KiB",
        0, std::int64_t{1} << 40},
    SettingRow{Setting::StreamBytes, "WREATH_STREAM_BYTES", "auto",
               "outputs of so many bytes are written past the caches, on one host; 0: none; auto: by cache and ranks",
               0, std::int64_t{1} << 40},
    SettingRow{Setting::LowLatencyBytes, "WREATH_LOW_LATENCY_BYTES", "0",
               "all_reduces of up to so many bytes run as kernels of their own, where all ranks have devices; 0: none",
               0, std::int64_t{1} << 20},
    SettingRow{Setting::DeviceName, "WREATH_DEVICE", "",
               "the device of this rank's calls on device memory: cuda:N, host or none; empty: CUDA's current one"},
    SettingRow{Setting::JobRank, "RANK", "", "this process's rank (torchrun's name)", 0, (1 << 20) - 1},
    SettingRow{Setting::WorldSize, "WORLD_SIZE", "", "number of ranks (torchrun's name)", 1, 1 << 20},
    SettingRow{Setting::MasterAddr, "MASTER_ADDR", "", "host or address of rank 0 (torchrun's name)"},
    SettingRow{Setting::MasterPort, "MASTER_PORT", "", "port of the launcher's store (torchrun's name)", 1,
               kMaximumPort},
    SettingRow{Setting::LocalRank, "LOCAL_RANK", "", "number among the ranks of the host (torchrun's name)", 0,
               (1 << 20) - 1},
    SettingRow{Setting::AgentStore, "TORCHELASTIC_USE_AGENT_STORE", "", "True: torchrun itself listens at MASTER_PORT"},
    SettingRow{Setting::SlurmRank, "SLURM_PROCID", "", "this process's rank in its step (Slurm)", 0, (1 << 20) - 1},
    SettingRow{Setting::SlurmStep, "SLURM_STEP_ID", "", "the step; a process without one is not a rank (Slurm)"},
    SettingRow{Setting::SlurmStepRanks, "SLURM_STEP_NUM_TASKS", "", "number of ranks of the step (Slurm)", 1, 1 << 20},
    SettingRow{Setting::SlurmRanks, "SLURM_NTASKS", "", "the same, where the step does not say (Slurm)", 1, 1 << 20},
    SettingRow{Setting::SlurmLocalRank, "SLURM_LOCALID", "", "number among the ranks of the host (Slurm)", 0,
               (1 << 20) - 1},
    SettingRow{Setting::SlurmStepNodes, "SLURM_STEP_NODELIST", "", "nodes of the step; rank 0 is on the first (Slurm)"},
    SettingRow{Setting::SlurmNodes, "SLURM_JOB_NODELIST", "", "the same, where the step does not say (Slurm)"},
    SettingRow{Setting::SlurmJob, "SLURM_JOB_ID", "", "the job: its port is 61000 + this % 4520 (Slurm)", 0,
               std::int64_t{1} << 32},
    SettingRow{Setting::OpenMpiRank, "OMPI_COMM_WORLD_RANK", "", "this process's rank (Open MPI)", 0, (1 << 20) - 1},
    SettingRow{Setting::OpenMpiRanks, "OMPI_COMM_WORLD_SIZE", "", "number of ranks (Open MPI)", 1, 1 << 20},
    SettingRow{Setting::OpenMpiLocalRank, "OMPI_COMM_WORLD_LOCAL_RANK", "",
               "number among the ranks of the host (Open MPI)", 0, (1 << 20) - 1},
    SettingRow{Setting::PmiRank, "PMI_RANK", "", "this process's rank (MPICH, PMI)", 0, (1 << 20) - 1},
    SettingRow{Setting::PmiRanks, "PMI_SIZE", "", "number of ranks (MPICH, PMI)", 1, 1 << 20},
    SettingRow{Setting::PmiLocalRank, "MPI_LOCALRANKID", "", "number among the ranks of the host (MPICH)", 0,
               (1 << 20) - 1},
    SettingRow{Setting::PmiDescriptor, "PMI_FD", "", "the socket to the launcher, which carries the job's key (PMI)", 0,
               1 << 20},
    SettingRow{Setting::PmixRank, "PMIX_RANK", "",
               "this process's rank, for which another variable has the number (PMIx)", 0, std::int64_t{1} << 32},
    SettingRow{Setting::PmixNamespace, "PMIX_NAMESPACE", "", "set: the launcher carries the job's key by PMIx (PMIx)"},
    SettingRow{Setting::FiProvider, "FI_PROVIDER", "",
               "where WREATH_OFI_PROVIDER is not set: as that, if it names one provider (libfabric)"},
    SettingRow{Setting::NcclDebug, "NCCL_DEBUG", "",
               "libnccl.so.2, where WREATH_DEBUG is not set: VERSION, WARN, INFO or TRACE"},
    SettingRow{Setting::NcclDebugFile, "NCCL_DEBUG_FILE", "",
               "libnccl.so.2, where WREATH_DEBUG_FILE is not set: as that"},
    SettingRow{Setting::NcclDebugSubsystems, "NCCL_DEBUG_SUBSYS", "",
               "libnccl.so.2 says that it has no subsystems: INFO is whole"},
    SettingRow{Setting::NcclSocketInterface, "NCCL_SOCKET_IFNAME", "",
               "libnccl.so.2, where WREATH_SOCKET_IFNAME is not set: as that"},
    SettingRow{Setting::NcclIbHca, "NCCL_IB_HCA", "", "libnccl.so.2, where WREATH_HCA is not set: as that"},
    SettingRow{Setting::NcclAlgorithm, "NCCL_ALGO", "",
               "libnccl.so.2, where WREATH_ALGORITHM is not set: Ring or Tree; what Wreath lacks is an error, unless "
               "excluded by ^"},
    SettingRow{Setting::NcclProtocol, "NCCL_PROTO", "",
               "libnccl.so.2 says that Wreath has no protocols to choose among"},
    SettingRow{Setting::NcclCommId, "NCCL_COMM_ID", "",
               "libnccl.so.2 refuses to make an id for an address that is given: an error"},
    SettingRow{Setting::NcclHostId, "NCCL_HOSTID", "",
               "ranks of one machine with different values meet and talk as if on different hosts"},
    SettingRow{Setting::NcclTopologyDump, "NCCL_TOPO_DUMP_FILE", "",
               "libnccl.so.2 writes there, once, the machine as Wreath sees it"},
    SettingRow{Setting::NcclLibrary, "WREATH_NCCL_LIBRARY", "",
               "libnccl.so.2 that libwreath_nccl_audit.so puts in place of others; empty: the one beside it"},
    SettingRow{Setting::CudaQueues, "CUDA_DEVICE_MAX_CONNECTIONS", "8",
               "queues of the hardware for CUDA's streams; fewer than the streams of calls is a warning", 1, 32},
    SettingRow{Setting::CacheHome, "XDG_CACHE_HOME", "", "the user's cache; empty: .cache in HOME"},
    SettingRow{Setting::NoColor, "NO_COLOR", "", "set: nothing is printed in colour"},
    SettingRow{Setting::Home, "HOME", "",
               "the user's folder; .config/wreath/key below it holds a key made by `wreath key`"},
};

// A variable of an earlier version, and the way to say the same now.
struct FormerSetting {
  std::string_view name;
  std::string_view replacement;
};
inline constexpr std::array kFormerSettings{
    FormerSetting{"WREATH_EXECUTOR", "--executor of the perf tools, or CommunicatorOptions::overrides.executor"},
    FormerSetting{"WREATH_SLOTS", "CommunicatorOptions::overrides.slot_count"},
};

constexpr const SettingRow& row(Setting setting) { return kSettings[static_cast<std::size_t>(setting)]; }

// Returns whether the variable is in the environment and not empty, or substitute() gave it a value.
bool is_set(Setting setting);

// Returns the variable's value, or its default.
std::string setting_text(Setting setting);
// Returns the value as a whole number. An InvalidArgument error names the variable, its value and the row's range.
Result<std::int64_t> setting_integer(Setting setting);
// Writes the value to an integer whose type holds the row's range. The error is that of setting_integer().
template <typename T>
Status read_setting(Setting setting, T& into) {
  const auto value = setting_integer(setting);
  if (!value) return value.error();
  into = static_cast<T>(*value);
  return {};
}
// Returns the value in bytes, which takes K, M, G, T. An InvalidArgument error names the variable, its value and the
// row's range.
Result<std::uint64_t> setting_bytes(Setting setting);
// Returns the value of one of 1 0 true false yes no on off. An InvalidArgument error names the variable, its value and
// what is allowed.
Result<bool> setting_boolean(Setting setting);

// Sets the value of a setting for where its variable is not set. Code around the library (bindings/nccl) calls this
// before the setting's first use. Later calls replace earlier ones.
void substitute(Setting setting, std::string value);

// Returns HOME, or the user's folder as the system knows it; empty where there is none.
std::string home_directory();

// Returns a sentence for each WREATH_* variable of the environment that is not in the table: what replaced it, or the
// nearest name of the table where one is near.
std::vector<std::string> unknown_settings();

// Logs the sentences of unknown_settings() as warnings, once per process.
void warn_unknown_settings();

}  // namespace wreath
