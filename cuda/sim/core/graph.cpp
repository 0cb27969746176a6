// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "config.h"
#include "contents.h"

namespace gpuwatch::sim {

namespace {

std::atomic<uint32_t> g_next_graph_id{1};
std::atomic<uint64_t> g_next_capture_id{1};

// Work for which a launch costs the device its start-up latency once, at the front of the graph.
constexpr Ns kNoLatency = 0;

}  // namespace

Graph::Graph() : id(g_next_graph_id.fetch_add(1)) {}

Graph::Graph(const Graph& other) : Graph() {
  for (const auto& node : other.nodes) add(node->op, node->after);
}

uint32_t Graph::add(Op op, std::vector<uint32_t> after) {
  auto node = std::make_unique<GraphNode>();
  const auto index = static_cast<uint32_t>(nodes.size());
  op.graph_id = id;
  op.graph_node = (uint64_t{id} << 32) | (index + 1);
  node->op = std::move(op);
  node->after = std::move(after);
  node->graph = this;
  nodes.push_back(std::move(node));
  return index;
}

int64_t Graph::index_of(const void* node) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].get() == node) return static_cast<int64_t>(i);
  }
  return -1;
}

bool begin_capture(Stream& stream, Graph* into) {
  std::lock_guard lock(Timeline::instance().mutex());
  if (stream.capture || stream.rule == StreamRule::kLegacyDefault) return false;
  stream.capture = std::make_shared<Capture>();
  stream.capture->id = g_next_capture_id.fetch_add(1);
  stream.capture->origin = &stream;
  stream.capture->graph = into ? into : new Graph;
  stream.capture->streams.push_back(&stream);
  stream.capture_tail.clear();
  return true;
}

Graph* end_capture(Stream& stream) {
  std::lock_guard lock(Timeline::instance().mutex());
  const auto capture = stream.capture;
  if (!capture || capture->origin != &stream) return nullptr;
  for (Stream* s : capture->streams) {
    s->capture.reset();
    s->capture_tail.clear();
  }
  return capture->invalidated ? nullptr : capture->graph;
}

bool is_capturing(Stream& stream) {
  std::lock_guard lock(Timeline::instance().mutex());
  return stream.capture != nullptr;
}

void invalidate_capture(Stream& stream) {
  std::lock_guard lock(Timeline::instance().mutex());
  if (stream.capture) stream.capture->invalidated = true;
}

CapturedPoint captured_point(Stream& stream) {
  std::lock_guard lock(Timeline::instance().mutex());
  return {stream.capture, stream.capture_tail};
}

void join_capture(Stream& stream, const CapturedPoint& point) {
  std::lock_guard lock(Timeline::instance().mutex());
  if (!stream.capture) {
    stream.capture = point.capture;
    stream.capture_tail.clear();
    point.capture->streams.push_back(&stream);
  }
  for (uint32_t node : point.nodes) {
    if (std::find(stream.capture_tail.begin(), stream.capture_tail.end(), node) ==
        stream.capture_tail.end()) {
      stream.capture_tail.push_back(node);
    }
  }
}

void issue(Stream& stream, Op op) {
  {
    std::lock_guard lock(Timeline::instance().mutex());
    if (stream.capture) {
      const uint32_t node = stream.capture->graph->add(std::move(op), stream.capture_tail);
      stream.capture_tail.assign(1, node);
      return;
    }
  }
  Timeline::instance().submit(stream, std::move(op));
}

GraphExec::GraphExec(const Graph& graph, uint32_t device) : device_(device) {
  replace(graph);
}

GraphExec::~GraphExec() {
  for (Stream* lane : lanes_) Timeline::instance().destroy_stream(lane);
}

void GraphExec::replace(const Graph& graph) {
  graph_ = std::make_unique<Graph>(graph);
  assign_lanes();
}

// A node continues the lane of the first dependency that is that lane's end; else it opens a lane. Lane 0 is
// the launching stream.
void GraphExec::assign_lanes() {
  const auto& nodes = graph_->nodes;
  lane_of_node_.assign(nodes.size(), 0);
  is_leaf_.assign(nodes.size(), true);
  std::vector<int64_t> lane_end;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    int64_t lane = -1;
    for (uint32_t dependency : nodes[i]->after) {
      is_leaf_[dependency] = false;
      if (lane < 0 && lane_end[lane_of_node_[dependency]] == dependency) lane = lane_of_node_[dependency];
    }
    if (lane < 0) {
      lane = static_cast<int64_t>(lane_end.size());
      lane_end.push_back(-1);
    }
    lane_of_node_[i] = static_cast<uint32_t>(lane);
    lane_end[lane] = i;
  }
  while (lanes_.size() + 1 < lane_end.size()) {
    lanes_.push_back(Timeline::instance().create_stream(device_, StreamRule::kNonBlocking, 0));
  }
}

void GraphExec::launch(Stream& stream, uint32_t correlation) {
  Timeline& timeline = Timeline::instance();
  Contents::instance().forget_all();
  const Ns launched_ns = now_ns();
  const MarkerRef begin = timeline.record(stream);
  const auto span = std::make_shared<GraphSpan>();
  std::vector<MarkerRef> ends(graph_->nodes.size());
  Op whole;
  whole.kind = OpKind::kGraph;
  whole.correlation = correlation;
  whole.graph_id = graph_->id;
  whole.span = span;
  whole.submit_ns = launched_ns;
  for (size_t i = 0; i < graph_->nodes.size(); ++i) {
    const GraphNode& node = *graph_->nodes[i];
    Op op = node.op;
    op.correlation = correlation;
    op.span = span;
    if (!node.after.empty()) op.latency_ns = kNoLatency;
    op.submit_ns = launched_ns;  // the device has the whole graph: no node waits for this loop to come to it
    op.signals = ends[i] = std::make_shared<Marker>();
    op.waits.push_back(begin);
    for (uint32_t dependency : node.after) op.waits.push_back(ends[dependency]);
    if (is_leaf_[i]) whole.waits.push_back(ends[i]);
    const uint32_t lane = lane_of_node_[i];
    timeline.submit(lane == 0 ? stream : *lanes_[lane - 1], std::move(op));
  }
  timeline.submit(stream, std::move(whole));
}

}  // namespace gpuwatch::sim
