// SPDX-License-Identifier: Apache-2.0
// Graphs: operations with edges between them, captured from streams or built node by node, and their launch.
// A node's dependencies are indices of earlier nodes, so that the vector's order is a valid order of
// execution. Objects are owned by the handles the program holds. One graph is used by one thread at a time
// (as in CUDA).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "timeline.h"

namespace gpuwatch::sim {

struct GraphNode {
  Op op;  // kMarker: an empty node
  std::vector<uint32_t> after;
  const void* graph = nullptr;
};

struct Graph {
  uint32_t id = 0;
  // Node handles are pointers to these, hence stable.
  std::vector<std::unique_ptr<GraphNode>> nodes;

  Graph();
  Graph(const Graph& other);
  Graph& operator=(const Graph&) = delete;

  uint32_t add(Op op, std::vector<uint32_t> after);
  // The node's index, or -1.
  int64_t index_of(const void* node) const;
};

// Streams that capture into one graph. All fields are guarded by the timeline's lock.
struct Capture {
  uint64_t id = 0;
  Stream* origin = nullptr;
  Graph* graph = nullptr;
  std::vector<Stream*> streams;
  bool invalidated = false;
};

bool begin_capture(Stream& stream, Graph* into);
// The graph, or null if the stream is not the origin or the capture was invalidated.
Graph* end_capture(Stream& stream);
bool is_capturing(Stream& stream);
void invalidate_capture(Stream& stream);

// A captured event record: the nodes that a wait for it depends on.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> nodes;
};
CapturedPoint captured_point(Stream& stream);
// Makes the stream part of the point's capture.
void join_capture(Stream& stream, const CapturedPoint& point);

// Into the stream, or into the graph that it captures.
void issue(Stream& stream, Op op);

// An instantiated graph, with streams of its own for branches that may overlap.
class GraphExec {
 public:
  GraphExec(const Graph& graph, uint32_t device);
  ~GraphExec();
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  void launch(Stream& stream, uint32_t correlation);
  void replace(const Graph& graph);
  uint32_t id() const { return graph_->id; }

 private:
  void assign_lanes();

  std::unique_ptr<Graph> graph_;
  uint32_t device_;
  std::vector<uint32_t> lane_of_node_;
  std::vector<bool> is_leaf_;
  std::vector<Stream*> lanes_;
};

}  // namespace gpuwatch::sim
