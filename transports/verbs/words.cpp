// Says in words what adapters say by number: see words.hpp.
#include "transports/verbs/words.hpp"

#include <fmt/format.h>

#include <string_view>

namespace wreath {
namespace {

// A failure of Link class is cured by a new connection. One of class Disturbed is, where the port was disturbed.
enum class Cure : std::uint8_t { None, Link, Disturbed };

struct StatusRow {
  ibv_wc_status status;
  std::string_view text;
  ErrorCode code = ErrorCode::System;
  Cure cure = Cure::None;
};

constexpr StatusRow kStatusRows[] = {
    {IBV_WC_LOC_LEN_ERR, "a request is longer than its memory or a message may be"},
    {IBV_WC_LOC_QP_OP_ERR, "the adapter could not carry out a request", ErrorCode::System, Cure::Disturbed},
    {IBV_WC_LOC_EEC_OP_ERR, "the adapter could not carry out a request"},
    {IBV_WC_LOC_PROT_ERR, "a request names memory that is not registered"},
    {IBV_WC_WR_FLUSH_ERR, "the queue pair failed, and its requests were dropped", ErrorCode::System, Cure::Disturbed},
    {IBV_WC_MW_BIND_ERR, "a memory window could not be bound"},
    {IBV_WC_BAD_RESP_ERR, "the peer's adapter gave an answer that makes no sense", ErrorCode::PeerLost},
    {IBV_WC_LOC_ACCESS_ERR, "a peer's write was refused: it may not write there"},
    {IBV_WC_REM_INV_REQ_ERR, "the peer's adapter refused a request as wrong", ErrorCode::PeerLost},
    {IBV_WC_REM_ACCESS_ERR, "the peer's adapter refused access to its memory", ErrorCode::PeerLost},
    {IBV_WC_REM_OP_ERR, "the peer's adapter could not carry out a request", ErrorCode::PeerLost},
    {IBV_WC_RETRY_EXC_ERR, "the peer's adapter does not answer", ErrorCode::PeerLost, Cure::Link},
    {IBV_WC_RNR_RETRY_EXC_ERR, "the peer has no receives left", ErrorCode::PeerLost},
    {IBV_WC_LOC_RDD_VIOL_ERR, "a request is of another domain than its queue pair"},
    {IBV_WC_REM_INV_RD_REQ_ERR, "the peer's adapter refused a read as wrong", ErrorCode::PeerLost},
    {IBV_WC_REM_ABORT_ERR, "the peer's adapter gave a request up", ErrorCode::PeerLost},
    {IBV_WC_INV_EECN_ERR, "a request names a context that is not there"},
    {IBV_WC_INV_EEC_STATE_ERR, "a request's context is not ready"},
    {IBV_WC_FATAL_ERR, "the adapter failed"},
    {IBV_WC_RESP_TIMEOUT_ERR, "the peer's adapter did not answer in time", ErrorCode::PeerLost, Cure::Link},
    {IBV_WC_GENERAL_ERR, "the adapter reports an error without a reason"},
    {IBV_WC_TM_ERR, "the adapter could not match a tag"},
    {IBV_WC_TM_RNDV_INCOMPLETE, "a tagged message was not whole"},
};

struct EventRow {
  ibv_event_type type;
  std::string_view text;
  EventScope scope;
  bool disturbs = false;
};

constexpr EventRow kEventRows[] = {
    {IBV_EVENT_CQ_ERR, "its completion queue overflowed", EventScope::Queue},
    {IBV_EVENT_QP_FATAL, "a queue pair failed", EventScope::QueuePair},
    {IBV_EVENT_QP_REQ_ERR, "a peer's request was wrong", EventScope::QueuePair},
    {IBV_EVENT_QP_ACCESS_ERR, "a peer's request was refused: it may not access that memory", EventScope::QueuePair},
    {IBV_EVENT_COMM_EST, "a connection stands", EventScope::None},
    {IBV_EVENT_SQ_DRAINED, "a send queue is empty", EventScope::None},
    {IBV_EVENT_PATH_MIG, "a connection took its other path", EventScope::QueuePair},
    {IBV_EVENT_PATH_MIG_ERR, "a connection could not take its other path", EventScope::QueuePair},
    {IBV_EVENT_DEVICE_FATAL, "the adapter failed", EventScope::Device, true},
    {IBV_EVENT_PORT_ACTIVE, "the port came up", EventScope::Port},
    {IBV_EVENT_PORT_ERR, "the port went down", EventScope::Port, true},
    {IBV_EVENT_LID_CHANGE, "the port got another LID", EventScope::Port, true},
    {IBV_EVENT_PKEY_CHANGE, "the port's partition keys changed", EventScope::Port, true},
    {IBV_EVENT_SM_CHANGE, "another subnet manager took over", EventScope::Port},
    {IBV_EVENT_SRQ_ERR, "a shared receive queue failed", EventScope::Device},
    {IBV_EVENT_SRQ_LIMIT_REACHED, "a shared receive queue runs short of receives", EventScope::Device},
    {IBV_EVENT_QP_LAST_WQE_REACHED, "a queue pair took its last receive", EventScope::None},
    {IBV_EVENT_CLIENT_REREGISTER, "the subnet manager asks all to register again", EventScope::Port},
    {IBV_EVENT_GID_CHANGE, "the port's addresses changed", EventScope::Port, true},
    {IBV_EVENT_WQ_FATAL, "a work queue failed", EventScope::Device},
};

}  // namespace

StatusWords status_words(ibv_wc_status status, bool disturbed) {
  for (const StatusRow& row : kStatusRows) {
    if (row.status != status) continue;
    return {std::string(row.text), row.code, row.cure == Cure::Link || (row.cure == Cure::Disturbed && disturbed)};
  }
  return {fmt::format("the adapter reports status {}", static_cast<int>(status))};
}

EventWords event_words(ibv_event_type type) {
  for (const EventRow& row : kEventRows) {
    if (row.type == type) return {std::string(row.text), row.scope, row.disturbs};
  }
  return {fmt::format("the adapter reports event {}", static_cast<int>(type))};
}

}  // namespace wreath
