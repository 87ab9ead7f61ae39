// This file makes links over communicators of two ranks.
#include "training/pipeline/links.hpp"

namespace wreath::training {

namespace {

// The kinds of links between two neighbouring ranks. Links of one kind share no rank.
enum class LinkKind { Even, Odd, Wrap };

// Returns the first rank of this rank's link of that kind, or -1 where it has none.
int link_of(LinkKind kind, int rank, int ranks) {
  if (kind == LinkKind::Wrap) return rank == 0 || rank == ranks - 1 ? ranks - 1 : -1;
  const int parity = kind == LinkKind::Odd ? 1 : 0;
  const int first = rank % 2 == parity ? rank : rank - 1;
  return first >= 0 && first + 1 < ranks ? first : -1;
}

Status connect(LinkKind kind, Group& group, Links& links) {
  const int link = link_of(kind, group.rank(), group.ranks());
  const bool first = link == group.rank();
  for (const bool gradients : {false, true}) {
    Result<Communicator> part = group.communicator().split(link, group.rank());
    if (!part) return part.error();
    if (link < 0) continue;
    Link& end = gradients ? (first ? links.gradients_in : links.gradients_out)
                          : (first ? links.activations_out : links.activations_in);
    end = Link(Group(group.name(), std::make_shared<Communicator>(std::move(*part)), group.accounting()));
  }
  return {};
}

}  // namespace

Buffer<float> BoundaryBuffers::take() {
  if (free_.empty()) return {*memory_, MemoryTag::Activations, count_, Contents::Undefined};
  Buffer<float> buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void Link::post_receive(BoundaryBuffers& buffers) {
  in_flight_.push_back({buffers.take(), {}});
  InFlight& receive = in_flight_.back();
  receive.pending = group_->start_recv(receive.buffer.span(), peer());
}

Buffer<float> Link::receive() {
  in_flight_.front().pending.wait();
  Buffer<float> message = std::move(in_flight_.front().buffer);
  in_flight_.pop_front();
  return message;
}

void Link::send(Buffer<float> message, BoundaryBuffers& buffers) {
  while (!in_flight_.empty() && in_flight_.front().pending.done()) {
    in_flight_.front().pending.wait();
    buffers.give(std::move(in_flight_.front().buffer));
    in_flight_.pop_front();
  }
  in_flight_.push_back({std::move(message), {}});
  InFlight& sent = in_flight_.back();
  sent.pending = group_->start_send(sent.buffer.span(), peer());
}

void Link::finish_sending(BoundaryBuffers& buffers) {
  for (; !in_flight_.empty(); in_flight_.pop_front()) {
    in_flight_.front().pending.wait();
    buffers.give(std::move(in_flight_.front().buffer));
  }
}

void Link::abort() noexcept {
  if (group_) static_cast<void>(group_->communicator().abort());
}

Result<Links> connect_links(Group& group, bool wrap) {
  Links links;
  if (group.alone()) return links;
  WREATH_TRY(connect(LinkKind::Even, group, links));
  if (group.ranks() > 2) WREATH_TRY(connect(LinkKind::Odd, group, links));
  if (wrap) WREATH_TRY(connect(LinkKind::Wrap, group, links));
  return links;
}

}  // namespace wreath::training
